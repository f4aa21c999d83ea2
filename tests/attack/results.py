"""Result files of a run: complete, and equal in all rows that a mutation does not concern."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING

from opdiff.workflows.compare.saved import load_saved

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from opdiff.core.comparison import Row

    Key = tuple[str, str, str, str]
    Rows = dict[Key, Row]


def rows_of(out: Path) -> Rows:
    """Return the rows of the comparison in a folder; none if there is no saved comparison."""
    saved = sorted(out.glob("result_*.json"))
    return keyed(load_saved([str(saved[0])]).rows if saved else ())


def keyed(rows: Iterable[Row]) -> Rows:
    """Return the rows by their operators and tensors."""
    # Rows of whole operators have neither a key nor a file.
    return {(str(row.unit), row.label.target, str(row.key), _path(row, "target")): row for row in rows}


def changed_rows(before: Rows, after: Rows, touched: set[str]) -> str:
    """Describe the first row that changed although none of its files was touched; an empty string if there is none."""
    if not after:
        return ""
    for key, row in before.items():
        other = after.get(key)
        if _files(row) & touched or (other is not None and _files(other) & touched):
            continue
        if row.unit is not None and (other is None or _files(other) != _files(row)):
            # Graph mode pairs by the content of neighbours.
            continue
        if other is None:
            return f"the row {key} vanished"
        if _facts(row) != _facts(other):
            return f"the row {key} changed: {_facts(row)} to {_facts(other)}"
    return ""


def _facts(row: Row) -> str:
    return repr((row.shape, row.metrics, row.documented, row.reason, row.target_dtype, row.golden_dtype))


def _files(row: Row) -> set[str]:
    return {_path(row, "target"), _path(row, "golden")} - {""}


def _path(row: Row, side: str) -> str:
    info = row.target if side == "target" else row.golden
    # In graph mode the position of the tensor in its file follows the path.
    return os.path.basename(re.sub(r",(?:in|out)puts,\d+$", "", info.path)) if info is not None else ""


def stamps_of(root: Path) -> dict[Path, tuple[int, int]]:
    """Return size and time of all regular files below a folder."""
    found = ((path, path.lstat()) for path in root.rglob("*"))
    return {path: (status.st_size, status.st_mtime_ns) for path, status in found if stat.S_ISREG(status.st_mode)}


def lost_files(before: dict[Path, tuple[int, int]], root: Path, touched: set[str]) -> list[str]:
    """Return the input files that a command changed, or removed without a reduced form in their place."""
    after = stamps_of(root)
    names = {path.name for path in after}
    return [
        path.name
        for path, stamp in before.items()
        if path.name not in touched and after.get(path) != stamp and f"{path.name}_min_max.npz" not in names
    ]


def broken_files(out: Path) -> list[str]:
    """Return the names of tables and JSON files that are not complete."""
    return [path.name for path in sorted(out.iterdir()) if path.is_file() and not _is_whole(path)]


def _is_whole(path: Path) -> bool:
    if path.name.startswith("."):
        return True
    if path.suffix == ".csv":
        return path.read_bytes().endswith(b"\n")
    if path.suffix == ".html":
        return path.read_bytes().rstrip().endswith(b"</html>")
    if path.suffix != ".json":
        return True
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True
