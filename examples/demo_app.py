"""The GitHub App from nothing to a posted review, without GitHub: `make demo-app`.

Starts a stand-in for GitHub and the App itself (`hostside serve`), opens the example change as a
pull request, prints what the App posted on it, commits all of its suggestions as a batch, and
shows what the App says then.
"""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
EXAMPLE = ROOT / "examples" / "training-repo"


def main() -> int:
    """Exit code 1 when no review was posted."""
    from service_running import serving

    from tests.standin.running import running

    with (
        tempfile.TemporaryDirectory(prefix="hostside-app-") as name,
        running(Path(name) / "github", checked=False) as github,
    ):
        world = github.world
        repo = world.repository("acme/leafscan", _files("base"))
        repo.roles["ada"] = "write"
        world.install([repo])
        print(f"A stand-in for GitHub answers at {world.url}; acme/leafscan has the App installed.")
        with serving(world, Path(name), WRITE_SECONDS="0.1") as service:
            print(f"`hostside serve` answers at {service.url}; nothing else is running.\n")
            pull = world.open_pull(repo, _files("head"), author="ada", title="Speed up training")
            print(f"ada opens acme/leafscan#{pull.number}: a signed webhook, then a job.")
            service.settle(patience=180)
            _show(world, pull)
            _apply(world, pull, service)
    return 0 if world.comments_on(pull) else 1


def _files(state: str) -> dict[str, str | bytes | None]:
    root = EXAMPLE / state
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _show(world: Any, pull: Any) -> None:
    print(f"\nOne review with {len(world.comments_on(pull))} comments on the changed lines:")
    for comment in sorted(world.comments_on(pull), key=lambda c: (c.path, c.line or 0)):
        place = f"{comment.path}:{comment.line}" if comment.line else comment.path
        print(f"\n--- {place}\n{textwrap.indent(_readable(comment.body), '    ')}")
    _summary(world, pull)


def _summary(world: Any, pull: Any) -> None:
    for comment in world.conversation(pull):
        print(f"\n--- the sticky summary\n{textwrap.indent(_readable(comment.body), '    ')}")
    for check in world.checks_on(pull.head_sha):
        print(
            f"\n--- check {check.name} at {pull.head_sha[:12]}: {check.conclusion}, {check.title}"
        )


def _apply(world: Any, pull: Any, service: Any) -> None:
    clicks = [c for c in world.comments_on(pull) if c.line and "```suggestion" in c.body]
    if not clicks:
        return
    print(f"\nada commits all {len(clicks)} suggestions as a batch.")
    world.apply(clicks, "ada")
    service.settle(patience=180)
    fixed = sum(comment.body.startswith("**Fixed**") for comment in world.comments_on(pull))
    print(f"{fixed} comments now say that they are fixed; nothing was said twice.")
    _summary(world, pull)


def _readable(body: str) -> str:
    """The comment without its folded parts and marks, as it first meets the eye."""
    body = re.sub(r"<details>\s*<summary>(.*?)</summary>.*?</details>", r"[▸ \1]", body, flags=re.S)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"<!--.*?-->|</?sub>", "", body, flags=re.S)).strip()


if __name__ == "__main__":
    sys.exit(main())
