"""What the runner refuses, in a sentence its reader can act on.

RunnerError              one sentence: what is wrong, and the way out
└── FormatError          a file or message is not what it claims to be
"""


class RunnerError(Exception):
    """A problem whose message is one sentence naming the thing and the way out."""


class FormatError(RunnerError):
    """Data from outside (a result, a trace) that cannot be taken as it is."""
