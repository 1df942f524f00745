"""The stand-in's state, and what people do on GitHub's pages."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.standin import suggestions
from tests.standin.faults import Faults
from tests.standin.gitstore import GitStore
from tests.standin.model import (
    CheckRun,
    Delivery,
    Installation,
    IssueComment,
    LineComment,
    Pull,
    Reaction,
    RefusedError,
    Repo,
    Review,
    Token,
    User,
)

APP_ID = 4242
PERMISSIONS = {
    "checks": "write",
    "contents": "read",
    "metadata": "read",
    "pull_requests": "write",
}


class World:
    """Everything one stand-in holds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.ids = itertools.count(1000)
        self.seconds = itertools.count()  # GitHub's clock: what people do takes them a second each
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.public_key = key.public_key()
        self.private_key = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()
        self.url = "http://stand-in.invalid"  # set when it runs
        self.users: dict[str, User] = {}
        self.bot = self.user("hostside[bot]", "Bot")
        self.repos: dict[str, Repo] = {}
        self.pulls: list[Pull] = []
        self.reviews: list[Review] = []
        self.line_comments: list[LineComment] = []
        self.issue_comments: list[IssueComment] = []
        self.checks: list[CheckRun] = []
        self.installations: dict[int, Installation] = {}
        self.tokens: dict[str, Token] = {}
        self.deliveries: list[Delivery] = []
        self.deliver: Callable[[Delivery], int] | None = None  # sends a webhook, gives the status
        self.faults = Faults()
        self.files_limit = 300  # of the diff media type
        self.gap = 0.0  # writes closer together than this meet the secondary limit
        self.last_write = 0.0
        self.writing = 0

    def moment(self) -> str:
        """The next second, as GitHub writes it."""
        start = datetime(2026, 11, 30, 12, tzinfo=UTC)
        return (start + timedelta(seconds=next(self.seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")

    # People and places

    def user(self, login: str, kind: str = "User") -> User:
        if login not in self.users:
            self.users[login] = User(next(self.ids), login, kind)
        return self.users[login]

    def repository(self, full_name: str, files: dict[str, str | bytes | None]) -> Repo:
        owner, name = full_name.split("/")
        store = GitStore(self.directory / f"{owner}-{name}.git")
        store.init()
        repo = Repo(next(self.ids), self.user(owner), name, store, roles={owner: "admin"})
        self.repos[full_name.lower()] = repo
        store.commit(repo.ref("main"), files, message="start")
        return repo

    def fork(self, repo: Repo, login: str) -> Repo:
        who = self.user(login)
        fork = Repo(next(self.ids), who, repo.name, repo.git, repo, {login: "admin"})
        self.repos[fork.full_name.lower()] = fork
        return fork

    def install(self, repos: list[Repo], permissions: dict[str, str] | None = None) -> Installation:
        granted = dict(PERMISSIONS if permissions is None else permissions)
        made = Installation(next(self.ids), repos[0].owner, repos, granted)
        self.installations[made.id] = made
        return made

    def installation_of(self, repo: Repo) -> Installation | None:
        return next((i for i in self.installations.values() if repo in i.repos), None)

    def token_of(self, user: User, **permissions: str) -> str:
        value = f"ghp_{user.login}_{next(self.ids)}"
        granted = permissions or dict(PERMISSIONS, contents="write")
        self.tokens[value] = Token(value, user, granted, None, time.time() + 3600)
        return value

    def expire_tokens(self) -> None:
        for token in self.tokens.values():
            token.expires = 0.0

    # Pull requests

    def open_pull(
        self,
        repo: Repo,
        files: dict[str, str | bytes | None],
        author: str = "dev",
        head_repo: Repo | None = None,
        branch: str = "feature",
        **options,
    ) -> Pull:
        with self.lock:
            source = head_repo or repo
            base = repo.git.tip(repo.ref("main")) or ""
            head = repo.git.commit(source.ref(branch), files, parent=base)
            number = 1 + max((p.number for p in self.pulls if p.repo is repo), default=0)
            title = options.pop("title", "Change")
            pull = Pull(
                next(self.ids), number, repo, source, branch, head, "main", base, title,
                self.user(author), updated=self.moment(), **options,
            )  # fmt: skip
            self.pulls.append(pull)
            repo.git.move(f"refs/pull/{number}/head", head)
        self.emit(pull, "pull_request", "opened")
        return pull

    def push(
        self, pull: Pull, files: dict[str, str | bytes | None], parent: str = "", message: str = ""
    ) -> str:
        """A push to the head branch; with a parent it is a force push."""
        source = pull.head_repo or pull.repo
        head = pull.repo.git.commit(
            source.ref(pull.head_ref), files, parent=parent or pull.head_sha,
            message=message or "change",
        )  # fmt: skip
        self.moved(pull, head)
        return head

    def moved(self, pull: Pull, head: str) -> None:
        with self.lock:
            before, pull.head_sha, pull.updated = pull.head_sha, head, self.moment()
            pull.base_sha = pull.repo.git.tip(pull.repo.ref(pull.base_ref)) or ""
            pull.repo.git.move(f"refs/pull/{pull.number}/head", head)
        self.emit(pull, "pull_request", "synchronize", before=before, after=head)

    def close(self, pull: Pull) -> None:
        pull.state, pull.updated = "closed", self.moment()
        self.emit(pull, "pull_request", "closed")

    # Conversation

    def say(self, pull: Pull, login: str, body: str) -> IssueComment:
        pull.updated = self.moment()
        made = IssueComment(
            next(self.ids), pull.repo, pull.number, self.user(login), body, pull.updated
        )
        self.issue_comments.append(made)
        self.emit(pull, "issue_comment", "created", comment=made)
        return made

    def answer(self, comment: LineComment, login: str, body: str) -> LineComment:
        made = LineComment(
            next(self.ids), comment.pull, self.user(login), body, comment.path, comment.commit,
            comment.line, comment.start_line, comment.side, comment.start_side, comment.hunk,
            reply_to=comment.reply_to or comment.id, created=self.moment(),
        )  # fmt: skip
        self.line_comments.append(made)
        self.emit(comment.pull, "pull_request_review_comment", "created", comment=made)
        return made

    def react(self, comment: LineComment | IssueComment, login: str, content: str) -> Reaction:
        made = Reaction(next(self.ids), self.user(login), content)
        comment.reactions.append(made)
        return made

    def resolve(self, comment: LineComment) -> None:
        comment.resolved = True
        self.emit(comment.pull, "pull_request_review_thread", "resolved")

    def press(self, check: CheckRun, identifier: str, login: str) -> None:
        """Somebody presses a button of a check run."""
        if identifier not in [action["identifier"] for action in check.actions]:
            raise RefusedError(422, "There is no such button.")
        pull = next(p for p in self.pulls if p.head_sha == check.head_sha)
        self.emit(pull, "check_run", "requested_action", check=check, button=identifier, by=login)

    def apply(self, comments: list[LineComment], login: str) -> str:
        """Somebody commits these suggestions, one or a batch."""
        with self.lock:
            pull = comments[0].pull
            source = pull.head_repo or pull.repo
            maintains = source.fork_of is not None and pull.edits_allowed
            roles = {source.roles.get(login)} | (
                {pull.repo.roles.get(login)} if maintains else set()
            )
            if not roles & {"admin", "maintain", "write"}:
                raise RefusedError(
                    403, "Only people who can write to the head branch can apply it."
                )
            files = suggestions.apply(comments)
        message = "Apply suggestions from code review"
        message += f"\n\nCo-authored-by: {self.bot.login} <bot@invalid>"
        head = self.push(pull, dict(files), message=message)
        for comment in comments:
            comment.resolved = True
        return head

    def emit(self, pull: Pull, event: str, action: str, **more) -> None:
        """Deliver a webhook, if somebody listens."""
        from tests.standin.webhooks import deliver

        deliver(self, pull, event, action, more)

    # What is to be seen

    def comments_on(self, pull: Pull) -> list[LineComment]:
        """Comments that everybody sees: those of a pending review are not among them."""
        pending = {r.id for r in self.reviews if r.state == "PENDING"}
        return [c for c in self.line_comments if c.pull is pull and c.review not in pending]

    def reviews_on(self, pull: Pull) -> list[Review]:
        return [review for review in self.reviews if review.pull is pull]

    def conversation(self, pull: Pull) -> list[IssueComment]:
        return [c for c in self.issue_comments if c.repo is pull.repo and c.number == pull.number]

    def checks_on(self, sha: str) -> list[CheckRun]:
        return [check for check in self.checks if check.head_sha == sha]
