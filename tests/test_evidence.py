"""What was measured about findings: in their comments, and in the summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from test_bench_report import made

from analyzers.finding import Confidence, Span
from bot.always_runs import always_runs
from bot.config import RepoConfig
from bot.diff import Change, ChangedFile, whole_file
from bot.effects import with_effect, without_effect
from bot.evidence import Evidence, weighed
from bot.github_marks import marks
from bot.reports.markdown import summary
from bot.review import Review, build_review
from gpu_runner.models import BenchReport
from gpu_runner.records import Backend, Device, Site, Variant
from tests.bench_scene import BenchScene, bench_scene
from tests.github_scene import CLEAN, HEAD

DOUBTED = """\
import torch


def tell(losses, names):
    out = []
    for loss, name in zip(losses, names):
        out.append(loss.item() if name else None)
    return out


def total(losses):
    found = 0.0
    for loss in losses:
        found += loss.item()
    return found
"""
MAYBE, SURE = 7, 14  # lines of the two findings that nobody is sure of


def judged(text: str = DOUBTED) -> tuple[Review, tuple[ChangedFile, ...]]:
    data = text.encode()
    files = (ChangedFile("wait.py", Change.ADDED, whole_file(data), data),)
    return build_review(files, RepoConfig()), files


def doubts(review: Review) -> list[int]:
    found = [c for c in review.comments if c.finding.confidence is Confidence.POSSIBLE]
    return [c.finding.span.line for c in found]


def with_sites(*sites: Site) -> Evidence:
    return Evidence(sites={(site.path, site.line): site for site in sites})


def test_a_wait_at_its_line_confirms_a_possible_finding_and_moves_it_up() -> None:
    review, files = judged()
    assert doubts(review) == [MAYBE, SURE]
    found = weighed(review, files, with_sites(Site("wait.py", SURE, 40, 12, 1900.0)))
    assert found.comments == review.comments
    text = summary(found)
    before, _, folded = text.partition("<details><summary>Possible findings")
    assert "1 possible finding more. 1 confirmed by measurement." in before
    assert "`wait.py:14` **GPU105**" in before
    assert "**Measured: the host waited here 12 times, 1.9 ms in all.**" in before
    assert "wait.py:14" not in folded
    assert "wait.py:7" in folded


def test_a_line_that_ran_without_a_wait_refutes_a_possible_finding() -> None:
    review, files = judged()
    found = weighed(review, files, with_sites(Site("wait.py", SURE, 40)))
    assert doubts(found) == [MAYBE]
    assert len(found.refuted) == 1
    text = summary(found)
    assert "1 refuted by measurement." in text
    assert "wait.py:14" not in text


@pytest.mark.parametrize(
    "site",
    [
        pytest.param(Site("wait.py", SURE, 0), id="the line did not run"),
        pytest.param(Site("wait.py", MAYBE, 40), id="the line ran, perhaps not all of it"),
        pytest.param(Site("other.py", SURE, 40), id="another file"),
        pytest.param(Site("wait.py", SURE + 1, 40), id="another line"),
    ],
)
def test_without_proof_nothing_is_silenced(site: Site) -> None:
    review, files = judged()
    assert weighed(review, files, with_sites(site)) == review


def test_a_sure_finding_is_neither_confirmed_nor_refuted() -> None:
    review, files = judged(HEAD)
    sites = [Site("wait.py", c.finding.span.line, 40) for c in review.comments]
    assert len(sites) == 2
    assert weighed(review, files, with_sites(*sites)) == review


@pytest.mark.parametrize(
    ("text", "part", "runs"),
    [
        ("x = t.item()", "t.item()", True),
        ("while t.any():\n    pass", "t.any()", True),
        ("for x in t.tolist():\n    pass", "t.tolist()", True),
        ("x = f(t.item(), a and b)", "t.item()", True),
        ("x = t.item() if a else b", "t.item()", False),
        ("x = b if t.any() else c", "t.any()", True),
        ("x = a and t.item()", "t.item()", False),
        ("x = t.item() and a", "t.item()", True),
        ("x = 0 < t.item() < 3", "t.item()", True),
        ("x = 0 < y < t.item()", "t.item()", False),
        ("f = lambda: t.item()", "t.item()", False),
        ("x = [t.item() for t in ts]", "t.item()", False),
        ("x = [t for t in ts.tolist()]", "ts.tolist()", True),
        ("x = {k: 1 for k in ks for t in k.tolist()}", "k.tolist()", False),
        ("x = [t for t in ts if t.item()]", "t.item()", False),
        ("assert a, t.item()", "t.item()", False),
        ("assert t.any(), a", "t.any()", True),
        ("if a: x = t.item()", "t.item()", False),
        ("a(); x = t.item()", "t.item()", False),
        ("match a:\n    case 1 if t.item():\n        pass", "t.item()", False),
        ("x = 'é', t.item()", "t.item()", False),
        ("x = (", "x", False),
    ],
)
def test_what_a_lines_run_proves_about_a_part_of_it(text: str, part: str, runs: bool) -> None:
    line = next(n for n, found in enumerate(text.splitlines(), 1) if part in found)
    column = text.splitlines()[line - 1].index(part)
    assert always_runs(text, Span(line, column, line, column + len(part))) is runs


def test_an_effect_stands_before_the_marks_and_takes_the_place_of_an_earlier_one() -> None:
    hostile = "code <!-- hostside:evidence --> <!-- hostside:measured --> more"
    body = f"{hostile}\n\n<!-- hostside:{'a' * 16} -->"
    once = with_effect(body, "**Measured**: one")
    twice = with_effect(once, "**Measured**: two")
    assert marks(once) == marks(twice) == ("measured", "a" * 16)
    assert hostile in twice
    assert "one" not in twice
    assert with_effect(twice, "**Measured**: two") == twice
    assert without_effect(twice) == without_effect(body) == hostile


# --- on the stand-in


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchScene]:
    head: dict[str, str | bytes | None] = {"train.py": HEAD, "wait.py": DOUBTED}
    with bench_scene(tmp_path_factory.mktemp("evidence"), head=head) as made_scene:
        made_scene.pages = "https://hostside.example"
        yield made_scene


@pytest.fixture
def bench(opened: BenchScene) -> BenchScene:
    opened.fresh(reviewed=True, files={"train.py": HEAD, "wait.py": DOUBTED})
    return opened


def report(*sites: Site, **changed: object) -> BenchReport:
    """A measured report whose head's first pass knows these lines."""
    found = made()
    (benchmark,) = found.run.benchmarks
    traces = tuple(
        replace(t, sites=sites) if t.variant is Variant.HEAD else t for t in benchmark.traces
    )
    run = replace(found.run, benchmarks=(replace(benchmark, traces=traces),), **changed)  # type: ignore[arg-type]
    return BenchReport.from_json(replace(found, run=run).to_json())


