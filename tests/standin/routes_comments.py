"""Reviews, comments on lines and files, the conversation, reactions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from tests.standin import shapes
from tests.standin.hunks import Piece, changed
from tests.standin.model import (
    IssueComment,
    LineComment,
    Pull,
    Reaction,
    RefusedError,
    Review,
    invalid,
)
from tests.standin.paging import paged
from tests.standin.routes_pulls import find

router = APIRouter()
_LONGEST = 65_536
_EVENTS = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_EMOJI = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")
_OFF = "Pull request review thread line must be part of the diff"
_OTHER_HUNK = "Pull request review thread start line must be part of the same hunk as the line."
_ORDER = "Pull request review thread start line must precede the end line."
_BLANK = "Pull request review thread diff hunk can't be blank"


def _body(given: dict[str, Any], required: bool = True) -> str:
    body = given.get("body") or ""
    if required and not body.strip():
        raise invalid({"resource": "IssueComment", "code": "missing_field", "field": "body"})
    if len(body) > _LONGEST:
        raise invalid("Body is too long (maximum is 65536 characters)")
    return body


def _commit(pull: Pull, given: str | None) -> str:
    """The commit that a comment is about: any of the pull request's."""
    commit = given or pull.head_sha
    git = pull.repo.git
    if not git.tip(commit) or not git.contains(commit, pull.head_sha):
        raise invalid("Commit is not part of the pull request")
    return commit


def _anchor(pull: Pull, commit: str, given: dict[str, Any]) -> Piece:
    """The hunk that shows the comment's lines."""
    files = changed(pull.repo.git, pull.repo.git.merge_base(pull.base_sha, commit), commit)
    file = next((f for f in files if f.path == given["path"]), None)
    if file is None:
        raise invalid("Path could not be resolved")
    side, line = given.get("side", "RIGHT"), given.get("line")
    if line is None or file.path in pull.hidden:
        raise invalid(_OFF, _BLANK)
    piece = next((p for p in file.pieces if p.shows(side, line)), None)
    if piece is None:
        raise invalid(_OFF, _BLANK)
    start = given.get("start_line")
    if start is not None:
        if start >= line:
            raise invalid(_ORDER)
        if not piece.shows(given.get("start_side", side), start):
            raise invalid(_OTHER_HUNK)
    return piece


def _new(request: Request, pull: Pull, commit: str, given: dict[str, Any]) -> LineComment:
    piece = _anchor(pull, commit, given)
    return LineComment(
        next(request.app.state.world.ids), pull, request.state.token.user, _body(given),
        given["path"], commit, given["line"], given.get("start_line"),
        given.get("side", "RIGHT"), given.get("start_side"), piece.text,
    )  # fmt: skip


@router.get("/repos/{owner}/{name}/pulls/{number}/reviews")
async def reviews(request: Request, number: int):
    world, me = request.app.state.world, request.state.token.user
    seen = [r for r in world.reviews_on(find(request, number)) if _visible(r, me)]
    return paged(request, [shapes.review(world, review) for review in seen])


def _visible(review: Review, me) -> bool:
    return review.state != "PENDING" or review.user is me


@router.post("/repos/{owner}/{name}/pulls/{number}/reviews")
async def create_review(request: Request, number: int):
    world, pull, given = request.app.state.world, find(request, number), await request.json()
    me = request.state.token.user
    state = _EVENTS.get(given.get("event") or "", "PENDING")
    body, wanted = _body(given, required=False), given.get("comments") or []
    if state == "COMMENTED" and not body and not wanted:
        raise invalid("Body can't be blank")
    waiting = [r for r in world.reviews_on(pull) if r.user is me and r.state == "PENDING"]
    if waiting:
        raise invalid("User can only have one pending review per pull request")
    commit = _commit(pull, given.get("commit_id"))
    # All or nothing: nothing is kept until every comment has its place.
    comments = [_new(request, pull, commit, comment) for comment in wanted]
    review = Review(next(world.ids), pull, me, body, state, commit)
    for comment in comments:
        comment.review = review.id
    world.reviews.append(review)
    world.line_comments.extend(comments)
    return shapes.review(world, review)


def _draft(request: Request, number: int, review: int) -> Review:
    """A review that its author has not submitted; nobody else sees it."""
    world, me = request.app.state.world, request.state.token.user
    found = [r for r in world.reviews_on(find(request, number)) if r.id == review]
    if not found or not _visible(found[0], me):
        raise RefusedError(404, "Not Found")
    return found[0]


@router.get("/repos/{owner}/{name}/pulls/{number}/reviews/{review}")
async def one_review(request: Request, number: int, review: int):
    return shapes.review(request.app.state.world, _draft(request, number, review))


@router.delete("/repos/{owner}/{name}/pulls/{number}/reviews/{review}")
async def discard_review(request: Request, number: int, review: int):
    world, draft = request.app.state.world, _draft(request, number, review)
    if draft.state != "PENDING":
        raise invalid("Can not delete a non-pending pull request review")
    world.reviews.remove(draft)
    world.line_comments[:] = [c for c in world.line_comments if c.review != draft.id]
    return shapes.review(world, draft)


