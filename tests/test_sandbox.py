"""Small hostile programs of our own, each run in the real sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from gpu_runner.records import Limits
from gpu_runner.sandbox import (
    Box,
    Isolation,
    Place,
    SandboxError,
    bubblewrap_problem,
    choose,
    container_problem,
)
from gpu_runner.session import Ending, Session

MIB = 1 << 20
LIMITS = Limits(
    process_seconds=20.0,
    cpu_seconds=20,
    memory_bytes=300 * MIB,
    scratch_bytes=20 * MIB,
    processes=40,
    output_bytes=4096,
)
PYTHON = Path(sys.base_prefix)

boxed = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="needs bubblewrap: apt-get install bubblewrap"
)


def box(*places: Place, limits: Limits = LIMITS, isolation: Isolation | None = None) -> Box:
    python = Place(PYTHON, str(PYTHON))
    return Box(isolation or Isolation.BUBBLEWRAP, limits, (python, *places))


def run(program: str, *places: Place, limits: Limits = LIMITS) -> Ending:
    """How the program ended in a box of its own."""
    command = [str(PYTHON / "bin/python3"), "-I", "-c", textwrap.dedent(program)]
    with Session(box(*places, limits=limits), command) as session:
        return session.wait()


def alive(mark: str) -> list[str]:
    """Processes of this machine whose command line holds the mark."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line and int(folder.name) != os.getpid():
            found.append(folder.name)
    return found


@boxed
@pytest.mark.sandbox
def test_an_innocent_program_runs_to_its_end() -> None:
    ending = run("print('two', 1 + 1)")
    assert (ending.code, ending.reason, ending.output) == (0, None, "two 2\n")


@boxed
@pytest.mark.sandbox
@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param("socket.create_connection(('1.1.1.1', 53), 3)", id="an address outside"),
        pytest.param("socket.create_connection(('127.0.0.1', PORT), 3)", id="the machine itself"),
        pytest.param("socket.getaddrinfo('example.com', 443)", id="a name"),
        pytest.param(
            "socket.socket().bind(('0.0.0.0', 0)) or "
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            id="raw packets",
        ),
    ],
)
def test_the_network_cannot_be_reached(attempt: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        ending = run(f"import socket\n{attempt}\nprint('reached')".replace("PORT", port))
    assert "reached" not in ending.output
    assert ending.code == 1


@boxed
@pytest.mark.sandbox
def test_secrets_of_the_machine_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "of_another").write_text("secret")
    (tmp_path / "of_another").chmod(0o644)
    program = f"""
    import os
    for path in ("/etc/shadow", "/etc/passwd", "/root/.ssh", "/home", "/var", "/run", "/work",
                 {str(tmp_path / "of_another")!r}):
        if os.path.exists(path):
            print("saw", path)
    for folder, _, files in os.walk({str(Path.home())!r}):
        if files and not folder.startswith({str(PYTHON)!r}):
            print("saw", folder)
    print(open("/proc/1/environ", "rb").read())
    print("uid", os.getuid(), sorted(os.environ))
    """
    ending = run(program)
    assert ending.output == (
        "b'PATH=/usr/bin:/bin\\x00PWD=/\\x00'\n"
        "uid 65534 ['HOME', 'HOSTSIDE_SESSION', 'LANG', 'PATH', 'PWD', 'USER']\n"
    )


@boxed
@pytest.mark.sandbox
def test_an_environment_full_of_tokens_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_not_for_you")
    ending = run("""
    import glob
    for path in glob.glob("/proc/*/environ"):
        print(b"ghs_" in open(path, "rb").read())
    """)
    assert "True" not in ending.output
    assert "False" in ending.output


@boxed
@pytest.mark.sandbox
@pytest.mark.parametrize(
    "path",
    [
        "/usr/x",
        "/bin/x",
        "/x",
        "/dev/x",
        "/etc/x",
        "/source/x",
        "/source/present",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sysrq-trigger",
        f"{PYTHON}/x",
    ],
)
def test_nothing_but_the_scratch_space_can_be_written(path: str, tmp_path: Path) -> None:
    (tmp_path / "present").write_text("as it was")
    program = f"""
    import os
    try:
        os.close(os.open({path!r}, os.O_WRONLY | os.O_CREAT))
    except OSError as problem:
        print("refused")
    """
    assert run(program, Place(tmp_path, "/source")).output == "refused\n"
    assert (tmp_path / "present").read_text() == "as it was"


