"""What can go wrong in a way its reader can mend.

BotError                 one sentence: what is wrong, and the way out
├── UsageError           the command line, a path, a revision: exit code 2
└── ConfigError          a settings file: exit code 2
"""


class BotError(Exception):
    """A problem whose message is one sentence naming the thing and the way out."""


class UsageError(BotError):
    """The command was given something it cannot work with."""


class ConfigError(BotError):
    """A configuration file says something Hostside cannot follow."""
