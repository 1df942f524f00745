"""`hostside bench history`: the benchmarks that pull requests asked for, and what came of them."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bot.errors import UsageError

if TYPE_CHECKING:
    from bot.bench_records import BenchRecords
    from bot.bench_work import BenchState

HELP = "what was measured on pull requests, from the service's database"
COMMIT = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--repository", default="", metavar="OWNER/NAME", help="only of this one")
    parser.add_argument("--pull", type=int, default=0, metavar="N", help="only of this number")
    parser.add_argument("--most", type=int, default=50, metavar="N", help="at most so many (50)")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--save", type=int, metavar="ID", help="write this run's report and traces to a folder"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path(), metavar="DIR", help="the folder"
    )


def run(arguments: argparse.Namespace) -> int:
    """0; a UsageError when there is no database or no such run."""
    from bot.bench_records import BenchRecords
    from bot.database_settings import database_settings
    from bot.store import Store

    store = Store(database_settings().existing_database)
    try:
        records = BenchRecords(store)
        if arguments.save is not None:
            return _save(records, arguments.save, arguments.output)
        found = records.history(arguments.repository, arguments.pull, max(1, arguments.most))
        print(_as_json(records, found) if arguments.format == "json" else _as_text(records, found))
    finally:
        store.close()
    return 0


def _as_text(records: BenchRecords, found: tuple[BenchState, ...]) -> str:
    if not found:
        return "Nothing was measured yet; `/gpu-bench` on a pull request does it."
    rows = [
        f"{bench.id:5d}  {_date(bench.created)}  {bench.subject:30s}"
        f" {bench.order.head_sha[:COMMIT]}  {_outcome(records, bench)}"
        for bench in found
    ]
    return "\n".join(rows)


def _as_json(records: BenchRecords, found: tuple[BenchState, ...]) -> str:
    rows = [
        {
            "id": bench.id,
            "repository": bench.order.repo,
            "pull": bench.order.number,
            "base": bench.order.base_sha,
            "head": bench.order.head_sha,
            "author": bench.order.author,
            "ordered": _date(bench.created),
            "stage": bench.stage.value,
            "runner": bench.runner,
            "outcome": _outcome(records, bench),
            "files": list(records.files(bench.id)),
        }
        for bench in found
    ]
    return json.dumps({"version": 1, "runs": rows}, indent=1)


def _outcome(records: BenchRecords, bench: BenchState) -> str:
    from bot.bench_pages import read_report

    report = read_report(records, bench)
    if report is None:
        return f"{bench.stage}: {bench.problem}" if bench.problem else str(bench.stage)
    if report.run.problem:
        return f"no result: {report.run.problem}"
    also = report.suggestion_headline
    return f"{report.headline} ({report.basis})" + (f"; suggestion {also}" if also else "")


def _save(records: BenchRecords, number: int, folder: Path) -> int:
    try:
        bench = records.get(number)
    except KeyError:
        raise UsageError(
            f"there is no run {number}; `hostside bench history` lists the runs"
        ) from None
    contents = {"report.json": records.report(number).encode()} if bench.has_report else {}
    contents |= {name: records.file(number, name) or b"" for name in records.files(number)}
    if not contents:
        raise UsageError(f"run {number} left nothing to save; it is {bench.stage}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / Path(name).name).write_bytes(content)
            print(folder / Path(name).name)
    except OSError as problem:
        raise UsageError(f"{folder} cannot be written: {problem.strerror}") from problem
    return 0


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
