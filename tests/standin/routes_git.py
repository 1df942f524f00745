"""Git over HTTP, and the few GraphQL questions that REST has no answer to."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from graphql import build_schema, graphql_sync
from graphql.error import GraphQLError

from tests.standin.model import LineComment, Pull

router = APIRouter()

# The names and types as GitHub publishes them, cut down to what is asked.
SCHEMA = build_schema("""
type Query { viewer: User! repository(owner: String!, name: String!): Repository }
type Mutation {
  resolveReviewThread(input: ResolveReviewThreadInput!): ResolveReviewThreadPayload
}
input ResolveReviewThreadInput { threadId: ID! }
type ResolveReviewThreadPayload { clientMutationId: String }
type User { login: String! databaseId: Int }
type Repository { pullRequest(number: Int!): PullRequest }
type PullRequest { reviewThreads(first: Int, after: String): PullRequestReviewThreadConnection! }
type PullRequestReviewThreadConnection { nodes: [PullRequestReviewThread] pageInfo: PageInfo! }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type PullRequestReviewThread {
  id: ID! isResolved: Boolean! isOutdated: Boolean! viewerCanResolve: Boolean!
  comments(first: Int): PullRequestReviewCommentConnection!
}
type PullRequestReviewCommentConnection { nodes: [PullRequestReviewComment] }
type PullRequestReviewComment { databaseId: Int body: String! }
""")


class _Root:
    def __init__(self, request: Request) -> None:
        self.world, self.token = request.app.state.world, request.state.token

    def viewer(self, _info) -> dict[str, Any]:
        return {"login": self.token.user.login, "databaseId": self.token.user.id}

    def repository(self, _info, owner: str, name: str) -> dict[str, Any] | None:
        repo = self.world.repos.get(f"{owner}/{name}".lower())
        if repo is None or (self.token.repos is not None and repo not in self.token.repos):
            return None

        def pull_request(_info, number: int) -> dict[str, Any] | None:
            found = [p for p in self.world.pulls if p.repo is repo and p.number == number]
            return {"reviewThreads": self._threads(found[0])} if found else None

        return {"pullRequest": pull_request}

    def _threads(self, pull: Pull):
        def page(_info, first: int = 100, after: str | None = None) -> dict[str, Any]:
            starts = [c for c in self.world.comments_on(pull) if c.reply_to is None]
            begin = int(after or 0)
            part = starts[begin : begin + first]
            return {
                "nodes": [self._thread(comment) for comment in part],
                "pageInfo": {
                    "hasNextPage": begin + first < len(starts),
                    "endCursor": str(begin + len(part)) if part else None,
                },
            }

        return page

    def _thread(self, comment: LineComment) -> dict[str, Any]:
        node = {"databaseId": comment.id, "body": comment.body}
        return {
            "id": f"T{comment.id}",
            "isResolved": comment.resolved,
            "isOutdated": False,
            "viewerCanResolve": self.token.permissions.get("contents") == "write",
            "comments": lambda _info, first=100: {"nodes": [node][:first]},
        }

    def resolveReviewThread(self, _info, input: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        if self.token.permissions.get("contents") != "write":
            raise GraphQLError("Resource not accessible by integration")
        number = int(input["threadId"][1:])
        for comment in self.world.line_comments:
            comment.resolved = comment.resolved or comment.id == number
        return {}


def _refusal(error: GraphQLError) -> dict[str, Any]:
    forbidden = "not accessible" in error.message
    return {"message": error.message} | ({"type": "FORBIDDEN"} if forbidden else {})


@router.post("/graphql")
async def graphql(request: Request):
    given = await request.json()
    done = graphql_sync(
        SCHEMA, given["query"], _Root(request), variable_values=given.get("variables")
    )
    said: dict[str, Any] = {"data": done.data}
    if done.errors:
        said["errors"] = [_refusal(error) for error in done.errors]
    return said


@router.api_route("/{owner}/{name}.git/{path:path}", methods=["GET", "POST"])
async def git(request: Request, owner: str, name: str, path: str) -> Response:
    """`git fetch` over HTTP, by git's own program, for whoever may read the contents."""
    world = request.app.state.world
    repo = world.repos.get(f"{owner}/{name}".lower())
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    value = base64.b64decode(secret).decode().partition(":")[2] if kind == "Basic" else ""
    token = world.tokens.get(value)
    if repo is None or token is None or token.expires < time.time():
        return Response("denied", 401, {"WWW-Authenticate": 'Basic realm="GitHub"'})
    if "contents" not in token.permissions or (token.repos is not None and repo not in token.repos):
        return Response("denied", 403)
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(repo.git.root.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PATH_INFO": f"/{repo.git.root.name}/{path}",
        "QUERY_STRING": request.url.query,
        "REQUEST_METHOD": request.method,
        "CONTENT_TYPE": request.headers.get("content-type", ""),
        "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
        "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        "REMOTE_ADDR": "127.0.0.1",
    }
    body = await request.body()
    done = await asyncio.to_thread(
        subprocess.run, ["git", "http-backend"], input=body, capture_output=True,
        env=environment | {"CONTENT_LENGTH": str(len(body))}, check=False,
    )  # fmt: skip
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    status = int(headers.pop("Status", "200").split()[0])
    return Response(content, status, headers)
