"""File names of the results of `convert`, and the lists next to them: failed files and shortened names."""

from __future__ import annotations

import os
import re
import uuid
from contextlib import suppress
from enum import StrEnum
from hashlib import md5
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.atomic_file import open_atomic
from opdiff.core.dtypes import Kind
from opdiff.core.filesystem import regular_file
from opdiff.core.formatting import escape_controls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape, Slot

_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]")
# Names of this length or more are replaced by hashes; the limit of most file systems is 255 bytes.
MAX_NAME_BYTES = 255


class Form(StrEnum):
    """Kinds of result files."""

    NPY = "npy"
    NPZ = "npz"
    BIN = "bin"
    MSNPY = "msnpy"
    PT = "pt"


class TensorName(Struct, frozen=True):
    """A tensor of a dump file; `op_name` is the name in the header, with slashes."""

    file: str
    slot: Slot
    index: int
    op_name: str = ""


def tensor_name(name: TensorName, form: Form, dtype: DType, layout: str, shape: Shape, *, converted: bool) -> str:
    """Return the file name of a tensor; with `converted` it has the shape."""
    stem = f"{name.file}.{name.slot}.{name.index}"
    dims = [str(dim) for dim in shape]
    if form is Form.MSNPY:
        return f"{_with_op_name(name)}.{name.slot}.{name.index}.{layout}.npy"
    if form is Form.BIN:
        extent = "_".join(dims) if converted else str(prod(shape))
        return f"{stem}.{extent}.{raw_name(dtype)}.{layout}.bin"
    return f"{stem}.{'x'.join(dims)}.{form}" if converted and dims else f"{stem}.{form}"


def raw_name(dtype: DType) -> str:
    """Return the element type in the name of a raw file: integers by their width, types under 8 bits as widened."""
    return dtype.decoded if dtype.bits < 8 or dtype.kind is Kind.INTEGER else dtype.name


def shorten(name: str) -> str:
    """Return the name, or a hash with the same ending if the name is too long for a file system."""
    raw = os.fsencode(name)
    if len(raw) < MAX_NAME_BYTES:
        return name
    # `uuid3` of any bytes: file names need not be valid strings.
    digest = md5(uuid.NAMESPACE_DNS.bytes + raw, usedforsecurity=False).digest()
    return uuid.UUID(bytes=digest, version=3).hex + os.path.splitext(name)[1]


def _with_op_name(name: TensorName) -> str:
    fields = name.file.split(".")
    if len(fields) == 5 and name.op_name:
        # The header is not trusted: only safe characters are used in a name.
        fields[1] = _UNSAFE_CHARACTERS.sub("_", name.op_name.rsplit("/", 1)[-1])
    return ".".join(fields)


def write_failed_list(path: str, failures: Iterable[tuple[str, str]]) -> None:
    """Write a line per failed file, with its tensors if only some failed; without failures, remove the list."""
    by_file: dict[str, list[str]] = {}
    for file, tensor in failures:
        by_file.setdefault(os.path.abspath(file), []).extend([tensor] if tensor else [])
    if by_file:
        _write_lines(path, [",".join([file, *tensors]) for file, tensors in by_file.items()])
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
    _write_lines(path, lines)


def _write_lines(path: str, lines: Iterable[str]) -> None:
    with open_atomic(path) as file:
        file.write("".join(f"{escape_controls(line)}\n" for line in lines).encode(errors="surrogateescape"))
