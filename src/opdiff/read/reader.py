"""Interface of the readers: an open dump file, and a format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.tensor import OpDump


class OpenFile(Struct, frozen=True):
    """An open dump file.

    Attributes:
        path: path of the file.
        name: real base name, also if `path` has a hash instead.
        descriptor: file descriptor.
        size: size in bytes.
        head: first bytes, enough for most headers.
    """

    path: str
    name: str
    descriptor: int
    size: int
    head: bytes


class Reader(Struct, frozen=True):
    """One format of dump files.

    Attributes:
        recognizes: tests by first bytes or name whether a file has this format.
        read: describes the operator in such a file. Raises DumpError for damaged files.
    """

    recognizes: Callable[[OpenFile], bool]
    read: Callable[[OpenFile], OpDump]


def by_suffix(suffix: str, read: Callable[[OpenFile], OpDump]) -> Reader:
    """Return the reader of a format that is recognized by the end of the file name."""
    return Reader(lambda file: file.name.endswith(suffix), read)
