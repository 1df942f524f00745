"""Pull requests, their files, and the texts behind them."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tests.standin import shapes
from tests.standin.hunks import FileDiff, changed
from tests.standin.model import Pull, RefusedError, Repo, User
from tests.standin.paging import paged

router = APIRouter()
DIFF = "application/vnd.github.diff"
_LARGEST_JSON = 1_000_000  # bytes that the contents API gives inline
_MOST_LINES = 20_000


def find(request: Request, number: int) -> Pull:
    world, repo = request.app.state.world, request.state.repo
    found = next((p for p in world.pulls if p.repo is repo and p.number == number), None)
    if found is None:
        raise RefusedError(404, "Not Found")
    return found


@router.get("/repos/{owner}/{name}")
async def repository(request: Request):
    said = shapes.repository(request.app.state.world, request.state.repo)
    return said | {"network_count": 0, "subscribers_count": 0}


@router.get("/repos/{owner}/{name}/pulls/{number}")
async def pull(request: Request, number: int):
    world, it = request.app.state.world, find(request, number)
    if DIFF not in request.headers.get("accept", ""):
        return shapes.pull(world, it)
    text = it.repo.git.diff(it.merge_base, it.head_sha)
    files = len(re.findall(rb"(?m)^diff --git ", text))
    if it.too_large or files > world.files_limit or text.count(b"\n") > _MOST_LINES:
        raise RefusedError(
            406,
            "Sorry, the diff exceeded the maximum number of files "
            f"({world.files_limit}). Consider using 'List pull requests files' API.",
            [{"resource": "PullRequest", "field": "diff", "code": "too_large"}],
        )
    return Response(text, media_type=f"{DIFF}; charset=utf-8")


@router.get("/repos/{owner}/{name}/pulls/{number}/files")
async def files(request: Request, number: int):
    it = find(request, number)
    found = changed(it.repo.git, it.merge_base, it.head_sha)
    ends = _Ends(it.repo, it.merge_base, it.head_sha, frozenset(it.hidden))
    return paged(request, [_file(request, ends, file) for file in found[:3000]])


@dataclass(frozen=True)
class _Ends:
    """The commits that are compared, and the paths whose patch is left out."""

    repo: Repo
    merge_base: str
    head_sha: str
    hidden: frozenset[str] = frozenset()


def _file(request: Request, it: _Ends, file: FileDiff) -> dict[str, Any]:
    world = request.app.state.world
    commit, path = (
        (it.merge_base, file.old_path) if file.status == "removed" else (it.head_sha, file.path)
    )
    blob = it.repo.git.blob(commit, path)
    page = f"{world.url}/{it.repo.full_name}"
    said = {
        "sha": blob[0] if blob else "0" * 40,
        "filename": file.path,
        "status": file.status,
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": f"{page}/blob/{commit}/file",
        "raw_url": f"{page}/raw/{commit}/file",
        "contents_url": f"{world.url}/repos/{it.repo.full_name}/contents/file?ref={commit}",
    }
    if file.patch and not file.binary and file.path not in it.hidden:
        said["patch"] = file.patch
    if file.status == "renamed":
        said["previous_filename"] = file.old_path
    return said


@router.get("/repos/{owner}/{name}/compare/{basehead}")
async def compare(request: Request, basehead: str):
    world, repo = request.app.state.world, request.state.repo
    base, _, head = basehead.partition("...")
    commits = [repo.git.tip(_commitish(repo, name)) for name in (base, head)]
    if None in commits:
        raise RefusedError(404, "Not Found")
    start = repo.git.merge_base(commits[0], commits[1])
    if DIFF in request.headers.get("accept", ""):
        return Response(repo.git.diff(start, commits[1]), media_type=f"{DIFF}; charset=utf-8")
    page = f"{world.url}/{repo.full_name}/compare/{basehead}"
    ahead = int(repo.git.text("rev-list", "--count", f"{start}..{commits[1]}"))
    behind = int(repo.git.text("rev-list", "--count", f"{start}..{commits[0]}"))
    return {
        "url": f"{world.url}/repos/{repo.full_name}/compare/{basehead}",
        "html_url": page,
        "permalink_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "base_commit": _commit(world, repo, commits[0]),
        "merge_base_commit": _commit(world, repo, start),
        "status": "diverged" if ahead and behind else "ahead" if ahead else "identical",
        "ahead_by": ahead,
        "behind_by": behind,
        "total_commits": ahead,
        "commits": [],
        "files": [
            _file(request, _Ends(repo, start, commits[1]), file)
            for file in (changed(repo.git, start, commits[1])[:300] if ahead else [])
        ],
    }


def _commitish(repo: Repo, name: str) -> str:
    return name if re.fullmatch(r"[0-9a-f]{40}", name) else repo.ref(name)


def _commit(world, repo: Repo, sha: str) -> dict[str, Any]:
    api = f"{world.url}/repos/{repo.full_name}/commits/{sha}"
    person = {"name": "Test", "email": "test@invalid", "date": shapes.WHEN}
    return {
        "url": api,
        "sha": sha,
        "node_id": shapes.node("C", int(sha[:8], 16)),
        "html_url": api,
        "comments_url": f"{api}/comments",
        "commit": {
            "url": api,
            "author": person,
            "committer": person,
            "message": "change",
            "comment_count": 0,
            "tree": {"sha": sha, "url": api},
        },
        "author": shapes.user(world, repo.owner),
        "committer": shapes.user(world, repo.owner),
        "parents": [],
    }


@router.get("/repos/{owner}/{name}/contents/{path:path}")
async def contents(request: Request, path: str, ref: str = "main"):
    world, repo = request.app.state.world, request.state.repo
    commit = repo.git.tip(_commitish(repo, ref))
    found = repo.git.blob(commit, path) if commit else None
    if found is None:
        raise RefusedError(404, "Not Found")
    name, data = found
    api = f"{world.url}/repos/{repo.full_name}/contents/{path}?ref={ref}"
    inline = len(data) <= _LARGEST_JSON
    blob = f"{world.url}/repos/{repo.full_name}/git/blobs/{name}"
    return {
        "type": "file",
        "encoding": "base64" if inline else "none",
        "size": len(data),
        "name": path.rpartition("/")[2],
        "path": path,
        "content": base64.encodebytes(data).decode() if inline else "",
        "sha": name,
        "url": api,
        "git_url": blob,
        "html_url": f"{world.url}/{repo.full_name}/blob/{ref}/{path}",
        "download_url": f"{world.url}/raw/{repo.full_name}/{ref}/{path}",
        "_links": {"git": blob, "html": f"{world.url}/{repo.full_name}", "self": api},
    }


@router.get("/repos/{owner}/{name}/git/blobs/{sha}")
async def blob(request: Request, sha: str):
    world, repo = request.app.state.world, request.state.repo
    try:
        data = repo.git.run("cat-file", "blob", sha)
    except LookupError:
        raise RefusedError(404, "Not Found") from None
    return {
        "content": base64.encodebytes(data).decode(),
        "encoding": "base64",
        "url": f"{world.url}/repos/{repo.full_name}/git/blobs/{sha}",
        "sha": sha,
        "size": len(data),
        "node_id": shapes.node("B", int(sha[:8], 16)),
    }


@router.get("/repos/{owner}/{name}/collaborators/{login}/permission")
async def permission(request: Request, login: str):
    world, repo = request.app.state.world, request.state.repo
    who: User | None = world.users.get(login)
    if who is None:
        raise RefusedError(404, f"{login} is not a user")
    role = repo.roles.get(login, "none" if repo.private or who.type == "Bot" else "read")
    folded = {"maintain": "write", "triage": "read"}.get(role, role)
    return {
        "permission": folded,
        "role_name": role,
        "user": shapes.user(world, who) | {"role_name": role, "permissions": _flags(folded)},
    }


def _flags(role: str) -> dict[str, bool]:
    ranks = {"none": 0, "read": 1, "write": 2, "admin": 3}
    rank = ranks[role]
    return {"pull": rank >= 1, "push": rank >= 2, "admin": rank >= 3}
