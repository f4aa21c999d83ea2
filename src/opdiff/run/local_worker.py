"""Set-up of a worker that was started for one run; dask calls it in the worker's process."""

from __future__ import annotations

import signal


def dask_setup(_worker: object) -> None:
    """Ignore interrupts, which the parent handles: it cancels tasks and ends the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
