"""Our GraphQL questions fit the schema, the stand-in's and GitHub's own.

The second is optional: `npm install @octokit/graphql-schema@15.26.1`, then
HOSTSIDE_GRAPHQL_SCHEMA=node_modules/@octokit/graphql-schema/schema.graphql.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from graphql import GraphQLSchema, build_schema, parse, validate

from bot import github_said
from tests.standin import routes_git

FILE = os.environ.get("HOSTSIDE_GRAPHQL_SCHEMA", "")
QUESTIONS = [
    pytest.param(github_said.THREADS, id="threads"),
    pytest.param(github_said.VIEWER, id="viewer"),
]


def complaints(schema: GraphQLSchema, question: str) -> list[str]:
    return [error.message for error in validate(schema, parse(question))]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_fits_the_stand_ins_schema(question: str) -> None:
    assert complaints(routes_git.SCHEMA, question) == []


@pytest.fixture(scope="module")
def published() -> GraphQLSchema:
    if not FILE:
        pytest.skip("npm install @octokit/graphql-schema@15.26.1; set HOSTSIDE_GRAPHQL_SCHEMA")
    # What is published names a field of another type twice.
    return build_schema(Path(FILE).read_text(), assume_valid=True, assume_valid_sdl=True)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_fits_githubs_schema(published: GraphQLSchema, question: str) -> None:
    assert complaints(published, question) == []


def test_the_stand_ins_schema_is_a_part_of_githubs(published: GraphQLSchema) -> None:
    for name, kind in routes_git.SCHEMA.type_map.items():
        if name.startswith("__"):
            continue
        theirs = getattr(published.type_map[name], "fields", {})
        for field, ours in getattr(kind, "fields", {}).items():
            assert str(theirs[field].type).strip("!") == str(ours.type).strip("!"), (name, field)
