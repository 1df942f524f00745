"""The connection to GitHub: who we are, and one request at a time.

The only module that knows githubkit, which signs in and keeps installation tokens. What to ask
and how patiently is in the modules `github_*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
from githubkit import AppAuthStrategy, AppInstallationAuthStrategy, GitHub, TokenAuthStrategy
from githubkit.auth.app import AppAuth
from githubkit.cache import MemCacheStrategy
from githubkit.exception import GitHubException, RequestFailed
from githubkit.utils import UNSET
from pydantic import ValidationError

from bot.errors import ConfigError
from bot.github_actions import ACTIONS, Workflows
from bot.github_calls import JSON, Answer, Calls, Shape, failure, said
from bot.github_client import Client
from bot.github_deliveries import Deliveries
from bot.github_errors import DeniedError, GitHubError, GoneError, TryAgainError, UnsureError
from bot.github_turns import Clock, Governor, MemoryTurns, Turns

API = "https://api.github.com"
NEWEST = "2026-03-10"  # on github.com
OLDER = "2022-11-28"  # every GHES release in use has it
_USER_AGENT = "hostside"
# Exactly what is in use. Comments and reactions on pull requests come with `pull_requests`.
PERMISSIONS: Any = {
    "checks": "write",
    "contents": "read",
    "metadata": "read",
    "pull_requests": "write",
}


@dataclass(frozen=True)
class Access:
    """Where GitHub is, who we are there, and how fast we may go."""

    api_url: str = API
    app_id: str = ""
    private_key: str = field(default="", repr=False)
    api_version: str = ""  # empty: the newest on github.com, an older one elsewhere
    timeout: float = 20.0  # seconds for one request
    turns: Turns = field(default_factory=MemoryTurns)
    write_gap: float = 1.0  # seconds between two writes
    patience: float = 30.0  # seconds to wait in place before the job is put off
    clock: Clock = field(default_factory=Clock)
    transport: httpx.BaseTransport | None = None  # in tests

    @property
    def hosted(self) -> bool:
        """Whether it is GitHub's own and not a server of somebody's."""
        return (urlsplit(self.api_url).hostname or "").endswith((".github.com", ".ghe.com"))

    @property
    def version(self) -> str:
        """The version of the API to speak."""
        return self.api_version or (NEWEST if self.hosted else OLDER)


# Enough to fetch a pull request's commits, and good for nothing else.
READING: Any = {"contents": "read", "metadata": "read", "pull_requests": "read"}


def connect(
    access: Access,
    installation: int = 0,
    token: str = "",
    repository: str = "",
    permissions: Any = PERMISSIONS,
) -> Client:
    """A client for one repository (`owner/name`), as an installation of the App or by a token."""
    calls, sender = _signed_in(access, installation, token, repository, permissions)
    return Client(calls, sender.token, int(access.app_id) if access.app_id.isdigit() else 0)


def connect_workflows(
    access: Access, installation: int = 0, token: str = "", repository: str = ""
) -> Workflows:
    """The workflows of one repository; the App's token for it can do nothing else."""
    calls, sender = _signed_in(access, installation, token, repository, ACTIONS)
    # The newest version names the run that it starts; the older one does when it is asked to, and
    # GHES knows neither.
    asked = access.hosted and access.version < NEWEST
    return Workflows(calls, sender.locate, asked, transport=access.transport)


def _signed_in(
    access: Access, installation: int, token: str, repository: str, permissions: Any
) -> tuple[Calls, Connection]:
    if token:
        sender = Connection(access, TokenAuthStrategy(token))
        who = f"token:{repository}"
    elif installation and access.app_id:
        name = repository.partition("/")[2]
        narrowed = _Installation(
            access.app_id,
            access.private_key,
            installation,
            repositories=[name] if name else UNSET,
            permissions=permissions,
        )
        sender = Connection(access, narrowed)
        who = f"installation:{installation}"
    else:
        raise ConfigError(
            "no way to sign in to GitHub: set HOSTSIDE_APP_ID and HOSTSIDE_PRIVATE_KEY, or a token"
        )
    return Calls(sender, _governor(access), f"{access.api_url}:{who}"), sender


def connect_app(access: Access) -> Deliveries:
    """The App's own requests: its name and the webhook deliveries that failed."""
    sender = Connection(access, AppAuthStrategy(access.app_id, access.private_key))
    return Deliveries(Calls(sender, _governor(access), f"{access.api_url}:app:{access.app_id}"))


def _governor(access: Access) -> Governor:
    return Governor(access.turns, access.write_gap, access.patience, access.clock)


# Tokens live an hour and a worker does many jobs. githubkit's own cache does not tell one server
# from another, so each has its own.
_caches: dict[tuple[str, str], MemCacheStrategy] = {}


class _Token(Shape):
    token: str
    expires_at: datetime


class _Flow(AppAuth):
    """Reads of a token's answer what is needed: githubkit wants all that github.com sends."""

    def _parse_installation_auth_response(self, response: httpx.Response) -> Any:
        if response.is_error:
            return super()._parse_installation_auth_response(response)
        token = _Token.model_validate_json(response.content)
        ends = token.expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return SimpleNamespace(parsed_data=SimpleNamespace(token=token.token, expires_at=ends))