@boxed
@pytest.mark.sandbox
def test_other_processes_are_neither_seen_nor_hit() -> None:
    ending = run(f"""
    import os
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    print(len(pids) < 5)
    try:
        os.kill({os.getpid()}, 9)
    except ProcessLookupError:
        print("no such process")
    """)
    assert ending.output == "True\nno such process\n"


@boxed
@pytest.mark.sandbox
def test_new_namespaces_and_mounts_are_refused() -> None:
    ending = run("""
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    print(libc.unshare(0x10000000), libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
    print(open("/proc/self/status").read().split("CapEff:\\t")[1].split()[0])
    """)
    assert ending.output == "-1 -1\n0000000000000000\n"


@boxed
@pytest.mark.sandbox
def test_a_fork_bomb_is_stopped_and_leaves_nobody() -> None:
    if not _group_available() and os.geteuid() == 0:
        pytest.skip("as root the process cap needs a control group")
    mark = f"fork-bomb-{os.getpid()}"
    program = f"""
    import os, time
    mark = {mark!r}
    count = 0
    try:
        for count in range(1000):
            if os.fork() == 0:
                time.sleep(60)
    except OSError as problem:
        print("stopped", count < 45)
    """
    ending = run(program)
    assert ending.output == "stopped True\n"
    assert alive(mark) == []


@boxed
@pytest.mark.sandbox
def test_a_memory_bomb_ends_alone() -> None:
    ending = run("""
    hoard = []
    while True:
        hoard.append(bytearray(16 << 20))
    """)
    assert ending.code != 0
    assert ending.reason is not None
    assert "300 MiB of memory" in ending.reason or "MemoryError" in ending.output


@boxed
@pytest.mark.sandbox
@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_a_disk_bomb_fills_only_its_own_scratch_space(folder: str) -> None:
    ending = run(f"""
    import os
    try:
        for number in range(100):
            with open("{folder}/" + str(number), "wb") as file:
                file.write(bytes(1 << 20))
    except OSError as problem:
        print(problem.strerror, 15 <= number <= 20)
    """)
    assert ending.output == "No space left on device True\n"


@boxed
@pytest.mark.sandbox
def test_a_huge_file_is_refused() -> None:
    ending = run("""
    import os
    try:
        os.truncate(os.open("/tmp/hole", os.O_WRONLY | os.O_CREAT), 1 << 40)
    except OSError as problem:
        print(problem.strerror)
    """)
    assert ending.output == "File too large\n" or ending.code != 0


@boxed
@pytest.mark.sandbox
def test_an_endless_loop_ends_at_the_processor_limit() -> None:
    limits = Limits(process_seconds=30.0, cpu_seconds=1, memory_bytes=300 * MIB)
    ending = run("while True: pass", limits=limits)
    assert ending.reason == "it used more than 1 s of processor time"


@boxed
@pytest.mark.sandbox
def test_an_endless_sleep_ends_at_the_wall_limit() -> None:
    started = time.monotonic()
    limits = Limits(process_seconds=1.0, memory_bytes=300 * MIB)
    ending = run("import time\nprint('sleeping', flush=True)\ntime.sleep(600)", limits=limits)
    assert (ending.reason, ending.output) == ("it took longer than 1 s", "sleeping\n")
    assert time.monotonic() - started < 10


@boxed
@pytest.mark.sandbox
@pytest.mark.parametrize("isolation", [Isolation.BUBBLEWRAP, Isolation.NONE])
def test_a_daemon_does_not_outlive_its_parent(isolation: Isolation) -> None:
    mark = f"daemon-{isolation}-{os.getpid()}"
    program = f"""
    import os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(3, 50):
                try: os.close(fd)
                except OSError: pass
            os.dup2(os.open("/dev/null", os.O_RDWR), 1)
            os.dup2(1, 2)
            time.sleep(300)
            print({mark!r})
        os._exit(0)
    time.sleep(0.2)
    print("done")
    """
    command = [str(PYTHON / "bin/python3"), "-I", "-c", textwrap.dedent(program)]
    with Session(box(isolation=isolation), command) as session:
        ending = session.wait()
    assert ending.output == "done\n"
    assert alive(mark) == []


