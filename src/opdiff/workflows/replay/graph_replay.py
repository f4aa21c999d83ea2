"""Replay of operators of graph mode, by type and attributes of the optimized graph text of their unit."""

from __future__ import annotations

import os
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dump import Dump, DumpedOp, DumpKind, GraphKind
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because, did_you_mean
from opdiff.core.replay import Replay, ReplayVerdict
from opdiff.core.tensor import file_safe_name
from opdiff.pair.dump_index import DumpIndex
from opdiff.pair.groups import NOT_RUN_TYPES, group_operators
from opdiff.read.graph.token_files import read_token
from opdiff.read.rules import read_rules
from opdiff.read.rules.parameters import read_parameters
from opdiff.workflows.cluster import is_unread, path_for_workers
from opdiff.workflows.limits_file import find_limits
from opdiff.workflows.replay.compiled_graph import why_compiled_otherwise
from opdiff.workflows.replay.dumped_values import DumpOnly
from opdiff.workflows.replay.graph_units import read_units
from opdiff.workflows.replay.type_replay import TypeContext, replay_by_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opdiff.core.dump import GraphOp, SideTensor, Unit
    from opdiff.core.graph import RuleOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.judge.limits import Limits
    from opdiff.pair.groups import GroupedModel
    from opdiff.read.directory import Folder
    from opdiff.read.rules.parameters import Parameter
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.replay.graph_units import GraphUnit
    from opdiff.workflows.replay.options import ReplayOptions

    Progress = Callable[[int, int], None]

# Texts of large models take some 100 MB each; ranks of one token have one each.
_MAX_TEXTS_KEPT = 4


def replay_graph_dump(options: ReplayOptions, progress: Progress, cluster: Cluster | None = None) -> Iterator[Replay]:
    """Replay operators of all chosen units of a dump of graph mode, by this process or on the workers of a cluster.

    Raises:
        UsageError: no unit is chosen, no unit has a text, or an operator does not exist.
        InputError: the dump or a text cannot be used.
    """
    units = units_of(options, cluster)
    if not units:
        raise UsageError(because("replay.no_such_unit", path=options.target))
    if not any(unit.text for unit in units):
        raise InputError(options.target, because("replay.no_graph_text"))
    wanted = {file_safe_name(name) for name in options.operators}
    dumped = [(unit, name) for unit, names in zip(units, operators_of(units, cluster), strict=True) for name in names]
    chosen = [
        ChosenOperator(unit, unit.unit, name) for unit, name in dumped if not wanted or file_safe_name(name) in wanted
    ]
    if options.operators and not chosen:
        hint = did_you_mean(options.operators[0], dict.fromkeys(name for _, name in dumped))
        raise UsageError(because("replay.not_in_units", path=options.target, name=options.operators[0], hint=hint))
    yield from replay_chosen(chosen, GraphReplayer(find_limits(options.limits)), progress, cluster)


class ChosenOperator(Struct, frozen=True):
    """An operator to be computed again.

    Attributes:
        own: its unit in the dump; `None` if there is none.
        unit: the unit, as the result names it.
        name: its name.
    """

    own: GraphUnit | None
    unit: Unit
    name: str

    def not_replayable(self, reason: Reason, op_type: str = "") -> Replay:
        """Return the result if the operator cannot be computed again."""
        return Replay(self.name, op_type, ReplayVerdict.NOT_REPLAYABLE, reason=reason, unit=self.unit)


def units_of(options: ReplayOptions, cluster: Cluster | None) -> list[GraphUnit]:
    """Find the chosen units of a dump, as `read_units` does."""
    path = options.target if cluster is None else path_for_workers(options.target)
    return [unit for unit in read_units(path) if unit.is_chosen(options.rank, options.token, options.graph)]


def operators_of(units: Sequence[GraphUnit], cluster: Cluster | None) -> Iterator[list[str]]:
    """Yield the operators of units that were dumped and run on the device, in the order of execution."""
    return map(dumped_operators, units) if cluster is None else cluster.map(dumped_operators, units)


def dumped_operators(unit: GraphUnit) -> list[str]:
    """Return the operators of a unit that were dumped and run on the device, in the order of execution."""
    return [name for name, item in _read(unit.folders).operators.items() if item.op_type not in NOT_RUN_TYPES]


def replay_chosen(
    chosen: Sequence[ChosenOperator], replayer: GraphReplayer, progress: Progress, cluster: Cluster | None
) -> Iterator[Replay]:
    """Replay operators, in order, by this process or on the workers of a cluster."""
    if cluster is not None:
        from opdiff.workflows.replay.on_workers import replay_units_on_workers

        yield from replay_units_on_workers(chosen, replayer, progress, cluster)
        return
    for number, item in enumerate(chosen):
        progress(number, len(chosen))
        yield replayer.replay(item)
    progress(len(chosen), len(chosen))


