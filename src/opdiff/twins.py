"""Functions that are also there in native code, which is several times as quick.

The ones in Python say what they do, and take over where the native code was not built; tests hold both equal.
"""

from __future__ import annotations

import os
from contextlib import suppress

from opdiff.values import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

NATIVE: ModuleType | None = None
"""The module with the native functions; `None` where it was not built, or the environment wants none."""

with suppress(ImportError):
    if os.environ.get("OPDIFF_KERNEL") != "numpy":
        from opdiff import _native as NATIVE  # noqa: N812  it is a constant here

F = TypeVar("F", bound="Callable[..., Any]")

DEFINITIONS: dict[str, Callable[..., Any]] = {}
"""The functions in Python that have a native twin."""


def native_twin(definition: F) -> F:
    """The native function of this name; the one in Python where there is none."""
    name = definition.__name__
    DEFINITIONS[name] = definition
    twin: F = getattr(NATIVE, name, definition)
    return twin