class _Installation(AppInstallationAuthStrategy):
    """An installation of the App, signed in by `_Flow`."""

    def get_auth_flow(self, github: Any) -> httpx.Auth:
        """What signs each request."""
        return _Flow(
            github,
            self.app_id,
            self.private_key,
            installation_id=self.installation_id,
            repositories=self.repositories,
            permissions=self.permissions,
        )


class Connection:
    """Sends requests, signed in; a token that GitHub no longer knows is renewed once."""

    def __init__(self, access: Access, identity: Any) -> None:
        self._access = access
        self._identity = identity
        self._github = self._new()
        self._token = ""

    def _new(self, follow: bool = True) -> Any:  # githubkit's types are incomplete
        access = self._access
        cache = _caches.setdefault((access.api_url, access.app_id), MemCacheStrategy())
        github: Any = GitHub(
            self._identity,
            base_url=access.api_url,
            user_agent=_USER_AGENT,
            timeout=access.timeout,
            http_cache=False,  # it would keep strangers' code in memory
            auto_retry=False,  # githubkit repeats writes whose answer was lost
            cache_strategy=cache,
            transport=access.transport,
            follow_redirects=follow,
        )
        github.__enter__()  # one connection for all requests
        return github

    def __call__(
        self, method: str, path: str, *, body: Any = None, accept: str = JSON, **query: str
    ) -> Answer:
        """The answer to one request."""
        send = partial(self._once, method, self._url(path), body, accept, query)
        try:
            return send()
        except DeniedError as problem:
            if problem.status != 401:
                raise
        # Revoked, or so new that not all of GitHub's servers know it yet. Nothing was done.
        self._access.clock.sleep(self._access.write_gap)
        _caches.pop((self._access.api_url, self._access.app_id), None)
        self.close()
        self._github = self._new()
        return send()

    def locate(self, path: str) -> str:
        """Where GitHub sends us for this file; the address is good for whoever has it."""
        github = self._new(follow=False)
        try:
            done = self._request(github, "GET", self._url(path), JSON)
        finally:
            github.__exit__()
        return str(done.headers.get("location", ""))

    def token(self) -> str:
        """The token of the latest request, for git; empty before the first."""
        return self._token

    def close(self) -> None:
        """Let go of the connection."""
        self._github.__exit__()

    def _url(self, path: str) -> str:
        base = self._access.api_url.rstrip("/")
        if path == "graphql":  # GHES: beside, not below, /api/v3
            return f"{base.removesuffix('/v3')}/graphql"
        if "://" not in path:
            return f"{base}/{path}"
        # The next page: only ever of the server that we signed in to.
        if urlsplit(path)[:2] != urlsplit(base)[:2]:
            raise GitHubError(f"GitHub's answer leads to another server ({urlsplit(path).netloc})")
        return path

    def _once(
        self, method: str, url: str, body: Any, accept: str, query: Mapping[str, str]
    ) -> Answer:
        params = dict(query) or None
        done = self._request(self._github, method, url, accept, params=params, json=body)
        self._token = done.raw_request.headers.get("Authorization", "").partition(" ")[2]
        return Answer(done.content, {k.lower(): v for k, v in done.headers.items()})

    def _request(self, github: Any, method: str, url: str, accept: str, **more: Any) -> Any:
        headers = {"Accept": accept, "X-GitHub-Api-Version": self._access.version}
        try:
            return github.request(method, url, headers=headers, **more)
        except RequestFailed as problem:
            raise _refusal(problem, self._access.clock.now()) from problem
        except GitHubException as problem:
            cause = getattr(problem, "exc", problem)
            raise _no_answer(cause, self._access.clock.now()) from problem


def _refusal(problem: RequestFailed, now: float) -> GitHubError:
    raw = problem.response.raw_response
    headers = {name.lower(): value for name, value in raw.headers.items()}
    refused = failure(raw.status_code, said(raw.content), headers, now)
    if not problem.request.url.path.endswith("/access_tokens"):
        return refused
    if isinstance(refused, TryAgainError):
        return refused
    no_such_app = raw.status_code == 404 and "integration" in said(raw.content).lower()
    if isinstance(refused, GoneError) and not no_such_app:
        return GoneError("the App is no longer installed there", raw.status_code)
    if raw.status_code == 401 or no_such_app:
        return DeniedError(
            "GitHub does not accept the App's signature; check HOSTSIDE_APP_ID, "
            "HOSTSIDE_PRIVATE_KEY and this machine's clock",
            raw.status_code,
        )
    if raw.status_code == 422:
        wanted = ", ".join(f"{name}: {level}" for name, level in PERMISSIONS.items())
        return DeniedError(
            f"the installation does not grant what Hostside uses ({wanted}), or not for this "
            "repository; its owner can accept that in the settings of the installation",
            422,
        )
    return refused


def _no_answer(cause: Exception, now: float) -> GitHubError:
    if isinstance(cause, RequestFailed):  # while signing in
        return _refusal(cause, now)
    if isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return TryAgainError("GitHub cannot be reached")
    if isinstance(cause, httpx.TimeoutException):
        return UnsureError("GitHub did not answer in time")
    if isinstance(cause, httpx.HTTPError):
        return UnsureError("the connection to GitHub broke off")
    if isinstance(cause, ValidationError):  # while signing in
        return TryAgainError("GitHub's answer broke off")
    return GitHubError(
        f"signing in to GitHub failed ({type(cause).__name__}); check that HOSTSIDE_PRIVATE_KEY "
        "holds the App's whole private key"
    )
