"""A dump file that is being read, and a format of such files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.tensor import OpDump


class OpenFile(NamedTuple):
    """A file that is being read.

    Attributes:
        path: the path.
        name: the real base name; files with hashed names differ in it from `path`.
        descriptor: the open file.
        size: in bytes.
        head: the first bytes, enough for most headers.
    """

    path: str
    name: str
    descriptor: int
    size: int
    head: bytes


class Reader(NamedTuple):
    """One format of dump files.

    Attributes:
        recognizes: whether a file has this format, by its first bytes or its name.
        read: describe the operator in such a file. Raises DumpError for damaged files.
    """

    recognizes: Callable[[OpenFile], bool]
    read: Callable[[OpenFile], OpDump]


def by_suffix(suffix: str, read: Callable[[OpenFile], OpDump]) -> Reader:
    """Return the reader of a format that is recognized by the end of the file name."""
    return Reader(lambda file: file.name.endswith(suffix), read)
