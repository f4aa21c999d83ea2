"""Reading of one dump, or of the tensors behind a row, for Python programs; tensor data is read on demand.

path ──kind of dump──► offline (`read_dump`) | token of graph mode (`read_token`) | golden arrays | one file ──► Dump
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import astuple, replace

from opdiff.core import filesystem
from opdiff.core.comparison import Mode
from opdiff.core.dump import GraphKind, GraphOp, SideTensor, Unit, side_tensor
from opdiff.core.errors import DumpError, InputError, UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because
from opdiff.core.tensor import Slot, TensorKey, file_safe_name
from opdiff.read import read_operator
from opdiff.read.directory import Entry, Folder, Location, scan
from opdiff.read.dump import read_dump
from opdiff.read.filename import DumpName, FxName, parse_name
from opdiff.read.golden_arrays import read_golden
from opdiff.read.graph.token_files import read_token
from opdiff.read.graph.tree import read_graph_tree
from opdiff.workflows.compare.options import has_graph_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core import dump as core
    from opdiff.core.comparison import Comparison, Row, SideInfo
    from opdiff.core.tensor import Tensor

_MAX_UNITS_NAMED = 6


class Dump(Mapping[str, GraphOp]):
    """The operators of a dump by name, oldest first.

    Attributes:
        path: the folder, or the only file.
        unit: rank, token and graph in graph mode; `None` offline.
        skipped: files that were not read, and the reasons.
    """

    def __init__(
        self,
        path: str,
        operators: Mapping[str, GraphOp],
        skipped: tuple[core.SkippedPath, ...] = (),
        unit: Unit | None = None,
    ) -> None:
        self.path, self.skipped, self.unit = path, skipped, unit
        self._operators = operators

    def __getitem__(self, name: str) -> GraphOp:
        """Return an operator by its name, or by its name in file names, which have `_` for slashes and dots.

        Raises:
            KeyError: there is no such operator; names a similar one.
        """
        found = self._operators.get(name) or self._operators.get(file_safe_name(name))
        if found is None:
            similar = get_close_matches(name, self._operators, 1) or get_close_matches(
                file_safe_name(name), self._operators, 1
            )
            raise KeyError(f"{name}{f'; did you mean {similar[0]}?' if similar else ''}")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __len__(self) -> int:
        return len(self._operators)

    def __repr__(self) -> str:
        unit = f", {self.unit}" if self.unit else ""
        return f"<opdiff.Dump {printable(self.path)}{unit}: {len(self)} operators>"


def open_dump(path: str, rank: int | None = None, token: int | None = None, graph: int | None = None) -> Dump:
    """Read the descriptions of all operators of a dump.

    Args:
        path: a directory or a file.
        rank: graph mode: only this rank.
        token: graph mode: only this token.
        graph: graph mode: only this graph.

    Raises:
        UsageError: there are several tokens, or there is none of these numbers.
        InputError: there is no dump, there are several, or the file cannot be read.
    """
    selection = rank, token, graph
    filesystem.start_run((path,))
    if filesystem.isfile(path):
        return _open_file(path)
    if has_graph_text(path) or selection != (None, None, None):
        return _open_unit(path, selection)
    try:
        return _from_offline(read_dump(path))
    except InputError:
        with suppress(InputError):
            return _open_unit(path, selection)
        with suppress(InputError):
            return _from_offline(read_golden(path, ()))
        raise


def _open_unit(path: str, selection: tuple[int | None, int | None, int | None]) -> Dump:
    tree = read_graph_tree(path)
    has_ranks = tree.has_ranks or len(tree.ranks) > 1
    units = {
        Unit(rank if has_ranks else None, token, graph.number): folders
        for rank, graphs in tree.ranks.items()
        for graph in graphs
        for token, folders in graph.tokens.items()
    }
    found = [
        unit
        for unit in units
        if all(wanted in (None, own) for wanted, own in zip(selection, astuple(unit), strict=True))
    ]
    if len(found) != 1:
        listed = [*map(str, found or units)]
        left = len(listed) - _MAX_UNITS_NAMED
        more = because("core.and_more", count=left) if left > 0 else None
        code = "workflows.several_units" if found else "workflows.no_such_unit"
        raise UsageError(because(code, path=path, units="; ".join(listed[:_MAX_UNITS_NAMED]), more=more))
    dump = read_token(units[found[0]], tree.kind)
    return Dump(tree.root, _by_position(dump.operators.values()), dump.skipped, found[0])


def _from_offline(dump: core.Dump) -> Dump:
    operators = [
        GraphOp(
            name,
            operator.op_type,
            operator.timestamp,
            operator.path,
            _numbered(name, Slot.INPUT, operator.inputs.items()),
            _numbered(name, Slot.OUTPUT, operator.outputs.items()),
            problem=operator.problem,
        )
        for name, operator in dump.operators.items()
    ]
    return Dump(dump.path, _by_position(operators), dump.skipped)


def _open_file(path: str) -> Dump:
    name = os.path.basename(path)
    parsed = parse_name(name)
    if isinstance(parsed, FxName | DumpName) and not (isinstance(parsed, DumpName) and parsed.is_debug):
        folder = Folder(os.path.dirname(path), Location(), (Entry(path, name, parsed),))
        kind = GraphKind.FX if isinstance(parsed, FxName) else GraphKind.GE
        (operator,) = read_token([folder], kind).operators.values()
    elif parsed is None and name.endswith(".npz"):
        return _from_offline(read_golden(path, ()))
    else:
        operator = _whole_file(path, parsed.op_name if parsed else "")
    if operator.problem is not None:
        raise InputError(path, operator.problem)
    return Dump(path, _by_position([operator]))


def _whole_file(path: str, op_name: str) -> GraphOp:
    """Return the tensors of a file as an operator that is named by the file's content or name."""
    try:
        dump = read_operator(path)
    except DumpError as error:
        raise InputError(path, error.brief) from error
    name = op_name or dump.op_name or os.path.basename(path).removesuffix(".npy")
    inputs, outputs = (_numbered(name, slot, enumerate(dump.tensors(slot))) for slot in Slot)
    return GraphOp(name, "", dump.dump_time or 0, path, inputs, outputs, dump.op_name)


