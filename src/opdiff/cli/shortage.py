"""Shortage of memory, threads or descriptors, which is no defect of the program: recognized, and told by its name."""

from __future__ import annotations

import resource
import sys

from opdiff.core.errors import OpdiffError
from opdiff.core.formatting import size
from opdiff.core.reasons import Reason, because, quoted

# With more address space, numpy starts on machines of any number of cores.
_MAX_DOUBTFUL_NBYTES = 1 << 30
# Address space that other modules and small inputs take.
_HEADROOM_NBYTES = 64 << 20
_LOAD_NUMPY = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2); import numpy"


class ShortageError(OpdiffError):
    """The operating system refused something that every command needs; exit code 3."""

    def __init__(self, problem: Reason) -> None:
        self.problem = problem
        super().__init__(problem)

    @property
    def reason(self) -> Reason:
        """The problem."""
        return self.problem


def require_memory() -> None:
    """Check that numpy can be loaded where the address space is limited (`ulimit -v`).

    OpenBLAS, a part of numpy, ends the process if it gets too little memory, so another process tries first.

    Raises:
        ShortageError: it cannot.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if not 0 <= limit < _MAX_DOUBTFUL_NBYTES or "numpy" in sys.modules:
        return
    # Imported here, because few processes are limited.
    import subprocess

    available = max(limit - _HEADROOM_NBYTES, 0)
    try:
        command = [sys.executable, "-P", "-c", _LOAD_NUMPY, str(available)]
        tried = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  no part is from outside
    except OSError as error:
        raise ShortageError(because("cli.shortage", problem=quoted(error.strerror or str(error)))) from error
    if tried.returncode:
        raise ShortageError(because("cli.memory_limit", limit=size(limit)))


def find_shortage(error: Exception) -> Reason | None:
    """Return what was refused if an exception that nobody expected means a shortage, otherwise `None`."""
    if isinstance(error, MemoryError):
        return because("cli.shortage", problem=because("measure.no_memory"))
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return because("cli.shortage", problem=quoted(str(error)))
    # A library that is there and cannot be loaded; its import may have been tried by another one.
    found: BaseException | None = error
    while isinstance(found, ImportError):
        if found.path is not None and found.path.endswith(".so"):
            return because("cli.shortage", problem=quoted(str(found)))
        found = found.__cause__ or found.__context__
    return None