@boxed
@pytest.mark.sandbox
def test_nothing_is_left_when_the_runner_itself_is_killed() -> None:
    mark = f"orphan-{os.getpid()}"
    runner = f"""
import sys
from pathlib import Path
from gpu_runner.records import Limits
from gpu_runner.sandbox import Box, Isolation, Place
from gpu_runner.session import Session
python = Place(Path({str(PYTHON)!r}), {str(PYTHON)!r})
command = [{str(PYTHON / "bin/python3")!r}, "-c", "import time; time.sleep(100); {mark!r}"]
with Session(Box(Isolation.BUBBLEWRAP, Limits(), (python,)), command) as session:
    print("started", flush=True)
    session.wait()
"""
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        [sys.executable, "-c", runner], stdout=subprocess.PIPE, cwd=root
    ) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == b"started\n"
        time.sleep(1)  # the box is complete
        assert alive(mark)
        killed.kill()
    until = time.monotonic() + 10
    while alive(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert alive(mark) == []


@boxed
@pytest.mark.sandbox
def test_a_gigabyte_of_output_is_cut_off_quickly() -> None:
    started = time.monotonic()
    ending = run("""
    import os
    for _ in range(1024):
        os.write(1, b"x" * (1 << 20))
    """)
    assert ending.reason == "it printed more than 64 MiB"
    assert len(ending.output) == LIMITS.output_bytes
    assert time.monotonic() - started < 15


@boxed
@pytest.mark.sandbox
def test_terminal_escapes_do_not_reach_the_terminal() -> None:
    ending = run(r"""
    print("\x1b[2J\x1b]0;owned\x07\x1b[31mred\x1b[0m \x9b1mC1 \u202eevil\r\nnext\x00")
    """)
    assert ending.output == "red 1mC1 evil\nnext\n"


@boxed
@pytest.mark.sandbox
def test_links_out_of_the_worktree_lead_nowhere(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "outside.txt").write_text("secret")
    (tree / "absolute").symlink_to(tmp_path / "outside.txt")
    (tree / "relative").symlink_to("../outside.txt")
    (tree / "shadow").symlink_to("/etc/shadow")
    ending = run(
        """
        for name in ("absolute", "relative", "shadow", "../outside.txt", "../../../etc/shadow"):
            try:
                print(open("/source/" + name).read())
            except OSError:
                print("nothing at", name)
        """,
        Place(tree, "/source"),
    )
    assert ending.output.count("nothing at") == 5


@pytest.mark.parametrize(
    "path", [pytest.param(Path("/"), id="everything"), pytest.param(Path.home(), id="a home")]
)
def test_a_box_that_would_show_too_much_is_refused(path: Path) -> None:
    with pytest.raises(SandboxError, match="would show all of"):
        Session(box(Place(path, "/source")), ["true"])


def test_without_any_sandbox_the_run_is_refused_with_the_ways_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError) as refusal:
        choose("auto")
    assert "bubblewrap is not installed" in str(refusal.value)
    assert "apt-get install bubblewrap" in str(refusal.value)
    assert 'sandbox = "none"' in str(refusal.value)
    assert choose("none") is Isolation.NONE


def test_a_container_is_never_chosen_without_an_image() -> None:
    problem = container_problem(None)
    assert problem is not None
    with pytest.raises(SandboxError, match="no sandbox works"):
        choose("container")


def test_the_container_has_no_network_and_no_way_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "podman"
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    place = Place(tmp_path, "/source")
    command = Box(Isolation.CONTAINER, LIMITS, (place,), image="bench:1", name="job").command(
        ["python3", "-V"], capped=False
    )
    line = " ".join(command)
    assert f"--volume {tmp_path}:/source:ro" in line
    assert line.endswith("bench:1 python3 -V")
    for part in (
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--pids-limit 40",
        "--memory 314572800",
        "--user 65534",
        "--pull never",
    ):
        assert part in line


def _group_available() -> bool:
    from gpu_runner import cgroup

    group = cgroup.create(f"hostside-test-{os.getpid()}", 64 * MIB, 10)
    if group is not None:
        group.remove()
    return group is not None


@boxed
@pytest.mark.sandbox
def test_the_probe_says_that_bubblewrap_works_here() -> None:
    assert bubblewrap_problem() is None
    assert choose("auto") is Isolation.BUBBLEWRAP