@router.post("/repos/{owner}/{name}/pulls/{number}/reviews/{review}/events")
async def submit_review(request: Request, number: int, review: int):
    draft, given = _draft(request, number, review), await request.json()
    if draft.state != "PENDING":
        raise invalid("Could not submit a review that was submitted before")
    draft.state, draft.body = _EVENTS[given["event"]], given.get("body") or draft.body
    return shapes.review(request.app.state.world, draft)


@router.get("/repos/{owner}/{name}/pulls/{number}/comments")
async def line_comments(request: Request, number: int):
    world = request.app.state.world
    found = world.comments_on(find(request, number))
    return paged(request, [shapes.line_comment(world, comment) for comment in found])


@router.post("/repos/{owner}/{name}/pulls/{number}/comments", status_code=201)
async def create_comment(request: Request, number: int):
    world, pull, given = request.app.state.world, find(request, number), await request.json()
    commit = _commit(pull, given.get("commit_id"))
    if given.get("subject_type") == "file":
        files = changed(pull.repo.git, pull.repo.git.merge_base(pull.base_sha, commit), commit)
        if given["path"] not in [file.path for file in files]:
            raise invalid("Path could not be resolved")
        made = LineComment(
            next(world.ids), pull, request.state.token.user, _body(given), given["path"], commit,
            whole_file=True,
        )  # fmt: skip
    else:
        made = _new(request, pull, commit, given)
    world.line_comments.append(made)
    return shapes.line_comment(world, made)


def _line(request: Request, number: int) -> LineComment:
    found = [c for c in request.app.state.world.line_comments if c.id == number]
    if not found or found[0].pull.repo is not request.state.repo:
        raise RefusedError(404, "Not Found")
    return found[0]


def _issue(request: Request, number: int) -> IssueComment:
    found = [c for c in request.app.state.world.issue_comments if c.id == number]
    if not found or found[0].repo is not request.state.repo:
        raise RefusedError(404, "Not Found")
    return found[0]


def _edit(request: Request, comment: LineComment | IssueComment, given: dict[str, Any]) -> None:
    if comment.user is not request.state.token.user:
        raise RefusedError(403, "Resource not accessible by integration")
    comment.edits.append(comment.body)
    comment.body = _body(given)


@router.patch("/repos/{owner}/{name}/pulls/comments/{number}")
async def edit_line_comment(request: Request, number: int):
    comment = _line(request, number)
    _edit(request, comment, await request.json())
    return shapes.line_comment(request.app.state.world, comment)


@router.delete("/repos/{owner}/{name}/pulls/comments/{number}")
async def delete_line_comment(request: Request, number: int) -> Response:
    request.app.state.world.line_comments.remove(_line(request, number))
    return Response(status_code=204)


@router.get("/repos/{owner}/{name}/issues/{number}/comments")
async def conversation(request: Request, number: int):
    world = request.app.state.world
    found = world.conversation(find(request, number))
    return paged(request, [shapes.issue_comment(world, comment) for comment in found])


@router.post("/repos/{owner}/{name}/issues/{number}/comments", status_code=201)
async def say(request: Request, number: int):
    world, pull = request.app.state.world, find(request, number)
    body = _body(await request.json())
    made = IssueComment(next(world.ids), pull.repo, number, request.state.token.user, body)
    world.issue_comments.append(made)
    return shapes.issue_comment(world, made)


@router.patch("/repos/{owner}/{name}/issues/comments/{number}")
async def edit_issue_comment(request: Request, number: int):
    comment = _issue(request, number)
    _edit(request, comment, await request.json())
    return shapes.issue_comment(request.app.state.world, comment)


@router.delete("/repos/{owner}/{name}/issues/comments/{number}")
async def delete_issue_comment(request: Request, number: int) -> Response:
    request.app.state.world.issue_comments.remove(_issue(request, number))
    return Response(status_code=204)


def _reactions(request: Request, comment: LineComment | IssueComment) -> JSONResponse:
    wanted = request.query_params.get("content")
    found = [r for r in comment.reactions if wanted in (None, r.content)]
    return paged(request, [shapes.reaction(request.app.state.world, r) for r in found])


async def _react(request: Request, comment: LineComment | IssueComment) -> JSONResponse:
    world, content = request.app.state.world, (await request.json())["content"]
    if content not in _EMOJI:
        raise invalid({"resource": "Reaction", "code": "invalid", "field": "content"})
    me = request.state.token.user
    same = [r for r in comment.reactions if r.user is me and r.content == content]
    if same:
        return JSONResponse(shapes.reaction(world, same[0]), 200)
    made = Reaction(next(world.ids), me, content)
    comment.reactions.append(made)
    return JSONResponse(shapes.reaction(world, made), 201)


@router.get("/repos/{owner}/{name}/pulls/comments/{number}/reactions")
async def line_reactions(request: Request, number: int):
    return _reactions(request, _line(request, number))


@router.post("/repos/{owner}/{name}/pulls/comments/{number}/reactions")
async def react_to_line(request: Request, number: int):
    return await _react(request, _line(request, number))


@router.get("/repos/{owner}/{name}/issues/comments/{number}/reactions")
async def issue_reactions(request: Request, number: int):
    return _reactions(request, _issue(request, number))


@router.post("/repos/{owner}/{name}/issues/comments/{number}/reactions")
async def react_to_issue(request: Request, number: int):
    return await _react(request, _issue(request, number))
