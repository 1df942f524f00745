"""The bundled example change: what a senior reviewer would say about it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.analysis import AnalysisConfig
from analyzers.engine import analyze
from analyzers.finding import Confidence
from analyzers.rule import find_rule

REPOSITORY = Path(__file__).parents[1] / "examples" / "training-repo"
CONFIG = AnalysisConfig(gpu="L4")

# File, rule, and how the flagged line begins.
EXPECTED = [
    ("train.py", "GPU201", "mask = torch.ones(images.shape).to(device)"),
    ("train.py", "GPU105", "running += loss.item()"),
    ("train.py", "GPU401", "return time.perf_counter() - started"),
    ("train.py", "GPU505", "logits = model(images)"),
    ("train.py", "GPU901", "return np.concatenate(rows)"),
    ("train.py", "GPU102", "torch.cuda.synchronize()"),
    ("train.py", "GPU701", "validation = DataLoader("),
    ("train.py", "GPU703", "validation = DataLoader("),
    ("prefetch.py", "GPU302", "yield (images - 0.5) / 0.25, labels"),
    ("shading.py", "GPU205", "pixels = cuda.to_device("),
    ("shading.py", "GPU205", "even.append(pixels.copy_to_host()"),
    ("shading.py", "GPU613", "flatten_kernel[blocks_for(image.size), THREADS](pixels, 1.2, -8.0)"),
    ("shading.py", "GPU102", "cuda.synchronize()"),
    ("shading.py", "GPU902", "packed = cuda.to_device(np.empty(total"),
    ("shading.py", "GPU215", "packed = cuda.to_device(np.empty(total"),
    ("sharpness.py", "GPU905", "floor_kernel("),
    ("sharpness.py", "GPU906", "floor_kernel("),
    ("activations.py", "GPU606", "grid = (n // block,)"),
    ("activations.py", "GPU908", "gate_kernel[grid]("),
]
# Right as they are, although they look like the ones above.
INNOCENT = [
    ("train.py", 'print(f"epoch {epoch} step {step} loss {loss.item():.4f}")'),
    ("train.py", "return correct.item() / seen"),
    ("train.py", "return turns * len(images) / (time.perf_counter() - started)"),
    ("data.py", "if weights[number].item() <= 0:"),
    ("data.py", 'self.labels = index["labels"].item()'),
    ("shading.py", "starts = [0, *ends[:-1].tolist()]"),
]


def said(state: str, name: str) -> list[tuple[str, str, Confidence]]:
    """Rule, flagged line and confidence of everything said about one file."""
    text = (REPOSITORY / state / "leafscan" / name).read_text()
    lines = text.splitlines()
    found = analyze(f"leafscan/{name}", text, CONFIG).findings
    return [(f.rule, lines[f.span.line - 1].strip(), f.confidence) for f in found]


@pytest.mark.parametrize(
    ("name", "rule", "line"),
    [pytest.param(*row, id=f"{row[1]} in {row[0]}: {row[2]}") for row in EXPECTED],
)
def test_each_mistake_of_the_change_is_named(name: str, rule: str, line: str) -> None:
    if find_rule(rule) is None:
        pytest.skip(f"{rule} is not written yet")
    sure = [(r, text) for r, text, sureness in said("head", name) if sureness != "possible"]
    assert any(r == rule and text.startswith(line) for r, text in sure), sure


@pytest.mark.parametrize(("name", "line"), INNOCENT)
def test_what_only_looks_like_a_mistake_is_passed_over(name: str, line: str) -> None:
    text = (REPOSITORY / "head" / "leafscan" / name).read_text()
    assert line in text
    sure = [
        (rule, flagged) for rule, flagged, sureness in said("head", name) if sureness != "possible"
    ]
    assert [rule for rule, flagged in sure if flagged == line] == []


FILES = sorted(path.name for path in (REPOSITORY / "head" / "leafscan").glob("*.py"))


@pytest.mark.parametrize("name", FILES)
def test_nothing_else_is_said_for_sure(name: str) -> None:
    allowed = [(rule, line) for file, rule, line in EXPECTED if file == name]
    surplus = [
        (rule, line)
        for rule, line, confidence in said("head", name)
        if confidence is not Confidence.POSSIBLE
        and not any(rule == r and line.startswith(start) for r, start in allowed)
    ]
    assert surplus == []


@pytest.mark.parametrize("name", [name for name in FILES if name != "prefetch.py"])
def test_the_state_before_the_change_is_clean(name: str) -> None:
    assert [entry for entry in said("base", name) if entry[2] is not Confidence.POSSIBLE] == []
