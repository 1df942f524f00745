"""A trace report as one HTML file: opens anywhere, loads nothing, runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from bot.reports.trace import Measured, Section, labelled_notes, sections
from bot.reports.trace_rows import (
    GROUPS,
    PARTITION,
    Json,
    difference,
    duration,
    read,
    share_of_region,
    shown_rows,
    value,
    verdict,
)
from gpu_runner.timeline_svg import svg_timeline

CLOSER = 8  # times wider than the overview

STYLE = """
:root{color-scheme:light dark;--fg:#1f2328;--mut:#57606a;--bg:#fff;--card:#f6f8fa;--line:#d1d9e0;
--k:#2da44e;--h:#0969da;--d:#8250df;--o:#9a6700;--i:#d1d9e0;--good:#1a7f37;--bad:#cf222e}
@media (prefers-color-scheme:dark){:root{--fg:#f0f6fc;--mut:#9198a1;--bg:#0d1117;--card:#151b23;
--line:#3d444d;--k:#3fb950;--h:#4493f8;--d:#ab7df8;--o:#d29922;--i:#3d444d;--good:#3fb950;
--bad:#f85149}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,sans-serif}main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:22px;margin:0 0 2px;overflow-wrap:anywhere}h2{font-size:18px;margin:34px 0 4px}
h3{font-size:14px;margin:22px 0 8px;color:var(--mut);font-weight:600}p{margin:4px 0}
.mut{color:var(--mut)}.lead{font-size:17px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
.tile b{display:block;font-size:20px;font-variant-numeric:tabular-nums}
.tile span{color:var(--mut);font-size:13px}
.meter{position:relative;height:6px;border-radius:3px;background:var(--i);margin-top:9px}
.meter i{position:absolute;left:0;top:0;bottom:0;border-radius:3px}
.meter .can{background:var(--h);opacity:.3}.meter .is{background:var(--h)}
.parts{display:flex;height:26px;border-radius:6px;overflow:hidden;margin:4px 0}
.parts i{display:block;min-width:0}
.compute{background:var(--k)}.exposed_h2d{background:var(--h)}.exposed_d2h{background:var(--d)}
.memset_and_device_copies{background:var(--o)}.idle{background:var(--i)}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--mut);margin:6px 0}
.key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}
.role{display:inline-block;width:46px;font-size:13px;color:var(--mut)}
.bar{display:flex;align-items:center}.bar .parts{flex:1}
.wide{overflow-x:auto}.fit svg{width:100%;height:auto;display:block}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 10px;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}thead th,.group th{color:var(--mut);font-weight:600;
font-size:13px}.group th{padding-top:16px}.good{color:var(--good)}.bad{color:var(--bad)}
summary{cursor:pointer;color:var(--mut);margin:10px 0}li{margin:4px 0}
"""


def html_report(files: Sequence[Measured]) -> str:
    """One file alone, or base and head side by side."""
    title = " → ".join(escape(file.numbers["source"]) for file in files)
    layouts = ", ".join(dict.fromkeys(file.numbers["format"] for file in files))
    region = files[0].numbers["region"]
    where = "first to last GPU event" if region is None else f"region {region}"
    body = [
        f"<h1>{title}</h1>",
        f'<p class="mut">{escape(layouts)} · {escape(where)}</p>',
        *_notes(files),
    ]
    for section in sections(files):
        body += _section(section)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # The file shows strangers' names: were one to escape, it could still load nothing.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _notes(files: Sequence[Measured]) -> Iterator[str]:
    notes = list(labelled_notes(files))
    if notes:
        yield f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"


def _section(section: Section) -> Iterator[str]:
    yield f"<h2>{escape(section.title)}</h2>"
    yield f'<p class="lead">{escape(section.sentence)}</p>'
    if not any(device["region_us"] for device in section.devices):
        return
    yield f'<div class="tiles">{"".join(_tiles(section.devices))}</div>'
    yield "<h3>Where the time goes</h3>"
    yield from _partition(section.devices)
    yield "<h3>Timeline</h3>"
    yield f'<div class="fit">{svg_timeline(section.tracks)}</div>'
    closer = svg_timeline(section.tracks, 1000 * CLOSER)
    yield f"<details><summary>{CLOSER} times closer</summary>"
    yield f'<div class="wide">{closer}</div></details>'
    yield "<h3>All numbers</h3>"
    yield from _table(section.devices)


def _tiles(devices: Sequence[Json]) -> Iterator[str]:
    overlap = [_percent(device["overlap_percent"]) for device in devices]
    ceiling = [_percent(device["overlap_ceiling_percent"]) for device in devices]
    last = devices[-1]
    meter = ""
    if last["overlap_percent"] is not None:
        meter = (
            f'<div class="meter"><i class="can" style="width:{last["overlap_ceiling_percent"]}%">'
            f'</i><i class="is" style="width:{last["overlap_percent"]}%"></i></div>'
        )
    yield _tile(overlap, f"copies under kernels, of {' → '.join(ceiling)} possible", meter)
    for key, words in (
        ("exposed_copy_us", "of copies exposed"),
        ("gpu_idle_us", "with an idle GPU"),
        ("host_sync_us", "of host waits"),
    ):
        yield _tile([duration(device[key]) for device in devices], words)


def _percent(number: float | None) -> str:
    return "n/a" if number is None else f"{number:.2f} %"


def _tile(values: Sequence[str], words: str, more: str = "") -> str:
    # The arrow may begin a new line, a unit may not.
    shown = " → ".join(value.replace(" ", "\u00a0") for value in dict.fromkeys(values))
    return f'<div class="tile"><b>{escape(shown)}</b><span>{escape(words)}</span>{more}</div>'


def _partition(devices: Sequence[Json]) -> Iterator[str]:
    longest = max(device["region_us"] for device in devices)
    roles = ("base", "head") if len(devices) == 2 else ("",)
    for role, device in zip(roles, devices, strict=True):
        width = 100 * device["region_us"] / longest
        cells = "".join(
            f'<i class="{key}" style="width:{device["partition_percent"][key]}%" '
            f'title="{label}: {duration(device["partition_us"][key])}, '
            f'{device["partition_percent"][key]:.2f} %"></i>'
            for key, label in PARTITION
        )
        tag = f'<span class="role">{role}</span>' if role else ""
        yield (
            f'<div class="bar">{tag}<div style="flex:1"><div class="parts" '
            f'style="width:{width:.2f}%">{cells}</div></div></div>'
        )
    keys = "".join(
        f'<span><i class="{key}"></i>{label} '
        f"{' → '.join(_percent(device['partition_percent'][key]) for device in devices)}</span>"
        for key, label in PARTITION
    )
    yield f'<div class="key">{keys}</div>'


def _table(devices: tuple[Json, ...]) -> Iterator[str]:
    two = len(devices) == 2
    heads = ("", "base", "head", "difference") if two else ("", "", "of the region")
    yield f"<table><thead><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead><tbody>"
    for group in GROUPS:
        rows = shown_rows(group, devices)
        if rows:
            yield f'<tr class="group"><th colspan="{len(heads)}">{group.title}</th></tr>'
        for row in rows:
            cells = "".join(f"<td>{value(row, read(row, device))}</td>" for device in devices)
            if two:
                one, other = (read(row, device) for device in devices)
                tone = ("bad", "", "good")[verdict(row, one, other) + 1]
                cells += f'<td class="{tone}">{difference(row, one, other)}</td>'
            else:
                cells += f"<td>{share_of_region(row, devices[0])}</td>"
            yield f"<tr><td>{row.label}</td>{cells}</tr>"
    yield "</tbody></table>"
