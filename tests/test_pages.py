"""The rules' pages say what the rules say, and nothing is stale."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analyzers.finding import Finding, Objective, Severity
from analyzers.pages import HEADINGS, expected, overview, rule_page, stale, table, with_table, write
from analyzers.rule import Bad, Rule, all_rules
from analyzers.timeline import Timeline

ROOT = Path(__file__).parents[1]
README = "# Name\n\n<!-- rules -->\nold\n<!-- /rules -->\n\nRest.\n"


def nothing(timeline: Timeline) -> Iterator[Finding]:
    yield from ()


SAMPLE = Rule(
    code="GPU199",
    name="tea-during-launch",
    severity=Severity.INFO,
    objective=Objective.PERFORMANCE,
    page="""Tea is made | while a kernel runs.

## What it does
Looks for tea.

## Why it matters
It gets cold.

## Example

## Fix safety
None.

## When to ignore
Never.

## References
- Our kitchen.
""",
    bad=(
        Bad("""
            import torch
            torch.tea()  # <-
            """),
        Bad("import torch\ntorch.tea(2)  # <-\n", fixed="import torch\n"),
    ),
    good=("import torch\n",),
    check=nothing,
)


def test_the_committed_pages_are_fresh() -> None:
    assert stale(ROOT) == [], "run `python -m analyzers.pages` and commit what it writes"


def test_a_page_holds_every_section_and_its_examples() -> None:
    page = rule_page(SAMPLE)
    assert page.startswith("# GPU199 `tea-during-launch`\n\nTea is made | while a kernel runs.\n")
    assert tuple(re.findall(r"^## (.+)$", page, re.MULTILINE)) == HEADINGS
    assert "Flagged:\n\n```python\nimport torch\ntorch.tea(2)  # <- GPU199\n```" in page
    assert "Instead:\n\n```python\nimport torch\n```" in page
    assert "suggestion: –" in page


def test_a_bar_in_a_title_does_not_break_the_table() -> None:
    row = table([SAMPLE], "docs/rules/").splitlines()[2]
    assert row == (
        "| [GPU199](docs/rules/GPU199.md) | `tea-during-launch` "
        "| Tea is made \\| while a kernel runs. | info | – |"
    )


def test_the_index_groups_rules_by_family() -> None:
    text = overview([SAMPLE])
    assert "## GPU1xx Waits" in text
    assert "GPU2xx" not in text


def test_the_readme_keeps_what_stands_around_the_table() -> None:
    text = with_table(README, [SAMPLE])
    assert text.startswith("# Name\n\n<!-- rules -->\n| Rule |")
    assert text.endswith("<!-- /rules -->\n\nRest.\n")
    assert "old" not in text
    assert with_table(text, [SAMPLE]) == text


def test_a_readme_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="put the two markers back"):
        with_table("# Name\n", [SAMPLE])


def test_pages_are_written_mended_and_removed(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(README)
    write(tmp_path)
    assert stale(tmp_path) == []
    assert set(expected(tmp_path)) >= {
        tmp_path / "docs" / "rules" / f"{r.code}.md" for r in all_rules()
    }
    left_over = tmp_path / "docs" / "rules" / "GPU998.md"
    left_over.write_text("A rule that is gone.")
    (tmp_path / "docs" / "rules" / "README.md").write_text("Edited by hand.")
    assert sorted(stale(tmp_path)) == sorted([left_over, tmp_path / "docs" / "rules" / "README.md"])
    write(tmp_path)
    assert stale(tmp_path) == []
    assert not left_over.exists()
