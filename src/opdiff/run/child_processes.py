"""What processes inherit from the one that starts them: their module path, and which signals they get."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# `python -c` and `python -m`, as multiprocessing starts its processes, do not look for modules in the current folder.
_SAFE_PATH = "PYTHONSAFEPATH"


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Keep interrupts from processes and threads that are started meanwhile; the main thread handles them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Keep the current folder, where dumps of others may be, out of the module path of interpreters started meanwhile.

    Set in the environment: an interpreter imports modules before any code of ours could change its path.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