class GraphReplayer:
    """Replays operators of units, by up to `threads` threads (0 for all cores); the last unit is kept open."""

    def __init__(self, limits: Limits, threads: int = 0) -> None:
        self.limits = limits
        self._threads = threads
        self._texts: OrderedDict[str, _Text] = OrderedDict()
        self._last: tuple[GraphUnit, _OpenUnit] | None = None

    def replay(self, chosen: ChosenOperator) -> Replay:
        """Compute an operator again; a problem, also of its text, is the reason of the result."""
        if chosen.own is None:
            return chosen.not_replayable(because("replay.no_unit"))
        try:
            return self._replay(chosen, self._open(chosen.own))
        except InputError as error:
            return chosen.not_replayable(error.reason)

    def can_read(self, chosen: ChosenOperator) -> bool:
        """Return whether this process can open all files of a unit."""
        try:
            return chosen.own is None or not self._open(chosen.own).is_unread
        except InputError as error:
            return not is_unread(error.reason)

    def _replay(self, chosen: ChosenOperator, opened: _OpenUnit) -> Replay:
        name, text = chosen.name, opened.text
        dumped = opened.index.find(name)
        op_type = dumped.op_type if dumped is not None else ""
        if text is None:
            return chosen.not_replayable(because("replay.no_text"), op_type)
        operator = text.operators.get(file_safe_name(name))
        if operator is None:
            return chosen.not_replayable(because("replay.not_in_text", file=os.path.basename(text.path)), op_type)
        if op_type and op_type != operator.op_type:
            why = because("replay.type_differs", dumped=op_type, described=operator.op_type)
            return chosen.not_replayable(why, op_type)
        found = replay_by_type(opened.context(text, self.limits, self._threads), operator)
        if found.verdict is ReplayVerdict.GUILTY:
            why_not = why_compiled_otherwise(operator, text.operators, text.readers, opened.index)
            if why_not is not None:
                return chosen.not_replayable(why_not, op_type)
        outputs = [replace(item, tensor=item.tensor.replace(operator.name, name, 1)) for item in found.outputs]
        return replace(found, operator=name, outputs=tuple(outputs), unit=chosen.unit)

    def _open(self, unit: GraphUnit) -> _OpenUnit:
        if self._last is None or self._last[0] is not unit:
            self._last = unit, _OpenUnit(unit, self._text(unit.text))
        return self._last[1]

    def _text(self, path: str) -> _Text | None:
        if not path:
            return None
        if path not in self._texts:
            self._texts[path] = _Text(path, group_operators(read_rules(path)), read_parameters(path))
        self._texts.move_to_end(path)
        while len(self._texts) > _MAX_TEXTS_KEPT:
            self._texts.popitem(last=False)
        return self._texts[path]


class _Text(Struct, frozen=True, dict=True):
    """A graph text: its operators, and their attributes."""

    path: str
    rules: GroupedModel
    parameters: Mapping[str, Mapping[str, Parameter]]

    @cached_property
    def operators(self) -> dict[str, RuleOp]:
        """Operators by their names in files."""
        return {file_safe_name(operator.name): operator for operator in self.rules.operators()}

    @cached_property
    def readers(self) -> dict[str, list[RuleOp]]:
        """Operators that read the outputs of each operator, by its name in files."""
        found: dict[str, list[RuleOp]] = {}
        for operator in self.rules.operators():
            for entry in operator.inputs:
                found.setdefault(file_safe_name(entry.rpartition(":")[0]), []).append(operator)
        return found


class _OpenUnit:
    """The dump of a unit, its text, and whether a file could not be read."""

    def __init__(self, unit: GraphUnit, text: _Text | None) -> None:
        self._unit = unit
        self.text = text
        self.dump = _read(unit.folders)
        self.index = DumpIndex(self.dump)
        self.is_unread = any(is_unread(operator.problem) for operator in self.dump.operators.values())
        self._context: TypeContext | None = None

    def context(self, text: _Text, limits: Limits, threads: int) -> TypeContext:
        """Return the dump with its rules."""
        if self._context is None:
            values = DumpOnly(text.rules, self.index, self._earlier)
            self._context = TypeContext(
                text.path, text.rules, self.index, text.parameters, values, limits, threads=threads
            )
        return self._context

    def _earlier(self) -> DumpIndex | None:
        return DumpIndex(_read(self._unit.earlier)) if self._unit.earlier else None


def _read(folders: Sequence[Folder]) -> Dump:
    """Read the operators of one token as a dump; tensors without data are left out."""
    found = read_token(folders, GraphKind.GE)
    operators = {name: _dumped(operator) for name, operator in found.operators.items()}
    return Dump(folders[0].path, DumpKind.NPU, quantized=False, operators=operators)


def _dumped(operator: GraphOp) -> DumpedOp:
    inputs, outputs = (_with_data(side) for side in (operator.inputs, operator.outputs))
    return DumpedOp(
        operator.name, operator.op_type, operator.timestamp, operator.path, inputs, outputs, operator.problem
    )


def _with_data(tensors: Sequence[SideTensor]) -> dict[int, Tensor]:
    return {item.key.index: item.tensor for item in tensors if item.tensor is not None}
