"""Every registered rule, held to the same promises through its own examples.

A rule needs no test file: its `BAD` and `GOOD` examples are read from the registry here.
"""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

from analyzers.analysis import AnalysisConfig, Status
from analyzers.engine import analyze
from analyzers.finding import Confidence, Finding, Safety
from analyzers.proof import apply_edits
from analyzers.rule import Bad, Rule, all_rules, find_rule

RULES = all_rules()
CATALOGUE = Path(__file__).parents[2] / "shared" / "RULES.md"
HEADINGS = (
    "What it does",
    "Why it matters",
    "Example",
    "Fix safety",
    "When to ignore",
    "References",
)

every_rule = pytest.mark.parametrize("rule", [pytest.param(r, id=r.code) for r in RULES])
every_bad = pytest.mark.parametrize(
    ("rule", "bad"),
    [
        pytest.param(rule, bad, id=f"{rule.code} bad {number}")
        for rule in RULES
        for number, bad in enumerate(rule.bad, 1)
    ],
)
every_good = pytest.mark.parametrize(
    ("rule", "good"),
    [
        pytest.param(rule, good, id=f"{rule.code} good {number}")
        for rule in RULES
        for number, good in enumerate(rule.good, 1)
    ],
)


def findings_of(rule: Rule, text: str) -> list[Finding]:
    analysis = analyze("example.py", text, AnalysisConfig(gpu=rule.gpu))
    assert analysis.status is Status.ANALYSED, analysis.reason
    return [found for found in analysis.findings if found.rule == rule.code]


def as_file(text: str) -> str:
    return textwrap.dedent(text).strip("\n") + "\n"


@every_bad
def test_a_bad_example_is_flagged_at_its_marked_lines_and_nowhere_else(
    rule: Rule, bad: Bad
) -> None:
    assert bad.marked, "a BAD example marks at least one line with `# <-`"
    assert {found.span.line for found in findings_of(rule, bad.source)} == bad.marked


@every_bad
def test_the_mark_is_a_comment_and_changes_nothing(rule: Rule, bad: Bad) -> None:
    lines = sorted(found.span.line for found in findings_of(rule, bad.unmarked))
    assert lines == sorted(found.span.line for found in findings_of(rule, bad.source))


@every_good
def test_a_good_example_is_met_with_silence(rule: Rule, good: str) -> None:
    ast.parse(good)
    assert [(f.span.line, f.confidence.value, f.message) for f in findings_of(rule, good)] == []


@every_bad
def test_the_mended_example_parses_and_is_silent(rule: Rule, bad: Bad) -> None:
    if not bad.fixed:
        assert not any(f.fix and f.fix.safety is Safety.SAFE for f in findings_of(rule, bad.source))
        return
    ast.parse(as_file(bad.fixed))
    assert [(f.span.line, f.message) for f in findings_of(rule, as_file(bad.fixed))] == []


@every_bad
def test_applying_the_fix_gives_exactly_the_mended_example(rule: Rule, bad: Bad) -> None:
    fixes = [found.fix for found in findings_of(rule, bad.unmarked) if found.fix]
    edits = tuple(edit for fix in fixes if fix.safety is not Safety.DISPLAY for edit in fix.edits)
    if bad.fixed and edits:
        assert apply_edits(bad.unmarked, dict.fromkeys(edits)) == as_file(bad.fixed)
    else:
        assert not any(fix.safety is Safety.SAFE for fix in fixes), "a SAFE fix needs its `fixed`"


@every_rule
def test_a_rule_brings_two_bad_and_two_good_examples(rule: Rule) -> None:
    assert len(rule.bad) >= 2
    assert len(rule.good) >= 2
    assert len({bad.source for bad in rule.bad} | set(rule.good)) == len(rule.bad) + len(rule.good)


@every_rule
def test_a_rule_is_sure_of_at_least_one_of_its_examples(rule: Rule) -> None:
    seen = {found.confidence for bad in rule.bad for found in findings_of(rule, bad.source)}
    assert seen & {Confidence.CERTAIN, Confidence.LIKELY}


@every_rule
def test_a_message_is_at_most_three_short_sentences(rule: Rule) -> None:
    for bad in rule.bad:
        for found in findings_of(rule, bad.source):
            assert found.message[:1].isupper() or found.message[:1] == "`", found.message
            assert found.message.endswith("."), found.message
            assert len(re.findall(r"[.!?](?=\s+[A-Z`]|$)", found.message)) <= 3, found.message
            assert len(found.message) <= 400, found.message


@every_rule
def test_a_fix_that_is_not_safe_states_its_condition(rule: Rule) -> None:
    fixes = [found.fix for bad in rule.bad for found in findings_of(rule, bad.source) if found.fix]
    assert [fix.title for fix in fixes if fix.safety is not Safety.SAFE and not fix.condition] == []


@every_rule
def test_a_page_has_the_fixed_headings_in_their_order(rule: Rule) -> None:
    assert tuple(re.findall(r"^## (.+?)\s*$", rule.page, re.MULTILINE)) == HEADINGS
    assert rule.title.endswith("."), "the first line states the problem as a sentence"
    # The example section is made from BAD and GOOD, so it alone may be empty.
    empty = [head for head in HEADINGS if head != "Example" and not rule.section(head)]
    assert empty == []


@every_rule
def test_file_function_and_rule_carry_one_name(rule: Rule) -> None:
    assert rule.check.__module__ == f"analyzers.rules.{rule.check.__name__}"
    assert rule.check.__name__.replace("_", "-") == rule.name
    assert re.fullmatch(r"GPU[1-9]\d\d", rule.code)
    assert find_rule(rule.code) is rule
    assert find_rule(rule.name) is rule


@every_rule
def test_code_and_name_are_those_of_the_catalogue(rule: Rule) -> None:
    if not CATALOGUE.exists():
        pytest.skip("the catalogue lies beside the project's own checkout only")
    names = dict(re.findall(r"^### (GPU\d+) `([\w-]+)`", CATALOGUE.read_text(), re.MULTILINE))
    if rule.code in names:  # rules that came later than the catalogue name themselves
        assert names[rule.code] == rule.name


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)
    modules = list((Path(__file__).parents[1] / "analyzers" / "rules").glob("[!_]*.py"))
    assert sorted(path.stem for path in modules) == sorted(rule.check.__name__ for rule in RULES)
