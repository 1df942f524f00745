"""`python -m bot` is the same program as `hostside`."""

import sys

from bot.cli import main

if __name__ == "__main__":
    sys.exit(main())
