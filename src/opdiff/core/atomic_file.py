"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from _thread import get_native_id  # `threading` takes long to import, and has it from here
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

# Tables are written line by line.
_BUFFER = 1 << 17


@contextmanager
def errors_about(path: str, draft: str) -> Iterator[None]:
    """Errors of the system name the file that is wanted, and not the hidden draft of it, or nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, draft):
            raise
        problem = error.strerror or ""
        raise OSError(error.errno, os.strerror(error.errno) if draft in problem else problem, path) from error


@contextmanager
def open_atomic(path: str) -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes its name only when everything is written.

    It is written beside its final place and then renamed; a failure or an interrupt leaves what was there before. A
    link of that name is replaced, never written through.
    """
    folder, name = os.path.split(path)
    # A name of its own for each thread and file; short, since the final one may have the greatest length there is.
    draft = os.path.join(folder, f".{os.getpid()}.{get_native_id()}.{hash(name) & 0xFFFF_FFFF:08x}.part")
    with suppress(FileNotFoundError):
        os.unlink(draft)
    try:
        with errors_about(path, draft):
            with open(draft, "xb", buffering=_BUFFER) as file:
                yield file
            os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(draft)
        raise


def make_folder(path: str) -> None:
    """Make a folder for results, and those above it.

    Raises:
        InputError: there cannot be one.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InputError(path, f"results cannot be put here: {error.strerror}") from error
