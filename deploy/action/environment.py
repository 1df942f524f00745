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
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PINNED = Path(__file__).resolve().with_name("requirements.txt")
PACKAGES = ("analyzers", "bot", "gpu_runner")
# What is kept of pip's and uv's own variables: where packages come from. Others are meant for the
# project, and would lead ours elsewhere (a target, constraints, another Python).
SETTINGS = re.compile(r"(PIP|UV)_|PYTHON|VIRTUAL_ENV$")
SOURCES = re.compile(
    r"(PIP|UV)_.*(INDEX|LINKS|CERT|TLS|PROXY|CACHE|HOST|TIMEOUT|RETRIES|KEYRING|CONFIG|OFFLINE)"
)


def digest() -> str:
    """What tells this source from every other."""
    found = hashlib.sha256()
    packaged = (path for name in PACKAGES for path in (SOURCE / name).rglob("*"))
    inside = (path for path in packaged if path.is_file() and path.suffix != ".pyc")
    for file in (SOURCE / "pyproject.toml", PINNED, *sorted(inside)):
        found.update(f"{file.relative_to(SOURCE)}\0".encode())
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def places() -> list[Path]:
    """Where the environment is or may be made, the best first."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = hashlib.sha256(sys.base_prefix.encode()).hexdigest()[:8]
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}-{base}"
    name = Path("hostside") / f"{project['version']}-{digest()}" / tag
    folders = (os.environ.get(variable) for variable in ("RUNNER_TOOL_CACHE", "RUNNER_TEMP"))
    return [Path(folder) / name for folder in folders if folder]


def writable(folders: list[Path]) -> Path:
    """The first one that can be made."""
    for folder in folders:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder.parent, os.W_OK):
            return folder
    print("::error title=Hostside::neither RUNNER_TOOL_CACHE nor RUNNER_TEMP can be written")
    sys.exit(2)


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
    # The list is complete; to look for what else might be needed could only add what is not in it.
    install.append("--no-deps")
    call(folder, *install, "--require-hashes", "-r", str(PINNED))
    call(folder, *install, "--no-build-isolation", str(SOURCE))
    (folder / "ready").touch()


def call(folder: Path, *command: str) -> None:
    """Run a command outside of the workspace, whose settings must not count."""
    dropped = {n for n in os.environ if SETTINGS.match(n) and not SOURCES.match(n)}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
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
    folders = places()
    # `ready` is written last, so a complete one needs no lock; nor need it be writable.
    folder = next((each for each in folders if works(each)), None)
    verb = "found"
    if folder is None:
        folder = writable(folders)
        with open(f"{folder}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another job of this machine may be making it
            if not works(folder):
                make(folder)
                verb = "made"
    print(f"hostside: {verb} the environment for Python {platform.python_version()}")
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as output:
        output.write(f"python={folder / 'bin' / 'python'}\n")


main()
