"""One repository's pull requests, read and written: `bot.pulls.PullClient` over the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from bot.config import Reader
from bot.diff import ChangedFile
from bot.errors import ConfigError
from bot.github_calls import Calls
from bot.github_checks import Checks
from bot.github_errors import SupersededError
from bot.github_files import Files
from bot.github_git import GitFetch, Origin, git_environment
from bot.github_posts import Posts
from bot.github_said import Said
from bot.github_shapes import Comparison, PullRequest
from bot.pulls import Earlier, Plan, Posted, Pull, PullRef


class Client:
    """What `bot.github.connect` gives."""

    def __init__(self, calls: Calls, token: Callable[[], str], app_id: int = 0) -> None:
        self._calls = calls
        self._token = token
        self._files = Files(calls, GitFetch(calls, token))
        self._said = Said(calls, app_id)
        self._posts = Posts(calls, self._said)
        self._checks = Checks(calls, app_id)

    def pull(self, ref: PullRef) -> Pull:
        """The pull request now; its `ref` has the present head and base."""
        found = self._calls.get(f"repos/{ref.full_name}/pulls/{ref.number}").read(PullRequest)
        head, base = found.head, found.base
        here, there = (end.repo.full_name if end.repo else "" for end in (base, head))
        now = replace(ref.at(head.sha, base.sha), from_fork=(there or here).lower() != here.lower())
        if head.repo is None:  # its fork was deleted
            now = replace(now, from_fork=True)
        return Pull(
            ref=now,
            title=found.title,
            author=found.user.login if found.user else "",
            open=found.state == "open",
            draft=found.draft,
            labels=tuple(label.name for label in found.labels),
            base_branch=base.ref,
            head_branch=head.ref,
            files=found.changed_files,
            clone_url=base.repo.clone_url if base.repo else "",
        )

    def origin(self, ref: PullRef) -> Origin:
        """Where git fetches the pull request's repository from."""
        url = self.pull(ref).clone_url
        return Origin(url, git_environment(url, self._token()))

    def changed_files(self, ref: PullRef) -> tuple[ChangedFile, ...]:
        """What the pull request changes at `ref.head_sha`."""
        pull = self._current(ref)
        return self._files.changed(replace(pull, ref=ref))

    def between(self, ref: PullRef) -> PullRef:
        """The same two commits, the base by its name, where `ref` may name a branch."""
        return replace(ref, base_sha=self._compared(ref).base_commit.sha)

    def _compared(self, ref: PullRef) -> Comparison:
        path = f"repos/{ref.full_name}/compare/{quote(ref.base_sha, safe='')}...{ref.head_sha}"
        return self._calls.get(path, per_page="1").read(Comparison)

    def compared(self, ref: PullRef, clone_url: str = "") -> tuple[ChangedFile, ...]:
        """What `ref.head_sha` changes since it left `ref.base_sha`, without a pull request."""
        files = len(self._compared(ref).files or ())
        return self._files.changed(
            Pull(ref, "", "", True, False, (), "", "", files=files, clone_url=clone_url)
        )

    def _current(self, ref: PullRef) -> Pull:
        """The pull request, if it still is open and at this head."""
        pull = self.pull(ref)
        if not pull.open:
            raise SupersededError(f"{ref} was closed meanwhile")
        if pull.ref.head_sha != ref.head_sha:
            raise SupersededError(
                f"{ref} moved from {ref.head_sha[:12]} to {pull.ref.head_sha[:12]} meanwhile"
            )
        return pull

    def reader(self, ref: PullRef) -> Reader:
        """Reads files of the base commit, for `bot.config.load`."""
        return partial(self._read, ref)

    def _read(self, ref: PullRef, path: str) -> str | None:
        data = self._files.optional_text(ref, path, ref.base_sha)
        try:
            return None if data is None else data.decode("utf-8")
        except UnicodeDecodeError as problem:
            raise ConfigError(f"{path} at {ref.base_sha[:12]} is not UTF-8 text") from problem

    def earlier(self, ref: PullRef) -> Earlier:
        """What we said on it before."""
        return self._said.earlier(ref)

    def post(self, ref: PullRef, plan: Plan) -> Posted:
        """Carry out the plan; safe to call again after a failure at any point."""
        self._current(ref)
        posted = self._posts.post(ref, plan)
        if plan.check is not None:
            posted = replace(posted, check=self._checks.finish(ref, plan.check))
        return posted

    def start_check(self, ref: PullRef) -> int:
        """Show the check as in progress; its id."""
        return self._checks.start(ref)

    def reply(self, ref: PullRef, body: str, key: str) -> int:
        """Write into the conversation, once for each `key`; the comment's id."""
        return self._posts.reply(ref, body, key)

    def merge_base(self, ref: PullRef) -> str:
        """The commit at which the head left its base branch."""
        return self._compared(ref).merge_base_commit.sha

    def sticky(self, ref: PullRef, body: str, name: str) -> int:
        """Bring our one comment of this name to this text, making it when there is none; its id."""
        return self._posts.summary(ref, body, name)

    def finding(self, ref: PullRef, comment: int) -> str:
        """The fingerprint of the finding that this comment of ours is about; else empty."""
        return self._said.finding(ref, comment)

    def react(self, ref: PullRef, comment: int, content: str, on_line: bool = False) -> None:
        """Put a reaction (`eyes`, `+1`, `confused`) on a comment."""
        self._posts.react(ref, comment, content, on_line)

    def permission(self, ref: PullRef, login: str) -> str:
        """What the person may do here: admin, write, read or none."""
        return self._said.permission(ref, login)

    def wait(self, seconds: float) -> None:
        """Let this much time pass before another try, and no less than between two writes."""
        governor = self._calls.governor
        governor.clock.sleep(max(seconds, governor.gap))

    def close(self) -> None:
        """Let go of the connection."""
        self._calls.close()
