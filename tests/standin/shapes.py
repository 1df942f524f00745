"""GitHub's JSON, complete enough for its published schema."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

from tests.standin import suggestions
from tests.standin.model import (
    WHEN,
    IssueComment,
    LineComment,
    Pull,
    Reaction,
    Repo,
    Review,
    User,
)
from tests.standin.world import World

_USER = (
    "followers", "following", "gists", "starred", "subscriptions", "organizations", "repos",
    "events", "received_events",
)  # fmt: skip
_REPO = (
    "archive", "assignees", "blobs", "branches", "collaborators", "comments", "commits", "compare",
    "contents", "contributors", "deployments", "downloads", "events", "forks", "git_commits",
    "git_refs", "git_tags", "issue_comment", "issue_events", "issues", "keys", "labels",
    "languages", "merges", "milestones", "notifications", "pulls", "releases", "stargazers",
    "statuses", "subscribers", "subscription", "tags", "teams", "trees", "hooks",
)  # fmt: skip
_COUNTS = ("forks", "forks_count", "stargazers_count", "watchers_count", "watchers", "size",
           "open_issues", "open_issues_count")  # fmt: skip
_FLAGS = ("has_issues", "has_projects", "has_wiki", "has_pages", "has_downloads", "archived",
          "disabled", "has_discussions", "is_template", "allow_forking",
          "web_commit_signoff_required")  # fmt: skip


def node(kind: str, number: int) -> str:
    return base64.b64encode(f"{kind}{number}".encode()).decode()


def user(world: World, who: User) -> dict[str, Any]:
    api = f"{world.url}/users/{who.login}"
    return {
        "login": who.login,
        "id": who.id,
        "node_id": node("U", who.id),
        "avatar_url": f"{world.url}/avatars/{who.id}",
        "gravatar_id": "",
        "url": api,
        "html_url": f"{world.url}/{who.login}",
        "type": who.type,
        "site_admin": False,
        **{f"{name}_url": f"{api}/{name}" for name in _USER},
    }


def repository(world: World, repo: Repo) -> dict[str, Any]:
    api = f"{world.url}/repos/{repo.full_name}"
    page = f"{world.url}/{repo.full_name}"
    return {
        "id": repo.id,
        "node_id": node("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "owner": user(world, repo.owner),
        "private": repo.private,
        "visibility": "private" if repo.private else "public",
        "html_url": page,
        "description": None,
        "fork": repo.fork_of is not None,
        "url": api,
        "clone_url": f"{page}.git",
        "git_url": f"git://stand-in.invalid/{repo.full_name}.git",
        "ssh_url": f"git@stand-in.invalid:{repo.full_name}.git",
        "svn_url": page,
        "mirror_url": None,
        "homepage": None,
        "language": "Python",
        "license": None,
        "default_branch": "main",
        "topics": [],
        "pushed_at": WHEN,
        "created_at": WHEN,
        "updated_at": WHEN,
        **dict.fromkeys(_COUNTS, 0),
        **dict.fromkeys(_FLAGS, False),
        **{f"{name}_url": f"{api}/{name.replace('_', '/')}" for name in _REPO},
    }


def _branch(world: World, repo: Repo | None, ref: str, sha: str, owner: User) -> dict[str, Any]:
    return {
        "label": f"{owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": user(world, owner),
        "repo": repository(world, repo) if repo else None,
    }


def pull(world: World, it: Pull) -> dict[str, Any]:
    from tests.standin.hunks import changed

    api = f"{world.url}/repos/{it.repo.full_name}/pulls/{it.number}"
    page = f"{world.url}/{it.repo.full_name}/pull/{it.number}"
    issue = f"{world.url}/repos/{it.repo.full_name}/issues/{it.number}"
    files = changed(it.repo.git, it.merge_base, it.head_sha)
    owner = it.head_repo.owner if it.head_repo else it.user
    links = {
        "self": api, "html": page, "issue": issue, "comments": f"{issue}/comments",
        "review_comments": f"{api}/comments", "review_comment": f"{api}/comments{{/number}}",
        "commits": f"{api}/commits", "statuses": f"{world.url}/statuses/{it.head_sha}",
    }  # fmt: skip
    return {
        "url": api,
        "id": it.id,
        "node_id": node("PR", it.id),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": issue,
        "commits_url": links["commits"],
        "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"],
        "comments_url": links["comments"],
        "statuses_url": links["statuses"],
        "number": it.number,
        "state": it.state,
        "locked": False,
        "title": it.title,
        "user": user(world, it.user),
        "body": None,
        "labels": [label(world, name) for name in it.labels],
        "milestone": None,
        "created_at": WHEN,
        "updated_at": it.updated,
        "closed_at": None if it.state == "open" else WHEN,
        "merged_at": None,
        "merge_commit_sha": None,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "head": _branch(world, it.head_repo, it.head_ref, it.head_sha, owner),
        "base": _branch(world, it.repo, it.base_ref, it.base_sha, it.repo.owner),
        "_links": {name: {"href": address} for name, address in links.items()},
        "author_association": "CONTRIBUTOR",
        "auto_merge": None,
        "draft": it.draft,
        "merged": False,
        "mergeable": True,
        "rebaseable": True,
        "mergeable_state": "clean",
        "merged_by": None,
        "comments": len(world.conversation(it)),
        "review_comments": len(world.comments_on(it)),
        "maintainer_can_modify": it.edits_allowed,
        "commits": 1,
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "changed_files": len(files),
    }


def label(world: World, name: str) -> dict[str, Any]:
    return {
        "id": 1 + sum(name.encode()),
        "node_id": node("L", sum(name.encode())),
        "url": f"{world.url}/labels/{name}",
        "name": name,
        "description": None,
        "color": "ededed",
        "default": False,
        "archived_at": None,
        "archived_by": None,
    }


def reaction(world: World, it: Reaction) -> dict[str, Any]:
    return {
        "id": it.id,
        "node_id": node("RE", it.id),
        "user": user(world, it.user),
        "content": it.content,
        "created_at": WHEN,
    }


def _rollup(url: str, reactions: list[Reaction]) -> dict[str, Any]:
    counts = Counter(reaction.content for reaction in reactions)
    names = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
    return {
        "url": f"{url}/reactions",
        "total_count": len(reactions),
        **{name: counts[name] for name in names},
    }


def line_comment(world: World, it: LineComment) -> dict[str, Any]:
    base = f"{world.url}/repos/{it.pull.repo.full_name}/pulls"
    api, page = (
        f"{base}/comments/{it.id}",
        f"{world.url}/{it.pull.repo.full_name}/pull/{it.pull.number}",
    )
    where = suggestions.place(it) if not it.whole_file else None
    line = where[1] if where else None
    said = {
        "url": api,
        "pull_request_review_id": it.review,
        "id": it.id,
        "node_id": node("PRRC", it.id),
        "diff_hunk": it.hunk,
        "path": it.path,
        "commit_id": it.pull.head_sha if where else it.commit,
        "original_commit_id": it.commit,
        "user": user(world, it.user),
        "body": it.body,
        "created_at": it.created,
        "updated_at": it.created,
        "html_url": f"{page}#discussion_r{it.id}",
        "pull_request_url": f"{base}/{it.pull.number}",
        "author_association": "NONE",
        "_links": {
            "self": {"href": api},
            "html": {"href": f"{page}#discussion_r{it.id}"},
            "pull_request": {"href": f"{base}/{it.pull.number}"},
        },
        "reactions": _rollup(api, it.reactions),
        "subject_type": "file" if it.whole_file else "line",
    }
    if it.whole_file:  # GitHub says 1 for these
        said |= {"line": 1, "original_line": 1, "side": "RIGHT", "position": 1}
    else:
        said |= {
            "line": line,
            "original_line": it.line,
            "start_line": where[0] if where and it.start_line else None,
            "original_start_line": it.start_line,
            "start_side": it.start_side,
            "side": it.side,
            "position": line,
            "original_position": it.line,
        }
    if it.reply_to is not None:
        said["in_reply_to_id"] = it.reply_to
    return {name: value for name, value in said.items() if value is not None or name not in _ABSENT}


_ABSENT = ("original_line", "original_position", "start_line", "start_side", "original_start_line")


def review(world: World, it: Review) -> dict[str, Any]:
    page = f"{world.url}/{it.pull.repo.full_name}/pull/{it.pull.number}#review-{it.id}"
    api = f"{world.url}/repos/{it.pull.repo.full_name}/pulls/{it.pull.number}"
    said = {
        "id": it.id,
        "node_id": node("PRR", it.id),
        "user": user(world, it.user),
        "body": it.body,
        "state": it.state,
        "html_url": page,
        "pull_request_url": api,
        "author_association": "NONE",
        "_links": {"html": {"href": page}, "pull_request": {"href": api}},
        "commit_id": it.commit_id,
    }
    return said if it.state == "PENDING" else said | {"submitted_at": WHEN}


def issue_comment(world: World, it: IssueComment) -> dict[str, Any]:
    api = f"{world.url}/repos/{it.repo.full_name}/issues/comments/{it.id}"
    return {
        "id": it.id,
        "node_id": node("IC", it.id),
        "url": api,
        "html_url": f"{world.url}/{it.repo.full_name}/pull/{it.number}#issuecomment-{it.id}",
        "issue_url": f"{world.url}/repos/{it.repo.full_name}/issues/{it.number}",
        "user": user(world, it.user),
        "body": it.body,
        "created_at": it.created,
        "updated_at": it.created,
        "author_association": "NONE",
        "performed_via_github_app": None,
        "reactions": _rollup(api, it.reactions),
    }
