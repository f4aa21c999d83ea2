"""Results of a model in dumps of several runs: one folder for each run or step, one operator for the result."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.graph import parse_input
from opdiff.core.reasons import because
from opdiff.core.tensor import file_safe_name
from opdiff.read.dump import read_folder_dump

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.tensor import Tensor
    from opdiff.read.directory import Folder, Tree

_MAX_NAMES_SHOWN = 3


def read_dumps(tree: Tree, operator: str) -> Iterator[tuple[str, Tensor]]:
    """Yield the result of each run of a directory tree, under the step or the path of its folder.

    Args:
        tree: the directory tree.
        operator: `NAME` or `NAME:OUTPUT`; empty for the only operator of each folder.

    Raises:
        InputError: a folder does not have the operator, or has several and none was chosen.
    """
    names = _folder_names(tree)
    for folder, name in zip(tree.folders, names, strict=True):
        yield name, _result(read_folder_dump(folder), operator)


def has_operator(tree: Tree, operator: str) -> bool:
    """Return whether a file of a directory tree is named after an operator."""
    wanted = file_safe_name(_parse(operator)[0])
    return any(file_safe_name(entry.parsed.op_name) == wanted for entry in tree.entries())


def _folder_names(tree: Tree) -> Sequence[str]:
    """Return the steps of the folders, or their paths if steps are unknown or repeated."""
    steps = [folder.location.step for folder in tree.folders]
    if None not in steps and len(set(steps)) == len(steps):
        return [str(step) for step in steps]
    return [_relative(folder, tree) for folder in tree.folders]


def _relative(folder: Folder, tree: Tree) -> str:
    path = os.path.relpath(folder.path, tree.root)
    return "" if path == "." else path


def _result(dump: Dump, operator: str) -> Tensor:
    if not operator:
        return _only(dump)
    wanted, index = _parse(operator)
    found = next((op for op in dump.operators.values() if file_safe_name(op.name) == file_safe_name(wanted)), None)
    if found is None:
        raise InputError(dump.path, because("topn.no_operator", operator=wanted, found=_last_names(dump)))
    return _output(dump, found, index)


def _parse(operator: str) -> tuple[str, int]:
    """Return name and output of `NAME` or `NAME:OUTPUT`."""
    return parse_input(operator) or (operator, 0)


def _only(dump: Dump) -> Tensor:
    operators = list(dump.operators.values())
    if len(operators) != 1:
        raise InputError(dump.path, because("topn.many_operators", count=len(operators), last=_last_names(dump)))
    return _output(dump, operators[0], 0)


def _output(dump: Dump, operator: DumpedOp, index: int) -> Tensor:
    if operator.problem is not None:
        raise InputError(operator.path, operator.problem)
    tensor = operator.outputs.get(index)
    if tensor is None:
        raise InputError(dump.path, because("topn.no_output", operator=operator.name, output=index))
    return tensor


def _last_names(dump: Dump) -> tuple[str, ...]:
    """Return the operators that ran last, which usually return the result."""
    return tuple(list(dump.operators)[-_MAX_NAMES_SHOWN:])
