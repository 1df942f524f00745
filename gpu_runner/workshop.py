"""What the operator provides: an interpreter, a sandbox, folders; and processes made of them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from gpu_runner.conversation import Conversation
from gpu_runner.errors import RunnerError
from gpu_runner.records import Backend, Limits
from gpu_runner.sandbox import Box, Isolation, Place
from gpu_runner.session import COMMANDS, RESULTS, Session

SOURCE, BENCHES, TOOLS = "/source", "/bench", "/hostside"
PACKAGE = Path(__file__).resolve().parent
ROOTS = ("", "src", "lib", "python")
WHERE = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix]))"
START = """
import json, sys
told = json.loads(sys.argv[3])
sys.path[:] = [told["tools"], *(path for path in sys.path if path)]
from gpu_runner.harness import main
sys.path.remove(told["tools"])
main(int(sys.argv[1]), int(sys.argv[2]), told["directory"], told["paths"], told["cuda"])
"""


@dataclass(frozen=True)
class Interpreter:
    """The Python that runs the benchmarks, and the folders it needs to be seen."""

    executable: Path
    folders: tuple[Path, ...]


@dataclass(frozen=True)
class Workshop:
    """Everything about this machine that a process under test is made of."""

    interpreter: Interpreter
    isolation: Isolation
    backend: Backend
    limits: Limits
    gpu: str | None = None
    image: str | None = None

    @contextlib.contextmanager
    def process(self, source: Path, benches: Path) -> Generator[Conversation]:
        """A fresh sandboxed harness over one variant's tree; ended whole on leaving."""
        box = self._box(source, benches)
        boxed = self.isolation is Isolation.CONTAINER
        python = "python3" if boxed else str(self.interpreter.executable)
        told = json.dumps(self._told(box, source, benches))
        command = [python, "-s", "-B", "-c", START, COMMANDS, RESULTS, told]
        with Session(box, command) as session:
            yield Conversation(session)

    def _box(self, source: Path, benches: Path) -> Box:
        places = [Place(source, SOURCE), Place(benches, BENCHES)]
        places.append(Place(PACKAGE, f"{TOOLS}/gpu_runner"))
        if self.isolation is not Isolation.CONTAINER:
            places += [Place(folder, str(folder)) for folder in self.interpreter.folders]
        return Box(
            self.isolation,
            self.limits,
            tuple(places),
            environment=self.variables(),
            cuda=self.backend is Backend.CUDA,
            image=self.image,
        )

    def _told(self, box: Box, source: Path, benches: Path) -> dict[str, object]:
        directory = box.seen_as(source)
        inner = [f"{directory}/{root}" for root in ROOTS if root and (source / root).is_dir()]
        return {
            "tools": str(Path(box.seen_as(PACKAGE)).parent),
            "directory": directory,
            "paths": [box.seen_as(benches), directory, *inner],
            "cuda": self.backend is Backend.CUDA,
        }

    def variables(self) -> tuple[tuple[str, str], ...]:
        """What is set for every process, the same for all variants."""
        common = {
            "PYTHONHASHSEED": "0",
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))),
            "CUDA_VISIBLE_DEVICES": self.gpu or "",
            "CUDA_CACHE_PATH": "/tmp/cuda",
            "NUMBA_CACHE_DIR": "/tmp/numba",
            "TRITON_CACHE_DIR": "/tmp/triton",
        }
        if self.backend is Backend.CUDA and self.gpu is None:
            del common["CUDA_VISIBLE_DEVICES"]
        return tuple(common.items())


def interpreter(python: Path | None = None) -> Interpreter:
    """The given interpreter, else the active virtual environment's, else our own."""
    active = os.environ.get("VIRTUAL_ENV")
    chosen = python or (Path(active) / "bin" / "python" if active else Path(sys.executable))
    try:
        done = subprocess.run(
            [str(chosen), "-I", "-c", WHERE], capture_output=True, timeout=60, check=True
        )
        prefixes = [Path(each) for each in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError):
        raise RunnerError(f"{chosen} is not a Python that starts; name one with --python") from None
    usr = Path("/usr")
    folders = tuple(dict.fromkeys(each for each in prefixes if each != usr))
    return Interpreter(chosen.absolute(), folders)
