"""The rules' pages, made from the rules themselves: `python -m analyzers.pages [--check]`.

Writes `docs/rules/README.md`, one page for each rule, and the table in the README. With `--check`
it writes nothing and fails when a page is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from analyzers.engine import analyze
from analyzers.finding import Safety
from analyzers.rule import MARK, Bad, Rule, all_rules

BEGIN, END = "<!-- rules -->", "<!-- /rules -->"
HEADINGS = (
    "What it does",
    "Why it matters",
    "Example",
    "Fix safety",
    "When to ignore",
    "References",
)
FAMILIES = {
    "GPU1": "Waits",
    "GPU2": "Copies",
    "GPU3": "Streams and races",
    "GPU4": "Timing",
    "GPU5": "Memory",
    "GPU6": "Launches",
    "GPU7": "Data loading",
    "GPU8": "Readability and lifecycle",
    "GPU9": "Correctness hazards",
}
_NOTE = "<!-- Written by `python -m analyzers.pages` from the rule's module: edit that instead. -->"
_OFFERS = {
    Safety.SAFE: "one click",
    Safety.UNSAFE: "one click, under a stated condition",
    Safety.DISPLAY: "a sketch",
}


def rule_page(rule: Rule) -> str:
    """The rule's page as Markdown; also what `hostside explain` prints."""
    parts = [
        f"# {rule.code} `{rule.name}`",
        rule.title,
        f"Severity: {rule.severity} · objective: {rule.objective} · suggestion: {suggestion(rule)}",
    ]
    for heading in HEADINGS:
        text = rule.section(heading)
        if heading == "Example":
            text = "\n\n".join(part for part in (text, _examples(rule)) if part)
        parts += [f"## {heading}", text]
    return "\n\n".join(part for part in parts if part) + "\n"


def _examples(rule: Rule) -> str:
    """The first bad example, what it becomes, and the nearest innocent neighbour."""
    bad = next((example for example in rule.bad if example.fixed), rule.bad[0])
    parts = ["Flagged:", _block(bad.source.replace(MARK, f"# <- {rule.code}"))]
    if bad.fixed:
        parts += ["Instead:", _block(Bad(bad.fixed).source)]
    return "\n\n".join([*parts, "Not flagged:", _block(rule.good[0])])


def _block(code: str) -> str:
    return f"```python\n{code.rstrip()}\n```"


def suggestion(rule: Rule) -> str:
    """The most that the rule offers, in words; a dash when it only comments."""
    found = [found for bad in rule.bad for found in analyze("example.py", bad.unmarked).findings]
    offered = {f.fix.safety for f in found if f.fix is not None and f.rule == rule.code}
    return next((words for safety, words in _OFFERS.items() if safety in offered), "–")


def table(rules: Sequence[Rule], folder: str) -> str:
    """The rules as a Markdown table whose links lead into `folder`."""
    head = "| Rule | Name | What is found | Severity | Suggestion |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| [{rule.code}]({folder}{rule.code}.md) | `{rule.name}` | {_cell(rule.title)} "
        f"| {rule.severity} | {suggestion(rule)} |\n"
        for rule in rules
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def overview(rules: Sequence[Rule]) -> str:
    """The index of all rules, by family."""
    parts = [
        _NOTE,
        "# Rules",
        "`hostside explain CODE` prints a page in the terminal. Silence a line with "
        "`# hostside: ignore[CODE] reason`; an unused one is reported.",
    ]
    for prefix, title in FAMILIES.items():
        if family := [rule for rule in rules if rule.code.startswith(prefix)]:
            parts += [f"## {prefix}xx {title}", table(family, "").rstrip()]
    return "\n\n".join(parts) + "\n"


def with_table(readme: str, rules: Sequence[Rule]) -> str:
    """The README with a fresh table between its two markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"README.md has no {BEGIN} … {END}; put the two markers back")
    return f"{before}{BEGIN}\n{table(rules, 'docs/rules/')}{END}{after}"


def expected(root: Path) -> dict[Path, str]:
    """What every generated file should say."""
    rules = all_rules()
    folder = root / "docs" / "rules"
    pages = {folder / f"{rule.code}.md": f"{_NOTE}\n\n{rule_page(rule)}" for rule in rules}
    readme = root / "README.md"
    index = {
        folder / "README.md": overview(rules),
        readme: with_table(readme.read_text(encoding="utf-8"), rules),
    }
    return index | pages


def stale(root: Path) -> list[Path]:
    """Generated files that differ from what they should say, are missing, or left over."""
    wanted = expected(root)
    wrong = [p for p, text in wanted.items() if not p.is_file() or p.read_text("utf-8") != text]
    return wrong + [p for p in sorted((root / "docs" / "rules").glob("*.md")) if p not in wanted]


def write(root: Path) -> list[Path]:
    """The files that had to be changed."""
    wanted, changed = expected(root), stale(root)
    for path in changed:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return changed


def main(arguments: Sequence[str]) -> int:
    """0 when all pages are fresh, or were written; 1 when `--check` found a stale one."""
    root = Path(__file__).resolve().parents[1]
    check = list(arguments) == ["--check"]
    changed = stale(root) if check else write(root)
    for path in changed:
        print(f"{'stale' if check else 'wrote'}: {path.relative_to(root)}")
    if changed and check:
        print("run `python -m analyzers.pages` and commit what it writes")
    return 1 if changed and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
