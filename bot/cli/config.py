"""`hostside config check`: says what the configuration means, or what is wrong with it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from bot import baseline
from bot import config as configuration
from bot.config import PYPROJECT, RepoConfig
from bot.config_nearest import with_nested
from bot.errors import UsageError
from bot.files import skips

HELP = "check the configuration"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("action", choices=["check", "schema"], help="check it, or print its schema")
    parser.add_argument("directory", nargs="?", default=".", help="a directory in the repository")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when the configuration is right; mistakes are raised with their line."""
    if arguments.action == "schema":
        print(_schema(), end="")
        return 0
    directory = Path(arguments.directory)
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory; name one in the repository")
    root = configuration.find_root(directory.resolve())
    read = configuration.reader_of(root)
    config = with_nested(configuration.load(read), read, _folders(root))
    baseline.load(config, read)
    inside = (directory.resolve() / PYPROJECT).relative_to(root).as_posix()
    here, _ = config.nearest(inside)
    if not here.source:
        print(f"{root} has no Hostside configuration; the defaults apply:")
    else:
        print(f"{root / here.source} is right:")
    print(_listing(here), end="")
    for _, other in reversed(config.nested):
        if other is not here:
            print(f"{root / other.source} is right.")
    return 0


def _folders(root: Path) -> list[str]:
    """The folders below the top that have a pyproject.toml, the highest first."""
    found: list[str] = []
    for directory, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not skips(directory, name))
        if PYPROJECT in names and Path(directory) != root:
            found.append(Path(directory).relative_to(root).as_posix())
    return sorted(found, key=lambda folder: (folder.count("/"), folder))


def _schema() -> str:
    import json

    from bot.config_file import schema

    return json.dumps(schema(), indent=2) + "\n"


def _listing(config: RepoConfig) -> str:
    rows = {
        "select": ", ".join(sorted(config.select)) or "every rule",
        "ignore": ", ".join(sorted(config.ignore)) or "none",
        "severity": config.severity,
        "confidence": config.confidence,
        "fail-on": config.fail_on,
        "objectives": ", ".join(sorted(config.objectives)),
        "gpu": config.gpu or "any",
        "include": ", ".join(config.include) or "every Python file",
        "exclude": ", ".join(config.exclude) or "none",
        "per-path-ignores": "; ".join(
            f"{glob}: {', '.join(sorted(codes))}" for glob, codes in config.per_path_ignores
        )
        or "none",
        "hot-functions": ", ".join(config.hot_functions) or "none",
        "device-helpers": ", ".join(config.device_helpers) or "none",
        "max-comments": str(config.max_comments or "no limit"),
        "review-drafts": "yes" if config.review_drafts else "no",
        "skip-labels": ", ".join(config.skip_labels) or "none",
        "skip-titles": ", ".join(config.skip_titles) or "none",
        "skip-authors": ", ".join(config.skip_authors) or "none",
        "skip-branches": ", ".join(config.skip_branches) or "none",
        "check-run": "yes" if config.check_run else "no",
        "baseline": config.baseline or "none",
        "bench.paths": ", ".join(config.bench_paths) or "gpu_bench folders only",
        "bench.sandbox": config.bench_sandbox,
    }
    return "".join(f"  {key:17s} {value}\n" for key, value in rows.items())
