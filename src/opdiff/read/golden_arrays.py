"""Golden data under other names than the documented ones: `NAME.npy`, `NAME_0.npy`, nested folders, one `.npz`.

The documented names (`{op_name}.{output_index}.{timestamp}.npy`) are tried first. Of other names the rules decide what
is an operator and what the number of an output: `Conv_1` is an operator of one model and output 1 of `Conv` in another.
See docs/formats/file-names.md.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.dump import Dump, DumpedOp, DumpKind, SkippedPath
from opdiff.core.errors import DumpError, InputError
from opdiff.core.filesystem import natural_key
from opdiff.core.reasons import all_of, because
from opdiff.core.tensor import file_safe_name
from opdiff.read import read_operator
from opdiff.read.directory import scan
from opdiff.read.dump import is_quantization, read_dump
from opdiff.read.filename import GoldenName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.read.directory import Tree

# Name and number of an output, as people write them.
_NUMBERED = (
    re.compile(r"(.+)\.([0-9]{1,9})(?:\.[0-9]{1,255})?"),
    re.compile(r"(.+):([0-9]{1,9})"),
    re.compile(r"(.+)_([0-9]{1,9})"),
)
_MAX_NAMES_SHOWN = 3


class _Array(Struct, frozen=True):
    """A tensor, or the problem of its file, under the operator and output that its name stands for."""

    op: str
    number: int
    path: str
    tensor: Tensor | None = None
    problem: Reason | None = None

    @property
    def location(self) -> str:
        """The file, and the name in an archive."""
        return os.path.join(self.path, self.tensor.name) if self.tensor and self.tensor.name else self.path


def read_golden(path: str, names: Collection[str], *, with_rules: bool = False) -> Dump:
    """Read golden data: a dump, arrays under looser names, or an archive of arrays.

    Args:
        path: a directory, or an `.npz` file.
        names: names of the operators that rules ask for, in any form.
        with_rules: as `read_dump` takes it.

    Raises:
        InputError: there is no golden data, or more than one dump.
    """
    if filesystem.isfile(path) and path.endswith(".npz"):
        return _to_dump(path, _read_archive(path, _in_file_form(names)))
    try:
        return read_dump(path, with_rules=with_rules)
    except InputError as error:
        if not filesystem.isdir(path):
            raise
        known = _in_file_form(names)
        arrays = list(_read_loose(scan(path), known))
        if not arrays:
            raise InputError(path, because("read.no_golden", problem=error.problem, found=_found(path))) from error
        if names and not any(array.op in known for array in arrays):
            problem = because("read.no_golden_name", names=_examples(names))
            raise InputError(path, because("read.no_golden", problem=problem, found=_found(path))) from error
        return _to_dump(path, arrays)


def _in_file_form(names: Iterable[str]) -> set[str]:
    return {file_safe_name(name) for name in names}


def _interpret(known: set[str], *stems: str) -> tuple[str, int]:
    """Return operator and output of the first reading that is known; else the first stem by itself."""
    readings = [reading for stem in stems for reading in _readings(stem)]
    return next((reading for reading in readings if reading[0] in known), readings[0])


def _readings(stem: str) -> Iterator[tuple[str, int]]:
    """Yield what a name may mean, the most likely first."""
    numbered = [match for pattern in _NUMBERED if (match := pattern.fullmatch(stem))]
    # With a dot or a colon the number cannot be a part of an operator's file name.
    if numbered and numbered[0].re is not _NUMBERED[-1]:
        yield file_safe_name(numbered[0][1]), int(numbered[0][2])
    yield file_safe_name(stem), 0
    yield from ((file_safe_name(match[1]), int(match[2])) for match in numbered)


def _read_loose(tree: Tree, known: set[str]) -> Iterator[_Array]:
    """Yield the arrays of a tree; none if it has other dump files."""
    entries = list(tree.entries())
    if not all(isinstance(entry.parsed, GoldenName) for entry in entries):
        return
    paths = [*tree.unrecognized, *(entry.path for entry in entries)]
    archives = [path for path in paths if path.endswith(".npz")]
    files = [path for path in paths if path.endswith(".npy")]
    if len(archives) == 1 and not files:
        yield from _read_archive(archives[0], known)
        return
    for path in filesystem.read_ahead(sorted(files, key=natural_key), lambda path: (path,)):
        relative = os.path.relpath(path, tree.root).removesuffix(".npy")
        op, number = _interpret(known, relative, os.path.basename(relative))
        try:
            yield _Array(op, number, path, read_operator(path).outputs[0])
        except DumpError as error:
            yield _Array(op, number, path, problem=error.brief)


def _read_archive(path: str, known: set[str]) -> list[_Array]:
    try:
        operator = read_operator(path)
    except DumpError as error:
        raise InputError(path, error.brief) from error
    tensors = (*operator.inputs, *operator.outputs)
    return [_Array(*_interpret(known, tensor.name), path, tensor) for tensor in tensors]


def _to_dump(path: str, arrays: Iterable[_Array]) -> Dump:
    groups: dict[str, list[_Array]] = defaultdict(list)
    for array in arrays:
        groups[array.op].append(array)
    operators = {name: _operator(name, group) for name, group in groups.items()}
    unused = tuple(other for group in groups.values() for other in _replaced(group))
    return Dump(path, DumpKind.ARRAYS, any(map(is_quantization, operators.values())), operators, unused=unused)


def _replaced(arrays: list[_Array]) -> Iterator[SkippedPath]:
    """Yield the arrays of outputs for which a later name stands, too."""
    used = {array.number: array for array in arrays}
    for array in arrays:
        if array is not used[array.number]:
            reason = because("read.another_file_used", name=os.path.basename(used[array.number].location))
            yield SkippedPath(array.location, reason)


def _operator(name: str, arrays: list[_Array]) -> DumpedOp:
    problems = [array.problem for array in arrays if array.problem]
    # The last array of an output is used; if it cannot be read, no other array stands in for it.
    used = {array.number: array for array in arrays}
    outputs = {number: array.tensor for number, array in used.items() if array.tensor}
    return DumpedOp(name, "", 0, arrays[-1].path, {}, outputs, all_of(problems) if problems else None)


def _found(path: str) -> Reason | None:
    """Return some names of files below a directory."""
    names = list(filesystem.walk_names(path))
    return because("read.names_found", names=_examples(names)) if names else None


def _examples(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names, key=natural_key)[:_MAX_NAMES_SHOWN])
    return f"{shown}, …" if len(names) > _MAX_NAMES_SHOWN else shown
