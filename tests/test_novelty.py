"""Only what the base did not already have is new."""

from __future__ import annotations

from analyzers.finding import Confidence, Finding, Related, Severity, Span
from bot.diff import Hunk, parse_patch
from bot.novelty import flag, news, without_moved


def finding(line: int, rule: str = "GPU105", related: int = 0) -> Finding:
    others = (Related(Span(related, 0, related, 1), "here"),) if related else ()
    return Finding(
        Span(line, 0, line, 3), "m", Confidence.LIKELY, Severity.WARNING, others, rule=rule
    )


def hunks(*patches: str) -> tuple[Hunk, ...]:
    return parse_patch("m.py", "\n".join(patches)).hunks


def new_lines(
    head: list[str], flagged: list[Finding], base: list[str], known: list[Finding], patch: str
) -> list[int]:
    change = news(flag(flagged, head), flag(known, base), hunks(patch))
    return [found.finding.span.line for found in change.new]


def test_a_finding_on_an_added_line_is_new() -> None:
    assert new_lines(
        ["a", "x.item()"], [finding(2)], ["a"], [], "@@ -1 +1,2 @@\n a\n+x.item()"
    ) == [2]


def test_a_finding_on_an_untouched_line_is_not() -> None:
    patch = "@@ -1 +1,2 @@\n x.item()\n+b"
    assert new_lines(["x.item()", "b"], [finding(1)], ["x.item()"], [], patch) == []


def test_a_related_line_that_is_added_makes_it_new() -> None:
    patch = "@@ -1 +1,2 @@\n+for x in y:\n x.item()"
    head = ["for x in y:", "x.item()"]
    assert new_lines(head, [finding(2, related=1)], ["x.item()"], [], patch) == [2]


def test_a_finding_that_only_moved_in_its_file_is_not_new() -> None:
    patch = "@@ -1,2 +1,2 @@\n-x.item()\n b\n+x.item()"
    assert new_lines(["b", "x.item()"], [finding(2)], ["x.item()", "b"], [finding(1)], patch) == []


def test_an_indented_finding_that_base_had_is_not_new() -> None:
    patch = "@@ -1 +1,2 @@\n-x.item()\n+if y:\n+    x.item()"
    head = ["if y:", "    x.item()"]
    assert new_lines(head, [finding(2)], ["x.item()"], [finding(1)], patch) == []


def test_a_second_one_beside_a_known_one_is_new() -> None:
    patch = "@@ -1 +1,2 @@\n x.item()\n+x.item()"
    head = ["x.item()", "x.item()"]
    assert new_lines(head, [finding(1), finding(2)], head[:1], [finding(1)], patch) == [2]


def test_a_line_edited_in_place_keeps_its_old_finding() -> None:
    patch = "@@ -1 +1 @@\n-total += loss.item()\n+total += losses.item()"
    head, base = ["total += losses.item()"], ["total += loss.item()"]
    assert new_lines(head, [finding(1)], base, [finding(1)], patch) == []


def test_another_line_with_the_same_rule_is_new() -> None:
    patch = "@@ -1 +1 @@\n-print(loss.item())\n+best = max(best, float(scores[0]))"
    head, base = ["best = max(best, float(scores[0]))"], ["print(loss.item())"]
    assert new_lines(head, [finding(1)], base, [finding(1)], patch) == [1]


def test_another_rule_on_the_edited_line_is_new() -> None:
    patch = "@@ -1 +1 @@\n-total += loss.item()\n+total += losses.item()"
    head, base = ["total += losses.item()"], ["total += loss.item()"]
    assert new_lines(head, [finding(1, "GPU102")], base, [finding(1)], patch) == [1]


def test_code_moved_to_another_file_brings_nothing_new() -> None:
    key = ("GPU105", "x.item()")
    assert without_moved([("one", key), ("two", key)], [key]) == {"one"}