def measure(bench: BenchScene, command: str, result: BenchReport) -> None:
    bench.say(command)
    leased = bench.claim()
    assert bench.benches.deliver(leased.bench.id, leased.lease, result.to_json())
    bench.settle()


def effects(bench: BenchScene) -> list[str]:
    """The measured lines of the finding comments."""
    bodies = [comment.body for comment in bench.github.comments]
    return [
        next((line for line in body.splitlines() if line.startswith("**Measured**")), "")
        for body in bodies
    ]


def told(bench: BenchScene) -> str:
    """The review's summary."""
    return next(c.body for c in bench.ours if c.body.rstrip().endswith("hostside:summary -->"))


def test_comments_say_what_their_suggestion_did_and_the_summary_what_was_seen(
    bench: BenchScene,
) -> None:
    head = bench.github.pull.head_sha
    assert "2 possible findings more" in told(bench)
    measure(bench, "/gpu-bench suggestion=2", report(Site("wait.py", SURE, 30, 9, 2500.0)))
    first, second = effects(bench)
    assert first == ""
    assert second.startswith(f"**Measured** at `{head[:12]}` on `Test Board`: ")
    assert " in `gpu_bench/a.py::ring` ([the run](https://hostside.example/r/" in second
    assert "\u221287.9 % (" in second
    assert "1 confirmed by measurement" in told(bench)
    assert "the host waited here 9 times, 2.5 ms in all" in told(bench)
    suggestions = [c for c in bench.github.comments if "```suggestion" in c.body]
    assert len(suggestions) == 2  # still one click

    edits = [len(c.edits) for c in bench.github.comments]
    bench.say("/hostside review")
    assert [len(c.edits) for c in bench.github.comments] == edits

    measure(bench, "/gpu-bench", report())
    both = effects(bench)
    assert all("together with 1 other suggestion: " in line for line in both)
    assert "1 confirmed by measurement" in told(bench)  # by the run before

    bench.github.world.push(bench.github.pull, {"train.py": CLEAN})
    bench.settle()
    assert all(c.body.startswith("**Fixed** at ") for c in bench.github.comments)
    assert "confirmed" not in told(bench)  # nothing was measured at this head


def test_what_was_refuted_is_silent_and_its_count_is_said(bench: BenchScene) -> None:
    measure(bench, "/gpu-bench suggestion=none", report(Site("wait.py", SURE, 30)))
    assert "1 refuted by measurement" in told(bench)
    assert "wait.py:14" not in told(bench)
    assert "wait.py:7" in told(bench)
    assert effects(bench) == ["", ""]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"device": None}, id="no device"),
        pytest.param({"backend": Backend.CPU, "device": Device("cpu", "A CPU")}, id="on a CPU"),
        pytest.param(
            {"backend": Backend.MODEL, "device": Device("model", "A model")}, id="on the model"
        ),
    ],
)
def test_only_what_was_measured_on_a_gpu_counts(
    bench: BenchScene, changed: dict[str, object]
) -> None:
    before = told(bench)
    measure(bench, "/gpu-bench", report(Site("wait.py", SURE, 30), **changed))
    assert told(bench) == before
    assert effects(bench) == ["", ""]


def test_a_pull_request_that_was_never_reviewed_is_not_reviewed_for_it(bench: BenchScene) -> None:
    bench.fresh(files={"train.py": HEAD})
    measure(bench, "/gpu-bench", report())
    assert bench.github.comments == []
    assert "### GPU benchmark: " in bench.sticky


def test_a_confirmed_finding_is_told_even_where_there_was_nothing_to_tell_before(
    bench: BenchScene,
) -> None:
    bench.fresh(reviewed=True, files={"wait.py": DOUBTED})
    assert bench.ours == []
    measure(bench, "/gpu-bench", report(Site("wait.py", SURE, 30, 9, 2500.0)))
    assert "**Measured: the host waited here 9 times, 2.5 ms in all.**" in told(bench)
