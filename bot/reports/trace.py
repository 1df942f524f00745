"""A trace report as a person reads it: text for the terminal, Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bot.reports.trace_rows import (
    GROUPS,
    PARTITION,
    Json,
    device_title,
    difference,
    duration,
    headline,
    pair_headline,
    pairs,
    read,
    share_of_region,
    shown_rows,
    value,
)
from gpu_runner.timeline import Track, mermaid_timeline, text_timeline

BAR = 40
RULE = 78


@dataclass(frozen=True, slots=True)
class Measured:
    """One file: its numbers, and a track per device in the same order."""

    numbers: Json
    tracks: tuple[Track, ...]


def text_report(files: Sequence[Measured], mermaid: bool = False) -> str:
    """One file alone, or base and head side by side."""
    lines = list(_text_pair(*files) if len(files) == 2 else _text_single(files[0]))
    lines += _text_notes(files)
    if mermaid:
        lines += ["", *(mermaid_timeline(tracks) for tracks in _scales(files))]
    return "\n".join(lines) + "\n"


def _text_single(file: Measured) -> Iterator[str]:
    numbers = file.numbers
    yield f"{numbers['source']} ({numbers['format']})"
    for device, track in zip(numbers["devices"], file.tracks, strict=True):
        yield ""
        yield f"{device_title(device)} ".ljust(RULE, "─")
        yield _region(numbers, device)
        yield headline(device)
        yield from _partition(device)
        timeline = text_timeline([track])
        if timeline:
            yield ""
            yield timeline
        for group in GROUPS:
            rows = shown_rows(group, [device]) if device["region_us"] else ()
            if rows:
                yield ""
                yield group.title
            for row in rows:
                number = value(row, read(row, device))
                share = share_of_region(row, device)
                yield f"  {row.label:<24} {number:>16} {share:>10}".rstrip()


def _region(numbers: Json, device: Json) -> str:
    length = duration(device["region_us"])
    if numbers["region"] is not None:
        return f"Region `{numbers['region']}`: {length}."
    return f"From the first GPU event to the last: {length}."


def _partition(device: Json) -> Iterator[str]:
    if not device["region_us"]:
        return
    yield ""
    yield "Where the time goes"
    for key, label in PARTITION:
        part, share = device["partition_us"][key], device["partition_percent"][key]
        bar = _bar(share)
        yield f"  {label:<24} {duration(part):>16} {share:>8.2f} %  {bar}".rstrip()


def _bar(percent: float) -> str:
    eighths = round(percent * BAR * 8 / 100)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "" if whole or not percent else "▏")


def _text_pair(base: Measured, head: Measured) -> Iterator[str]:
    yield f"base: {base.numbers['source']} ({base.numbers['format']})"
    yield f"head: {head.numbers['source']} ({head.numbers['format']})"
    matched = pairs(base.numbers, head.numbers)
    if not matched:
        yield "The files have no device in common; --device picks one of each."
    for left, right in matched:
        yield ""
        yield f"{_pair_title(left, right)} ".ljust(RULE, "─")
        yield pair_headline(left, right)
        timeline = text_timeline([_track(base, left, "base"), _track(head, right, "head")])
        if timeline:
            yield ""
            yield timeline
        yield ""
        yield from _partition_pair(left, right)
        yield ""
        yield f"  {'':<24} {'base':>14} {'head':>14}   difference"
        for group in GROUPS:
            yield group.title
            for row in shown_rows(group, [left, right]):
                one, other = read(row, left), read(row, right)
                yield (
                    f"  {row.label:<24} {value(row, one):>14} {value(row, other):>14}   "
                    f"{difference(row, one, other)}"
                ).rstrip()
    yield from _left_over(base, head, matched)


def _partition_pair(left: Json, right: Json) -> Iterator[str]:
    yield "Where the time goes"
    for key, label in PARTITION:
        for name, device in ((label, left), ("", right)):
            share = device["partition_percent"][key]
            role = "base" if device is left else "head"
            line = (
                f"  {name:<24} {role} {duration(device['partition_us'][key]):>14} {share:>7.2f} %"
            )
            yield f"{line}  {_bar(share)}".rstrip()


def _left_over(
    base: Measured, head: Measured, matched: Sequence[tuple[Json, Json]]
) -> Iterator[str]:
    for name, file, side in (("base", base, 0), ("head", head, 1)):
        compared = [pair[side]["device"] for pair in matched]
        alone = [d["device"] for d in file.numbers["devices"] if d["device"] not in compared]
        if alone and matched:
            listed = ", ".join(str(number) for number in alone)
            yield f"Only in {name}, not compared: device {listed}."


def _pair_title(left: Json, right: Json) -> str:
    if left["device"] == right["device"] and left["name"] == right["name"]:
        return device_title(left)
    return f"{device_title(left)} → {device_title(right)}"


def _track(file: Measured, device: Json, title: str) -> Track:
    position: int = file.numbers["devices"].index(device)
    track = file.tracks[position]
    return Track(title, track.start, track.length, track.lanes)


def _text_notes(files: Sequence[Measured]) -> Iterator[str]:
    notes = list(labelled_notes(files))
    if notes:
        yield ""
        yield "Notes"
    for note in notes:
        yield f"  • {note}"


def labelled_notes(files: Sequence[Measured]) -> Iterator[str]:
    """The notes of all files, once, and with the file's role where there are two."""
    if len(files) == 1:
        yield from files[0].numbers["notes"]
        return
    base, head = (file.numbers["notes"] for file in files)
    for note in dict.fromkeys([*base, *head]):
        where = "Both" if note in base and note in head else "Base" if note in base else "Head"
        yield f"{where}: {note}"


