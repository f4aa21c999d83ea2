"""Ranks that hold parts of the golden tensors (tensor parallel): each part is compared with its part of the whole.

    rank 0: x[:, :n] ─┐                      rank 0: partial sum ─┐
    rank 1: x[:, n:] ─┴── golden x           rank 1: partial sum ─┴──(added)── golden x

How a tensor is divided follows from a file of the user, else from its shape: an axis that is shorter by the number of
ranks is divided. Tensors of equal shapes are copies, unless a collective operator adds them up.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.align import LAYOUTS
from opdiff.align.plain import is_plain
from opdiff.align.rank_parts import added, part_of
from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.dump import GraphKind
from opdiff.core.errors import InputError
from opdiff.core.pairing import Pairing, Unpaired
from opdiff.core.reasons import Reason, because
from opdiff.core.shards import Join, ShardRule, ShardRules
from opdiff.core.tensor import Slot, TensorKey, file_safe_name
from opdiff.read.graph.token_files import read_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opdiff.core.dump import SideTensor, TokenDump
    from opdiff.core.graph import TextGraph, TextOp
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Fact
    from opdiff.core.tensor import Shape, Tensor
    from opdiff.workflows.compare.graph_units import RankGraph

    Siblings = Callable[[], Mapping[int, TokenDump]]

AUTOMATIC = "auto"
"""Value of `--shards` that finds the division of tensors by their shapes."""

_ADDING_COLLECTIVES = ("AllReduce", "ReduceScatter")
# Types that keep the values of their input, so that a sum may follow later.
_KEEPS_VALUES = frozenset(
    {"Cast", "TransData", "Reshape", "Identity", "Squeeze", "Unsqueeze", "Transpose", "TransposeD"}
)


class Shards(Struct, frozen=True):
    """Division of the target among ranks: the ranks in the order of their parts, and the rules of the user."""

    ranks: tuple[int, ...]
    rules: ShardRules

    @classmethod
    def of(cls, option: str, ranks: Sequence[int]) -> Shards:
        """Return the division that the option `--shards` asks for; `ranks` are the ranks of the target.

        Raises:
            InputError: the file cannot be used, or names ranks that do not exist.
        """
        if option == AUTOMATIC:
            return cls(tuple(ranks), ShardRules())
        from opdiff.read.declarations import read_shards

        rules = read_shards(option)
        missing = [rank for rank in rules.ranks if rank not in ranks]
        if missing:
            raise InputError(option, because("compare.target_without_rank", rank=missing[0]))
        return cls(rules.ranks or tuple(ranks), rules)


class Division:
    """The units of all ranks that share tensors."""

    def __init__(self, shards: Shards, units: Sequence[RankGraph]) -> None:
        self._shards, self._units = shards, units
        self._sums: dict[int, frozenset[TensorKey] | None] = {}

    def divide(self, pairs: Iterable[PairingResult], unit: RankGraph, token: int) -> tuple[PairingResult, ...]:
        """Return the pairs of a token of one rank with the parts of the golden tensors that the rank holds."""
        if unit.number not in self._sums:
            self._sums[unit.number] = find_sums(unit.text)
        rank, sums = unit.rank or 0, self._sums[unit.number]
        siblings = cache(partial(self._siblings, unit.number, token))
        return tuple(
            _divide(pair, rank, self._shards, sums, siblings) if isinstance(pair, Pairing) else pair for pair in pairs
        )

    def _siblings(self, graph: int, token: int) -> Mapping[int, TokenDump]:
        units = (unit for unit in self._units if unit.number == graph and token in unit.target.tokens)
        return {unit.rank or 0: read_token(unit.target.tokens[token], GraphKind.GE) for unit in units}


def _divide(
    pair: Pairing, rank: int, shards: Shards, sums: frozenset[TensorKey] | None, siblings: Siblings
) -> PairingResult:
    target, golden = _shape(pair.target), _shape(pair.golden)
    if target is None or golden is None:
        return _refused(pair, because("compare.shard_data"))
    is_sum = None if sums is None else pair.key.in_file_form in sums
    rule = shards.rules.find(pair.key) or find_rule(target, golden, len(shards.ranks), is_sum=is_sum)
    if isinstance(rule, Reason):
        return _refused(pair, rule)
    if rule.join is Join.COPY:
        return pair
    if pair.target.tensor is None or pair.golden.tensor is None:
        return _refused(pair, because("compare.shard_data"))
    if rule.join is Join.ADD:
        return _add(pair, rank, shards, siblings)
    return _slice(pair, rule, shards.ranks.index(rank), len(shards.ranks))


def find_rule(target: Shape, golden: Shape, count: int, *, is_sum: bool | None) -> ShardRule | Reason:
    """Return how a tensor is divided by its shapes, or why that is not known.

    Args:
        target: shape on one rank.
        golden: shape of the whole tensor.
        count: number of ranks.
        is_sum: whether a collective adds up the tensors of the ranks; `None` if unknown.
    """
    shapes: dict[str, Fact] = {"target": target, "golden": golden, "count": count}
    if target == golden:
        if is_sum is None:
            return because("compare.shard_ambiguous", **shapes)
        return ShardRule("*", Join.ADD if is_sum else Join.COPY)
    axes = [axis for axis, pair in enumerate(zip(target, golden, strict=False)) if pair[0] != pair[1]]
    if len(target) != len(golden) or len(axes) != 1 or target[axes[0]] * count != golden[axes[0]]:
        return because("compare.shard_shapes", **shapes)
    return ShardRule("*", Join.CONCAT, axes[0])


def spans_of(extent: int, rule: ShardRule, number: int, count: int) -> tuple[tuple[int, int], ...] | None:
    """Return the indices of one rank along the divided axis; `None` if the axis cannot be divided evenly."""
    block, rest = divmod(extent, rule.blocks)
    width, uneven = divmod(block, count)
    if rest or uneven:
        return None
    starts = (position * block + number * width for position in range(rule.blocks))
    return tuple((start, start + width) for start in starts)


def _slice(pair: Pairing, rule: ShardRule, number: int, count: int) -> PairingResult:
    whole = pair.golden.data
    shape = whole.spec.shape
    if not is_plain(LAYOUTS.find(whole.spec.layout)):
        return _refused(pair, because("compare.shard_layout", layout=whole.spec.layout))
    if not -len(shape) <= rule.axis < len(shape):
        return _refused(pair, because("compare.shard_axis", axis=rule.axis, golden=shape))
    axis = rule.axis % len(shape)
    spans = spans_of(shape[axis], rule, number, count)
    if spans is None:
        return _refused(pair, because("compare.shard_axis", axis=axis, golden=shape))
    note = because("compare.shard_slice", number=number + 1, count=count, axis=axis, golden=shape)
    part = part_of(whole, axis, spans)
    return _with_golden(pair, replace(part, notes=(*part.notes, note)))


def _with_golden(pair: Pairing, tensor: Tensor) -> Pairing:
    return replace(pair, golden=replace(pair.golden, tensor=tensor))


def _add(pair: Pairing, rank: int, shards: Shards, siblings: Siblings) -> PairingResult:
    """Return the row of the first rank with the sum of all ranks; other ranks refer to this row."""
    if rank != shards.ranks[0]:
        return _refused(pair, because("compare.shard_added_elsewhere", rank=shards.ranks[0]))
    dumps = siblings()
    parts: list[Tensor] = []
    for other in shards.ranks:
        found = _find(dumps.get(other), pair.key)
        if found is None:
            return _refused(pair, because("compare.shard_missing", rank=other))
        parts.append(found)
    if any(part.spec.dtype.kind is not Kind.FLOAT for part in parts):
        return _refused(pair, because("compare.shard_not_float", dtype=parts[0].spec.dtype.name))
    dtype = dtypes.FLOAT64 if parts[0].spec.dtype is dtypes.FLOAT64 else dtypes.FLOAT32
    total = added(tuple(parts), dtype, _shape(pair.target) or ())
    note = because("compare.shard_added", count=len(parts))
    return replace(pair, target=replace(pair.target, tensor=replace(total, notes=(note,))))


def _find(dump: TokenDump | None, key: TensorKey) -> Tensor | None:
    operator = dump.operators.get(key.op) if dump is not None else None
    if operator is None:
        return None
    tensors = operator.inputs if key.slot is Slot.INPUT else operator.outputs
    return next((side.tensor for side in tensors if side.key.index == key.index), None)


def _shape(side: SideTensor) -> Shape | None:
    """Return the logical shape; `None` if it is not known."""
    if side.tensor is None:
        return side.stats.shape if side.stats else None
    spec = side.tensor.spec
    return spec.shape if is_plain(LAYOUTS.find(spec.layout)) else spec.origin_shape or None


def _refused(pair: Pairing, reason: Reason) -> Unpaired:
    return Unpaired(
        pair.label,
        pair.key,
        pair.target,
        reason,
        pair.unit,
        pair.target.path,
        pair.timestamp,
        pair.stack,
        has_data=pair.target.tensor is not None,
    )


# Partial sums


def find_sums(graph: TextGraph) -> frozenset[TensorKey] | None:
    """Return the tensors, by names in file names, that a collective adds up over ranks; `None` if there is no graph.

    Values may be moved or cast before they are added up.
    """
    return frozenset(_iter_sums(graph)) if graph.operators else None


def _iter_sums(graph: TextGraph) -> Iterator[TensorKey]:
    pending = {op.name: op for op in graph.operators.values() if _adds(op)}
    seen: set[str] = set()
    while pending:
        name, op = pending.popitem()
        seen.add(name)
        for number, (producer, index) in enumerate(op.inputs if _adds(op) else op.inputs[:1]):
            yield TensorKey(file_safe_name(name), Slot.INPUT, number)
            yield TensorKey(file_safe_name(producer), Slot.OUTPUT, index)
            made_by = graph.operators.get(producer)
            if made_by is not None and made_by.op_type in _KEEPS_VALUES and producer not in seen:
                pending[producer] = made_by


def _adds(op: TextOp) -> bool:
    return any(word in op.op_type for word in _ADDING_COLLECTIVES)
