"""Tables of single elements: their names, their rows, and the summary that goes with them. See docs/commands/op.md."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.atomic_file import whole_file
from opdiff.core.dtypes import Kind
from opdiff.workflows.convert.write.names import MAX_NAME, fitting
from opdiff.workflows.convert.write.verbatim import npy_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape, TensorKey

_LONGEST_ENDING = "_relative_error_topn.csv"
_MAPPING = "simple_op_mapping.csv"
_SEPARATORS = str.maketrans("/\\\0\r\n", "_____")
_LETTERS = {4: "NCHW", 5: "NCDHW"}


class ElementNames(NamedTuple):
    """What the files of one tensor are called, and where they are; `full` is the stem that would not fit."""

    folder: str
    stem: str
    full: str = ""

    def path(self, ending: str) -> str:
        """The file with this ending."""
        return os.path.join(self.folder, f"{self.stem}{ending}")


class RowForm(NamedTuple):
    """How the rows of a table are written: the name of the positions, how many axes they show, and the numbers."""

    position: str
    axes: int
    target: str
    golden: str
    absolute: str

    @property
    def header(self) -> str:
        """The documented titles."""
        return f"Index,{self.position},NPUDump,GroundTruth,AbsoluteError,RelativeError\r\n"

    @property
    def template(self) -> str:
        """One row."""
        position = " ".join(["%d"] * self.axes) if self.axes else "%d"
        return f"%d,{position},{self.target},{self.golden},{self.absolute},%.9g\r\n"


def element_names(folder: str, key: TensorKey) -> ElementNames:
    """`conv_1_output_0`, slashes replaced; a hash of it where names would become too long for a file system."""
    full = f"{key.op.translate(_SEPARATORS)}_{key.slot}_{key.index}"
    if len(os.fsencode(full + _LONGEST_ENDING)) < MAX_NAME:
        return ElementNames(folder, full)
    return ElementNames(folder, fitting(full.replace(".", "\x01").ljust(MAX_NAME)), full)


def row_form(letters: str, shape: Shape, target: DType, golden: DType) -> RowForm:
    """The form of the rows; `letters` are those of the axes, where they are known."""
    both_whole = _is_whole(target) and _is_whole(golden)
    rank = len(shape)
    if len(letters) != rank:
        letters = _LETTERS.get(rank, "NCHW" if rank < 4 else "")
    position = " ".join(letters or (f"axis{axis}" for axis in range(rank))) if rank else "ID"
    axes = max(rank, 4) if rank else 0
    return RowForm(position, axes, _number(target), _number(golden), "%d" if both_whole else "%.9g")


def rows_text(form: RowForm, numbers: AnyArray, shape: Shape, columns: Sequence[Sequence[object]]) -> str:
    """Rows of a table: the numbers of the elements in row-major order, then target, golden and both errors."""
    import numpy as np

    if shape:
        position = [index.tolist() for index in np.unravel_index(numbers, shape)]
        position += [[0] * len(numbers)] * (form.axes - len(position))
    else:
        position = [numbers.tolist()]
    cells = tuple(cell for row in zip(numbers.tolist(), *position, *columns, strict=True) for cell in row)
    return form.template * len(numbers) % cells


def write_rows(path: str, form: RowForm, texts: Iterable[str]) -> None:
    """One file with a header and rows."""
    with whole_file(path) as file:
        file.write(form.header.encode())
        for text in texts:
            file.write(text.encode())


def write_summary(path: str, lines: Iterable[tuple[str, str]]) -> None:
    """The documented summary: a line for each fact."""
    with whole_file(path) as file:
        file.write("".join(f"{name}:{value}\n" for name, value in lines).encode(errors="surrogateescape"))


def write_array(path: str, descr: str, shape: Shape, blocks: Iterable[AnyArray]) -> None:
    """A NumPy file, block by block."""
    with whole_file(path) as file:
        file.write(npy_header(descr, shape))
        for block in blocks:
            file.write(block.tobytes())


def write_mapping(names: ElementNames) -> None:
    """Put down what a hash stands for, once."""
    path = os.path.join(names.folder, _MAPPING)
    line = f"{names.stem},{names.full}\n".encode(errors="surrogateescape")
    known = b""
    with suppress(FileNotFoundError), open(path, "rb") as file:
        known = file.read()
    if line not in known.splitlines(keepends=True):
        with whole_file(path) as file:
            file.write(known + line)


def remove_old(names: ElementNames) -> None:
    """Remove the tables that an earlier run left for the same tensor: there may have been more of them."""
    table = re.compile(rf"{re.escape(names.stem)}_[0-9]+\.csv")
    for name in os.listdir(names.folder):
        if table.fullmatch(name):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(names.folder, name))


def _is_whole(dtype: DType) -> bool:
    return dtype.kind in (Kind.INTEGER, Kind.BOOL)


def _number(dtype: DType) -> str:
    """As many digits as tell every number of a type from its neighbours."""
    if _is_whole(dtype):
        return "%s"
    return "%.17g" if dtype.bits >= 64 and dtype.name != "complex64" else "%.9g"
