"""The extension module `opdiff._native`: a decoder of dump headers, defined in Python by `read/protowire.py`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

# Equal to `version` in `native/python/wire.cpp`; both change with the interface of the module.
_VERSION = 4


def _load() -> ModuleType | None:
    if os.environ.get("OPDIFF_KERNEL") == "numpy":
        return None
    try:
        from opdiff import _native as module
    except ImportError:
        return None
    # The module may have been built from other sources.
    return module if getattr(module, "VERSION", 0) == _VERSION else None


NATIVE = _load()
"""The module; `None` if no matching one was built or `OPDIFF_KERNEL=numpy` is set."""
