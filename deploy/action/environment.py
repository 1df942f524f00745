"""Makes the Action's virtual environment, or finds the one that an earlier job made.

It lies in the runner's tool cache under a name that says what is in it: this source, this Python.
The reviewed project's environment is not touched, and no setting of the workspace is read, which
may hold a stranger's code.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PINNED = Path(__file__).resolve().with_name("requirements.txt")
PACKAGES = ("analyzers", "bot", "gpu_runner")
# They would lead the installation elsewhere.
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "VIRTUAL_ENV")


def digest() -> str:
    """What tells this source from every other."""
    found = hashlib.sha256()
    packaged = (path for name in PACKAGES for path in (SOURCE / name).rglob("*"))
    inside = (path for path in packaged if path.is_file() and path.suffix != ".pyc")
    for file in (SOURCE / "pyproject.toml", PINNED, *sorted(inside)):
        found.update(f"{file.relative_to(SOURCE)}\0".encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def place() -> Path:
    """Where the environment is or will be."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = hashlib.sha256(sys.base_prefix.encode()).hexdigest()[:8]
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}-{base}"
    name = Path("hostside") / f"{project['version']}-{digest()}" / tag
    for variable in ("RUNNER_TOOL_CACHE", "RUNNER_TEMP"):
        folder = Path(os.environ.get(variable) or "/nowhere") / name
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder.parent, os.W_OK):
            return folder
    sys.exit("::error title=Hostside::neither RUNNER_TOOL_CACHE nor RUNNER_TEMP can be written")


def works(folder: Path) -> bool:
    """Whether the environment is complete, and its Python still there."""
    if not (folder / "ready").is_file():
        return False
    try:
        command = [str(folder / "bin" / "python"), "-I", "-c", ""]
        return subprocess.run(command, check=False).returncode == 0
    except OSError:
        return False


def make(folder: Path) -> None:
    """Build the environment from pinned packages and this source."""
    shutil.rmtree(folder, ignore_errors=True)
    python = folder / "bin" / "python"
    uv = shutil.which("uv")
    if uv:
        call(folder, uv, "venv", "--quiet", "--python", sys.executable, str(folder))
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        call(folder, sys.executable, "-I", "-m", "venv", str(folder))
        install = [str(python), "-I", "-m", "pip", "install", "--quiet", "--no-input"]
        install.append("--disable-pip-version-check")
    call(folder, *install, "-r", str(PINNED))
    call(folder, *install, "--no-deps", "--no-build-isolation", str(SOURCE))
    (folder / "ready").touch()


def call(folder: Path, *command: str) -> None:
    """Run a command outside of the workspace, whose settings must not count."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    try:
        subprocess.run(command, check=True, cwd=folder.parent, env=kept, stdout=sys.stderr)
    except subprocess.CalledProcessError as problem:
        print(
            "::error title=Hostside::its packages could not be installed "
            f"({Path(command[0]).name} ended with {problem.returncode}); the log above says why"
        )
        sys.exit(2)


def main() -> None:
    """Print and give to the next step where the environment's Python is."""
    folder = place()
    with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another job of this machine may be making it
        found = works(folder)
        if not found:
            make(folder)
    print(
        f"hostside: {'found' if found else 'made'} the environment for "
        f"Python {platform.python_version()}"
    )
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as output:
        output.write(f"python={folder / 'bin' / 'python'}\n")


main()
