"""`hostside config check`: says what the configuration means, or what is wrong with it."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot import config as configuration
from bot.config import RepoConfig
from bot.errors import UsageError

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
    root = configuration.find_root(directory.absolute())
    config = configuration.load(configuration.reader_of(root))
    if not config.source:
        print(f"{root} has no Hostside configuration; the defaults apply:")
    else:
        print(f"{root / config.source} is right:")
    print(_listing(config), end="")
    return 0


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
        "bench.paths": ", ".join(config.bench_paths) or "gpu_bench folders only",
        "bench.sandbox": config.bench_sandbox,
    }
    return "".join(f"  {key:17s} {value}\n" for key, value in rows.items())
