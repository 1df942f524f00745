"""`hostside COMMAND …`: picks the command's module and imports nothing else.

Each command is a module of this package with `HELP` (one line), `configure(parser)` and
`run(arguments) -> int`. Heavy imports stay inside the modules, so that `--version` and a commit
without GPU code cost no more than the interpreter's start.
"""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from bot.errors import BotError, UsageError

VERSION = "0.1.0"

# Command name -> what it does; `hostside NAME` imports `bot.cli.NAME`.
COMMANDS = {
    "review": "review the difference between two revisions",
    "check": "check whole files and trees, or standard input",
    "baseline": "write down today's findings, so that only new ones are reported",
    "explain": "print a rule's page",
    "rules": "list the rules",
    "config": "check the configuration",
    "trace": "measure copy/compute overlap, idle time and waits in a GPU trace",
    "bench": "compare the speed of two commits, with correctness first",
    "doctor": "say what works on this machine for measuring, and what to do about the rest",
    "serve": "run the GitHub App: webhooks, and a worker along with them",
    "worker": "do the GitHub App's jobs",
    "gpu-runner": "measure the benchmarks that pull requests ask for, on this machine",
    "jobs": "list the GitHub App's jobs, and run parked ones again",
    "action": "review what started a run of GitHub Actions",
    "demo": "review the bundled example change",
}

OK, FINDINGS, USAGE, INTERNAL = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code of the command: 0 nothing to report, 1 findings, 2 usage, 3 our own fault."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  (`>&-`)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (as long as the program runs)
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except BotError as problem:
        print(f"hostside: {problem}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop_output()  # the reader went away (`| head`): nothing is wrong
        return OK
    except Exception as problem:  # the last fence: a user never sees a traceback
        if isinstance(problem, OSError) and problem.errno == errno.ENOSPC:
            print(f"hostside: the output cannot be written: {problem.strerror}", file=sys.stderr)
            _drop_output()
            return USAGE
        print(
            f"hostside: internal error ({type(problem).__name__}: {problem}); nothing was changed. "
            "Please report it with the command you ran; HOSTSIDE_DEBUG=1 shows the details.",
            file=sys.stderr,
        )
        return _debug(INTERNAL)


def _drop_output() -> None:
    """What is still buffered goes nowhere: the interpreter would fail on it once more at exit."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the options in one line, as every other mistake is said."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; `{self.prog} --help` lists the options")


def _debug(code: int) -> int:
    import traceback

    if os.environ.get("HOSTSIDE_DEBUG"):
        traceback.print_exc()
    return code


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-V"]):
        print(f"hostside {VERSION}")
        return OK
    if arguments and arguments[0] in COMMANDS:
        name = arguments[0]
        module = importlib.import_module(f"bot.cli.{name.replace('-', '_')}")
        parser = _Parser(prog=f"hostside {name}", description=COMMANDS[name])
        module.configure(parser)
        return int(module.run(parser.parse_args(arguments[1:])))
    return _overview(arguments)


def _overview(arguments: list[str]) -> int:
    listing = "\n".join(f"  {name:12s} {text}" for name, text in COMMANDS.items())
    text = f"usage: hostside COMMAND …\n\n{listing}\n\n`hostside COMMAND --help` tells more."
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(text)
        return OK
    problem = f"there is no command {arguments[0]!r}; `hostside --help` lists them"
    print(f"hostside: {problem}", file=sys.stderr)
    return USAGE
