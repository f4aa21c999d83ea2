"""Listings of remote folders. Names come from a server and are not trusted."""

from __future__ import annotations

import stat
import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Facts of fsspec that change when a file is written again, best first.
_VERSION_KEYS = ("ETag", "etag", "mtime", "LastModified", "created")


class ItemKind(StrEnum):
    """Kinds of items in a folder."""

    FILE = "file"
    FOLDER = "directory"
    LINK = "link"
    OTHER = "other"
    UNSAFE = "unsafe"
    """An item whose name cannot be a part of a path."""


class Item(Struct, frozen=True):
    """A file or folder, with the methods of `os.DirEntry` that readers use.

    Attributes:
        path: URL.
        name: last part of the URL.
        kind: file, folder or link.
        nbytes: size of a file.
        version: value that changes with the content, if the server has one.
    """

    path: str
    name: str
    kind: ItemKind
    nbytes: int = 0
    version: str = ""

    def is_dir(self, *, follow_symlinks: bool = False) -> bool:
        """Return whether it is a folder; links are none, because listings do not follow them."""
        del follow_symlinks
        return self.kind is ItemKind.FOLDER

    def is_file(self) -> bool:
        """Return whether it is a regular file; links are none."""
        return self.kind is ItemKind.FILE

    def is_symlink(self) -> bool:
        """Return whether it is a link."""
        return self.kind is ItemKind.LINK


def facts_of(path: str, mode: int, nbytes: int | None, time: float | None) -> dict[str, object]:
    """Return the facts about a file of a Unix system, as fsspec gives them."""
    kinds = ((stat.S_ISREG, ItemKind.FILE), (stat.S_ISDIR, ItemKind.FOLDER), (stat.S_ISLNK, ItemKind.LINK))
    kind = next((kind for test, kind in kinds if test(mode)), ItemKind.OTHER)
    return {"name": path, "type": str(kind), "size": nbytes, "mtime": time}


def items_of(url: str, folder: str, facts: Iterable[Mapping[str, object]]) -> dict[str, Item]:
    """Return the items of a folder by name, as fsspec describes them.

    Args:
        url: the folder.
        folder: its path in the file system of fsspec.
        facts: name, type and size of each item.
    """
    prefix = folder.rstrip("/") + "/"
    items: dict[str, Item] = {}
    for item in facts:
        path = str(item["name"])
        if path.startswith(prefix) and path.rstrip("/") != folder.rstrip("/"):
            found = item_of(url, path.removeprefix(prefix), item)
            items[found.name] = found
    return items


def item_of(folder: str, name: str, facts: Mapping[str, object]) -> Item:
    """Return one item of a folder; the name of an unsafe one is percent-encoded."""
    kind = ItemKind(str(facts.get("type"))) if facts.get("type") in set(ItemKind) else ItemKind.OTHER
    name = name.removesuffix("/") if kind is ItemKind.FOLDER else name
    if not is_safe(name):
        kind, name = ItemKind.UNSAFE, quote(name, safe="").replace(".", "%2E")
    size = facts.get("size")
    version = next((str(facts[key]) for key in _VERSION_KEYS if facts.get(key)), "")
    return Item(f"{folder.rstrip('/')}/{name}", name, kind, size if isinstance(size, int) else 0, version)


def is_safe(name: str) -> bool:
    """Return whether a name stays in its folder, and has no control characters."""
    return name not in {"", ".", ".."} and "/" not in name and not any(_is_control(char) for char in name)


def _is_control(char: str) -> bool:
    return char < " " or (char > "~" and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"})
