"""The shape of a baseline file, checked when one is read and published as a JSON schema."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Row(BaseModel):
    """A finding that is left out."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rule: str = Field(pattern="^GPU[0-9]{3}$", description="The rule's code.")
    path: str = Field(min_length=1, description="The file, from the top of the repository.")
    text: str = Field(description="The flagged line, blanks levelled; for readers of this file.")
    ordinal: int = Field(ge=1, description="Which of those with this rule, path and text.")
    fingerprint: str = Field(
        pattern="^[0-9a-f]{16}$", description="What it is known by, as in comments and reports."
    )


class BaselineFile(BaseModel):
    """What `hostside baseline` writes; the findings in it are not reported."""

    model_config = ConfigDict(extra="forbid", strict=True, title="Hostside baseline")

    version: Literal[1]
    findings: list[Row]


def schema() -> dict[str, Any]:
    """The JSON schema of the file, published as docs/schema/baseline.schema.json."""
    made = BaselineFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
