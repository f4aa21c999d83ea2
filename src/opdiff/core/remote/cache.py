"""Copies of remote files on this machine, for `--cache DIR`: later runs read them instead of the remote files."""

from __future__ import annotations

import mmap
import os
from hashlib import sha256
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import make_folder, open_atomic
from opdiff.core.input_file import regular_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.remote.listing import Item


class Cache:
    """A folder of copies. Their names are hashes of URL, size and version, so that names on servers play no role."""

    def __init__(self, folder: str) -> None:
        make_folder(folder)
        self._folder = folder

    def find(self, item: Item) -> memoryview | None:
        """Return the content of the copy of a file, mapped; `None` if there is no copy."""
        try:
            descriptor = regular_file(self._path(item))
        except FileNotFoundError:
            return None
        try:
            if os.fstat(descriptor).st_size != item.nbytes:
                return None
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)) if item.nbytes else memoryview(b"")
        finally:
            os.close(descriptor)

    def add(self, item: Item, content: Iterable[bytes | memoryview]) -> None:
        """Write the copy of a file; it appears when it is complete."""
        path = self._path(item)
        make_folder(os.path.dirname(path))
        with open_atomic(path) as file:
            for part in content:
                file.write(part)

    def _path(self, item: Item) -> str:
        name = sha256(f"{item.path}\n{item.nbytes}\n{item.version}".encode(errors="surrogatepass")).hexdigest()
        return os.path.join(self._folder, name[:2], name[2:])
