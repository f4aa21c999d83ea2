"""Functions that are also there in native code, which is several times as quick.

The ones in Python say what they do, and take over where the native code was not built; tests hold both equal.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

# What `native/python/module.cpp` says, too; another number with every change of what a function takes or yields.
_VERSION = 1


def _native() -> ModuleType | None:
    if os.environ.get("OPDIFF_KERNEL") == "numpy":
        return None
    try:
        from opdiff import _native as module
    except ImportError:
        return None
    # It may have been built when the sources were others.
    return module if getattr(module, "VERSION", 0) == _VERSION else None


NATIVE = _native()
"""The module with the native functions; `None` where none that fits was built, or the environment wants none."""

F = TypeVar("F", bound="Callable[..., Any]")

DEFINITIONS: dict[str, Callable[..., Any]] = {}
"""The functions in Python that have a native twin."""


def native_twin(definition: F) -> F:
    """The native function of this name; the one in Python where there is none."""
    name = definition.__name__
    DEFINITIONS[name] = definition
    twin: F = getattr(NATIVE, name, definition)
    return twin
