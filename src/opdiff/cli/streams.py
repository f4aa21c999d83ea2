"""Standard output and error, prepared for closed pipes, full disks and encodings that lack characters."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


class _RawOutput(io.FileIO):
    """Raw output that is discarded after its first failure, so that Python does not fail once more at exit.

    A pipe without reader (head, less) is no failure: the command ends as it would otherwise.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), self.fileno())
            if not isinstance(error, BrokenPipeError):
                raise OSError(error.errno, error.strerror, "standard output") from error
            return memoryview(data).nbytes


def prepare_streams() -> None:
    """Replace closed streams by the null device; accept closed pipes, and characters that the encoding lacks."""
    sys.stdout = _prepared(sys.stdout, sys.__stdout__)
    sys.stderr = _prepared(sys.stderr, sys.__stderr__)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _prepared(stream: TextIO | None, original: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if stream is not original or not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_RawOutput(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
