"""Lists that `convert` writes next to its results: failed files and shortened names."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import open_atomic
from opdiff.core.input_file import regular_file

if TYPE_CHECKING:
    from collections.abc import Iterable


def write_failed_list(path: str, failures: Iterable[tuple[str, str]]) -> None:
    """Write a line per failed file, with its tensors if only some failed; without failures, remove the list."""
    by_file: dict[str, list[str]] = {}
    for file, tensor in failures:
        by_file.setdefault(os.path.abspath(file), []).extend([tensor] if tensor else [])
    if by_file:
        _write(path, [",".join([file, *tensors]) for file, tensors in by_file.items()])
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def write_mapping(folder: str, names: Iterable[tuple[str, str]]) -> None:
    """Add short and full names to the folder's `mapping.csv`, each pair once."""
    path = os.path.join(folder, "mapping.csv")
    lines: list[str] = []
    with (
        suppress(FileNotFoundError),
        open(path, encoding="utf-8", errors="surrogateescape", opener=regular_file) as file,
    ):
        lines = [line for line in file.read().split("\n") if line]
    known = set(lines)
    lines += [line for short, full in names if (line := f"{short},{full}") not in known]
    _write(path, lines)


def _write(path: str, lines: Iterable[str]) -> None:
    with open_atomic(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode(errors="surrogateescape"))
