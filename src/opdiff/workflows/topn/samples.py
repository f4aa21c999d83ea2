"""Scores of a batch of samples: arrays with a batch axis, one file for each sample, archives, dumps of several runs.

    path ──files──► Tensor, Tensor, … ──shape──► Sample (tensor, row), …

Only headers are read to describe samples; `ScoreReader` reads scores.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.align.element_reader import open_logical
from opdiff.align.pairs import strides_in_nd
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.errors import DumpError, ElementError, InputError, LayoutError
from opdiff.core.filesystem import natural_key
from opdiff.core.graph import parse_input
from opdiff.core.reasons import Status, because
from opdiff.core.source import FileRange
from opdiff.core.tensor import Tensor, TensorSpec, file_safe_name
from opdiff.read import read_operator
from opdiff.read.directory import scan
from opdiff.read.dump import read_folder_dump
from opdiff.read.filename import DumpName

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.align.element_reader import ElementReader
    from opdiff.core.dump import Dump
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.measure.topn import Scores
    from opdiff.read.directory import Tree
    from opdiff.workflows.topn.options import TopnOptions

_ARRAY_SUFFIXES = (".npy", ".npz", ".bin")
# Integers of more bits are indices of classes rather than quantized scores.
_MAX_SCORE_BITS = 16
_MAX_NAMES_SHOWN = 3


class Sample(Struct, frozen=True):
    """One sample: its name, and the row of a tensor that has its scores."""

    name: str
    tensor: Tensor
    row: int


class Outputs(Struct, frozen=True):
    """Outputs of one run: samples in natural order of their names, the number of classes, and files left out."""

    path: str
    samples: tuple[Sample, ...]
    classes: int
    notes: tuple[Reason, ...] = ()


def read_outputs(path: str, options: TopnOptions, operator: str, *, is_chosen: bool = True) -> Outputs:
    """Describe the outputs of a run.

    Args:
        path: a file or a directory.
        options: how raw files are read, and which files count.
        operator: the operator of dumps whose output is taken.
        is_chosen: whether the user chose the operator for this side; otherwise it counts for dumps that have it.

    Raises:
        InputError: there are no outputs, or they are not scores of classes.
    """
    tree = scan(path) if os.path.isdir(path) else None
    tensors = list(
        _tensors_of_tree(tree, options, operator, is_chosen=is_chosen) if tree else _tensors_of_file(path, "", options)
    )
    if not tensors:
        raise InputError(path, because("topn.no_outputs", suffixes=_ARRAY_SUFFIXES))
    shapes = [_scores_shape(tensor) for _, tensor in tensors]
    first = shapes[0][1]
    for (name, _), (_, classes) in zip(tensors, shapes, strict=True):
        if classes != first:
            hint = because("topn.choose_files") if os.path.isdir(path) else None
            raise InputError(
                path, because("topn.uneven", name=name, classes=classes, first=tensors[0][0], expected=first, hint=hint)
            )
    samples = [
        Sample(_row_name(name, row, rows), tensor, row)
        for (name, tensor), (rows, _) in zip(tensors, shapes, strict=True)
        for row in range(rows)
    ]
    return Outputs(path, tuple(samples), first, tuple(_left_out(tree)) if tree else ())


class ScoreReader:
    """Reader of scores in the order of samples; keeps the last tensor open, as compressed tensors are read whole."""

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._tensor: Tensor | None = None
        self._reader: ElementReader | None = None

    def read(self, samples: Sequence[Sample]) -> Scores:
        """Read the scores of some samples: samples by classes, in float64.

        Raises:
            InputError: a file cannot be read.
        """
        groups = groupby(samples, key=lambda sample: sample.tensor)
        return np.concatenate([self._rows(tensor, [sample.row for sample in group]) for tensor, group in groups])

    def _rows(self, tensor: Tensor, rows: Sequence[int]) -> Scores:
        low, high = min(rows), max(rows) + 1
        try:
            reader = self._open(tensor)
            codes = reader.block(low * self._classes, high * self._classes)
            values = elements.decode(codes, tensor.spec.dtype)
        except (DumpError, ElementError, LayoutError) as error:
            raise InputError(tensor.source.path, error.brief) from error
        reader.stored.release()
        return np.asarray(values.reshape(-1, self._classes)[np.asarray(rows) - low], np.float64)

    def _open(self, tensor: Tensor) -> ElementReader:
        if self._reader is None or tensor is not self._tensor:
            self._tensor, self._reader = tensor, open_logical(tensor)
        return self._reader


def _tensors_of_tree(
    tree: Tree, options: TopnOptions, operator: str, *, is_chosen: bool
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a directory with the names of their samples."""
    is_dump = any(isinstance(entry.parsed, DumpName) for entry in tree.entries())
    if is_dump or (operator and (is_chosen or _has_operator(tree, operator))):
        yield from _read_dumps(tree, operator)
        return
    for file in _array_files(tree, options.files):
        name = os.path.splitext(os.path.relpath(file, tree.root))[0]
        yield from _tensors_of_file(file, name, options)


def _left_out(tree: Tree) -> Iterator[Reason]:
    """Yield a remark about files that could not be examined."""
    problems = [problem for problem in tree.problems if not problem.is_hash]
    if problems:
        yield because("topn.left_out", count=len(problems), path=problems[0].path, problem=problems[0].reason)


def _array_files(tree: Tree, pattern: str) -> list[str]:
    # Numbers of samples look like the hashed names of dump files.
    numbered = (problem.path for problem in tree.problems if problem.is_hash)
    paths = [*tree.unrecognized, *numbered, *(entry.path for entry in tree.entries())]
    chosen = [path for path in paths if path.endswith(_ARRAY_SUFFIXES)]
    if pattern:
        chosen = [path for path in chosen if fnmatchcase(os.path.basename(path), pattern)]
    return sorted(chosen, key=natural_key)


