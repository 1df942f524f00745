"""`hostside demo`: a small repository with a change, reviewed as a pull request would be."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from bot.cli import options
from bot.cli.review import reviewed
from bot.config import load
from bot.errors import UsageError
from bot.git import Checkout
from bot.reports import render

HELP = "review the bundled example change"
EXAMPLE = Path(__file__).parents[2] / "examples" / "training-repo"
PAGE = "review.html"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "-o", "--output", metavar="DIR", default="hostside-demo", help="where the page goes"
    )


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0: finding something is what a demonstration is for."""
    from bot.changes import Ends, changed_files
    from bot.reports.text import show

    if not EXAMPLE.is_dir():
        raise UsageError(f"{EXAMPLE} is not there; run the demo in a clone of Hostside")
    with tempfile.TemporaryDirectory(prefix="hostside-demo-") as name:
        checkout, base, head = repository(Path(name))
        config = load(checkout.reader(base))
        files = changed_files(checkout, Ends(base, head))
        review = reviewed(files, config, "main...speed-up-training")
    show(review)
    page = Path(arguments.output) / PAGE
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"{page.parent} cannot be made ({problem.strerror})") from problem
    options.write(str(page), render(review, "html"))
    print(f"\nThe same review as it looks on a pull request: {page}")
    return 0


def repository(directory: Path) -> tuple[Checkout, str, str]:
    """A git repository made of the example's base and head, and its two commits."""
    checkout = Checkout(directory.resolve())
    checkout.run("init", "--quiet", "--template=", "--initial-branch=main")
    return checkout, _commit(checkout, "base"), _commit(checkout, "head")


def _commit(checkout: Checkout, name: str) -> str:
    for path in checkout.root.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(EXAMPLE / name, checkout.root, dirs_exist_ok=True)
    checkout.run("add", "--all", "--force")
    checkout.run(
        "-c", "user.name=Hostside", "-c", "user.email=demo@invalid", "-c", "commit.gpgSign=false",
        "commit", "--quiet", "--no-verify", "--message", name,
    )  # fmt: skip
    return checkout.commit("HEAD")
