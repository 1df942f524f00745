"""The folder that a run leaves when it may not post, and what the run that follows reads of it.

A workflow of a fork can put anything into it. So only one number is read, and nothing follows from
it but a question to GitHub: whether that pull request stands at the commit of the run that is being
followed. What is posted is analysed anew from the commit, never taken from here.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.action_event import Run
from bot.errors import BotError
from bot.pulls import Pull, PullRef

NAME = "pull-request.json"
LARGEST = 1024  # bytes
VERSION = 1


class _Note(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    version: int = Field(ge=VERSION, le=VERSION)
    pull_request: int = Field(gt=0, lt=2**31)
    head_sha: str = Field(pattern=r"^[0-9a-f]{40,64}$")


def content(ref: PullRef) -> str:
    """The file that says which pull request was not spoken on."""
    said = {"version": VERSION, "pull_request": ref.number, "head_sha": ref.head_sha}
    return json.dumps(said) + "\n"


def number(folder: str) -> int:
    """The pull request that the folder names; 0 when the run left none."""
    path = Path(folder) / NAME
    try:
        # Never through a link, and never more than a note can be long.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return 0
    except OSError as problem:
        raise BotError(f"{NAME} of the artifact cannot be read ({problem.strerror})") from problem
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BotError(f"{NAME} of the artifact is not a regular file; nothing was posted")
        data = os.read(handle, LARGEST + 1)
    finally:
        os.close(handle)
    if len(data) > LARGEST:
        raise BotError(f"{NAME} of the artifact is longer than a note; nothing was posted")
    try:
        return _Note.model_validate_json(data).pull_request
    except ValidationError:
        raise BotError(f"{NAME} of the artifact is not one of ours; nothing was posted") from None


def why_not(run: Run, pull: Pull) -> str:
    """Why the pull request is not the one that the run was about; empty when it is."""
    if run.event != "pull_request":
        return f"the run that this one follows was started by {run.event}, not by pull_request"
    if not pull.open:
        return f"{pull.ref} was closed meanwhile"
    if pull.ref.head_sha != run.head_sha or pull.head_branch != run.head_branch:
        return f"{pull.ref} does not stand at the commit of the run that this one follows"
    return ""