def _tensors_of_file(path: str, name: str, options: TopnOptions) -> Iterator[tuple[str, Tensor]]:
    if path.endswith(".bin"):
        yield name, _raw_tensor(path, options)
        return
    try:
        operator = read_operator(path)
    except DumpError as error:
        raise InputError(path, error.brief) from error
    tensors = operator.outputs or operator.inputs
    if len(tensors) == 1 or not path.endswith(".npz"):
        yield from ((name, tensor) for tensor in tensors[:1])
        return
    for tensor in sorted(tensors, key=lambda tensor: natural_key(tensor.name)):
        yield os.path.join(name, tensor.name), tensor


def _raw_tensor(path: str, options: TopnOptions) -> Tensor:
    dtype = dtypes.find_numpy(np.dtype(options.dtype).str)
    if dtype is None:
        raise InputError(path, because("topn.no_raw_type", dtype=options.dtype))
    try:
        nbytes = os.stat(path).st_size
    except OSError as error:
        raise InputError(path, because("core.cannot_open", Status.NOT_HERE, error=error.strerror)) from error
    count, rest = divmod(nbytes * 8, dtype.bits)
    classes = options.classes or count
    if rest or not count or count % classes:
        raise InputError(path, because("topn.raw_size", nbytes=nbytes, dtype=dtype.name, classes=options.classes or 1))
    return Tensor(TensorSpec(dtype, (count // classes, classes), "ND"), FileRange(path, 0, nbytes))


def _scores_shape(tensor: Tensor) -> tuple[int, int]:
    """Return samples and classes of a tensor.

    Raises:
        InputError: the tensor is not the output of a classification.
    """
    dtype, shape = tensor.spec.dtype, _logical_shape(tensor)
    problem = _type_problem(dtype.kind, dtype.bits)
    if problem is not None:
        raise InputError(_place(tensor), because("topn.not_scores", dtype=dtype.name, problem=problem))
    extents = [extent for extent in shape[1:] if extent != 1] if len(shape) > 1 else list(shape)
    samples = shape[0] if len(shape) > 1 else 1
    if len(extents) != 1 or samples < 1 or 0 in shape:
        code = "topn.one_class" if not extents and 0 not in shape else "topn.not_classes"
        raise InputError(_place(tensor), because(code, shape=shape))
    return samples, extents[0]


def _logical_shape(tensor: Tensor) -> Shape:
    try:
        converted = strides_in_nd(tensor)
        return converted[0] if converted else open_logical(tensor).shape
    except (DumpError, ElementError, LayoutError) as error:
        raise InputError(_place(tensor), because("topn.no_shape", problem=error.brief)) from error


def _place(tensor: Tensor) -> str:
    """Return the file of a tensor, and the name of the tensor in the file."""
    return f"{tensor.source.path}:{tensor.name}" if tensor.name else tensor.source.path


def _type_problem(kind: Kind, bits: int) -> Reason | None:
    """Return why elements of a type are no scores; `None` if they are."""
    if kind is Kind.INTEGER and bits > _MAX_SCORE_BITS:
        return because("topn.indices")
    if kind in (Kind.FLOAT, Kind.INTEGER):
        return None
    return because("topn.no_numbers")


def _row_name(name: str, row: int, rows: int) -> str:
    if not name:
        return str(row)
    return name if rows == 1 else f"{name}[{row}]"


# Dumps of several runs: one folder for each run or step, one operator for the result


def _read_dumps(tree: Tree, operator: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the result of each run of a directory tree, under the step or the path of its folder.

    Args:
        tree: the directory tree.
        operator: `NAME` or `NAME:OUTPUT`; empty for the only operator of each folder.

    Raises:
        InputError: a folder does not have the operator, or has several and none was chosen.
    """
    for folder, name in zip(tree.folders, _folder_names(tree), strict=True):
        yield name, _result(read_folder_dump(folder), operator)


def _has_operator(tree: Tree, operator: str) -> bool:
    """Return whether a file of a directory tree is named after an operator."""
    wanted = file_safe_name(_parse_operator(operator)[0])
    return any(file_safe_name(entry.parsed.op_name) == wanted for entry in tree.entries())


def _folder_names(tree: Tree) -> Sequence[str]:
    """Return the steps of the folders, or their paths if steps are unknown or repeated."""
    steps = [folder.location.step for folder in tree.folders]
    if None not in steps and len(set(steps)) == len(steps):
        return [str(step) for step in steps]
    paths = (os.path.relpath(folder.path, tree.root) for folder in tree.folders)
    return ["" if path == "." else path for path in paths]


def _result(dump: Dump, operator: str) -> Tensor:
    """Return the output of the chosen operator, or of the only one."""
    wanted, index = _parse_operator(operator)
    operators = list(dump.operators.values())
    # The operators that ran last usually return the result.
    last = tuple(dump.operators)[-_MAX_NAMES_SHOWN:]
    if operator:
        operators = [op for op in operators if file_safe_name(op.name) == file_safe_name(wanted)]
        if not operators:
            raise InputError(dump.path, because("topn.no_operator", operator=wanted, found=last))
    elif len(operators) != 1:
        raise InputError(dump.path, because("topn.many_operators", count=len(operators), last=last))
    found = operators[0]
    if found.problem is not None:
        raise InputError(found.path, found.problem)
    if index not in found.outputs:
        raise InputError(dump.path, because("topn.no_output", operator=found.name, output=index))
    return found.outputs[index]


def _parse_operator(operator: str) -> tuple[str, int]:
    """Return name and output of `NAME` or `NAME:OUTPUT`."""
    return parse_input(operator) or (operator, 0)
