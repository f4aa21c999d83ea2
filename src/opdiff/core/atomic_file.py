"""Atomic writing of files."""

from __future__ import annotations

import os
from _thread import get_native_id  # `threading` takes long to import, and has it from here
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

# Large, because tables are written line by line.
_BUFFER_NBYTES = 1 << 17


@contextmanager
def name_in_errors(path: str, draft: str) -> Iterator[None]:
    """Make operating-system errors name the final path instead of the temporary file or nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, draft):
            raise
        problem = error.strerror or ""
        raise OSError(error.errno, os.strerror(error.errno) if draft in problem else problem, path) from error


@contextmanager
def open_atomic(path: str) -> Iterator[IO[bytes]]:
    """Open a temporary binary file in the same folder, and rename it to `path` at the end.

    A failure or an interrupt leaves an existing file unchanged. A symbolic link is replaced, not followed.
    """
    folder, name = os.path.split(path)
    # Unique for thread and file, and short, because `name` may have the maximum length.
    draft = os.path.join(folder, f".{os.getpid()}.{get_native_id()}.{hash(name) & 0xFFFF_FFFF:08x}.part")
    with suppress(FileNotFoundError):
        os.unlink(draft)
    try:
        with name_in_errors(path, draft):
            with open(draft, "xb", buffering=_BUFFER_NBYTES) as file:
                yield file
            os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def make_folder(path: str) -> None:
    """Create a folder for results and its parent folders.

    Raises:
        InputError: it cannot be created.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InputError(path, f"results cannot be put here: {error.strerror}") from error
