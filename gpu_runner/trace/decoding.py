"""msgspec, imported without what it can do without: that halves the start of `hostside trace`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import cast

OPTIONAL = "typing_extensions"  # msgspec takes the same names from `typing` where it is missing

_modules = cast("dict[str, ModuleType | None]", sys.modules)
if OPTIONAL in _modules:
    import msgspec
else:
    _modules[OPTIONAL] = None  # an import of it now fails, as if it were not installed
    try:
        import msgspec
    finally:
        del _modules[OPTIONAL]

__all__ = ["msgspec"]