def _numbered(op: str, slot: Slot, tensors: Iterable[tuple[int, Tensor]]) -> tuple[SideTensor, ...]:
    return tuple(
        side_tensor(TensorKey(op, slot, index), tensor) for index, tensor in sorted(tensors, key=itemgetter(0))
    )


def _by_position(operators: Iterable[GraphOp]) -> dict[str, GraphOp]:
    """Return operators by name; tensors that were not dumped fill the gaps, so that positions are indices."""
    return {
        operator.name: replace(
            operator,
            inputs=_without_gaps(operator, Slot.INPUT, operator.inputs),
            outputs=_without_gaps(operator, Slot.OUTPUT, operator.outputs),
        )
        for operator in operators
    }


def _without_gaps(operator: GraphOp, slot: Slot, tensors: Sequence[SideTensor]) -> tuple[SideTensor, ...]:
    if all(tensor.key.index == position for position, tensor in enumerate(tensors)):
        return tuple(tensors)
    known = {tensor.key.index for tensor in tensors}
    problem = because("workflows.not_dumped")
    absent = [
        SideTensor(TensorKey(operator.name, slot, index), operator.path, problem=problem)
        for index in range(max(known))
        if index not in known
    ]
    return tuple(sorted([*tensors, *absent], key=lambda tensor: tensor.key.index))


class RowTensors:
    """The tensors behind the rows of a comparison, while its files exist; dumps are read once."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._tensors: dict[str, dict[str, list[SideTensor]]] = {}

    def find(self, row: Row, side: str) -> SideTensor:
        """Return the stored tensor of the `target` or the `golden` side of a row.

        Raises:
            InputError: the dump cannot be read any more, or does not have the tensor.
        """
        info: SideInfo | None = getattr(row, side)
        key = row.golden_key if side == "golden" and not row.golden_only else row.key
        path = info.path if info else ""
        if key is None:
            raise InputError(path, because("workflows.row_of_operator"))
        at_path = self._in_folder(path, side).get(path, ())
        found = [tensor for tensor in at_path if (tensor.key.slot, tensor.key.index) == (key.slot, key.index)]
        if len(found) > 1:  # the arrays of an archive have one path
            found = [tensor for tensor in found if tensor.key.in_file_form == key.in_file_form]
        if len(found) != 1:
            raise InputError(path, because("workflows.no_tensor_of_row", tensor=str(key)))
        return found[0]

    def _in_folder(self, path: str, side: str) -> Mapping[str, Sequence[SideTensor]]:
        """Return the tensors of the folder of a file, or of a side of an offline comparison, by path and location."""
        is_graph = self._comparison.mode is Mode.GRAPH
        where = os.path.dirname(path) if is_graph else side
        if where not in self._tensors:
            by_path = self._tensors[where] = {}
            for operator in _read_folder(where) if is_graph else self._offline(side):
                for tensor in (*operator.inputs, *operator.outputs):
                    by_path.setdefault(tensor.path + tensor.location, []).append(tensor)
        return self._tensors[where]

    def _offline(self, side: str) -> Iterable[GraphOp]:
        comparison = self._comparison
        given = comparison.extra_inputs
        with_rules = bool(given.fusion_rules or given.fusion_off_rules or given.quant_rules)
        if side == "target":
            return _from_offline(read_dump(comparison.target.path, with_rules=with_rules)).values()
        names = {row.golden_key.op for row in comparison.rows if row.golden_key is not None}
        return _from_offline(read_golden(comparison.golden.path, names, with_rules=with_rules)).values()


def _read_folder(path: str) -> Iterator[GraphOp]:
    """Yield all operators of a folder of graph mode, with their other executions."""
    for folder in scan(path).folders:
        if folder.path == path:
            kind = GraphKind.FX if FxName in folder.name_types else GraphKind.GE
            dump = read_token([folder], kind)
            yield from dump.operators.values()
            yield from (operator for operator, _ in dump.duplicates)