def _scales(files: Sequence[Measured]) -> Iterator[tuple[Track, ...]]:
    """Tracks that belong on one scale."""
    if len(files) == 1:
        yield from ((track,) for track in files[0].tracks)
        return
    base, head = files
    for left, right in pairs(base.numbers, head.numbers):
        yield _track(base, left, "base"), _track(head, right, "head")


def markdown_report(files: Sequence[Measured], mermaid: bool = False) -> str:
    """The report as GitHub shows it; every name in it is neutralised."""
    from bot.neutral import code, fenced, prose

    roles = ("Base", "Head") if len(files) == 2 else ("Trace",)
    lines = [
        f"**{role}:** {code(file.numbers['source'])} ({file.numbers['format']})  "
        for role, file in zip(roles, files, strict=True)
    ]
    if files[0].numbers["region"] is not None:
        lines.append(f"**Region:** {code(files[0].numbers['region'])}")
    for section in sections(files):
        lines += ["", f"### {prose(section.title)}", "", prose(section.sentence)]
        if not any(device["region_us"] for device in section.devices):
            continue
        lines += ["", *_markdown_table(section.devices)]
        lines += ["", fenced(text_timeline(section.tracks))]
        if mermaid:
            chart = fenced(mermaid_timeline(section.tracks), "mermaid")
            lines += ["", "<details><summary>Chart</summary>", "", chart, "", "</details>"]
    notes = list(labelled_notes(files))
    lines += ["", *(f"- {prose(note)}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Section:
    """One device, or the same device in base and head."""

    title: str
    sentence: str
    devices: tuple[Json, ...]
    tracks: tuple[Track, ...]


def sections(files: Sequence[Measured]) -> Iterator[Section]:
    """What belongs under one heading."""
    if len(files) == 1:
        numbers = files[0].numbers
        for device, track in zip(numbers["devices"], files[0].tracks, strict=True):
            yield Section(_heading(device_title(device)), headline(device), (device,), (track,))
        return
    base, head = files
    for left, right in pairs(base.numbers, head.numbers):
        tracks = _track(base, left, "base"), _track(head, right, "head")
        title = _heading(_pair_title(left, right))
        yield Section(title, pair_headline(left, right), (left, right), tracks)


def _heading(title: str) -> str:
    return title[:1].upper() + title[1:]


def _markdown_table(devices: tuple[Json, ...]) -> Iterator[str]:
    two = len(devices) == 2
    yield "| | base | head | difference |" if two else "| | | of the region |"
    yield "|---|---:|---:|:---|" if two else "|---|---:|---:|"
    for group in GROUPS:
        rows = shown_rows(group, devices)
        if rows:
            yield f"| **{group.title}** | | {'| |' if two else '|'}"
        for row in rows:
            cells = [value(row, read(row, device)) for device in devices]
            last = (
                difference(row, *(read(row, device) for device in devices))
                if two
                else share_of_region(row, devices[0])
            )
            yield f"| {row.label} | {' | '.join(cells)} | {last} |"
