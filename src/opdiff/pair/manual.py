"""Pairs that the user declares override what they name; a tensor without a row of its own gets one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.comparison import OpLabel, Pairing, Unpaired
from opdiff.core.dump import with_data
from opdiff.core.errors import UsageError
from opdiff.core.tensor import Slot, TensorKey, file_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.dump import DumpedOp
    from opdiff.core.manual_pair import ManualPair
    from opdiff.core.tensor import Tensor
    from opdiff.pair.names import DumpIndex

    Row = Pairing | Unpaired
    Place = tuple[str, Slot, int]


def override(rows: Iterable[Row], pairs: Sequence[ManualPair], target: DumpIndex, golden: DumpIndex) -> tuple[Row, ...]:
    """The rows with the user's pairings in the place of what was there for the same tensor of the target.

    Raises:
        UsageError: a pairing names a tensor that is not there.
    """
    wanted = {_place(pair.target): pair for pair in pairs}
    result: list[Row] = []
    for row in rows:
        pair = None if row.key is None else wanted.pop(_place(row.key), None)
        result.append(row if pair is None else _row(row.label, row.key or pair.target, pair, target, golden))
    for pair in wanted.values():
        _add(result, pair, target, golden)
    return tuple(result)


def _place(key: TensorKey) -> Place:
    return file_form(key.op), key.slot, key.index


def _row(label: OpLabel, key: TensorKey, pair: ManualPair, target: DumpIndex, golden: DumpIndex) -> Row:
    ours, theirs = _tensor(target, pair.target, "target"), _tensor(golden, pair.golden, "golden side")
    label = label._replace(golden=pair.golden.op)
    if isinstance(ours, str) or isinstance(theirs, str):
        reasons = [found for found in (ours, theirs) if isinstance(found, str)]
        described = None if isinstance(ours, str) else with_data(key, ours)
        return Unpaired(label, key, described, f"paired by the user with {pair.golden}, but {'; '.join(reasons)}")
    return Pairing(label, with_data(key, ours), with_data(pair.golden, theirs), pair.layout, rule="paired by the user")


def _add(rows: list[Row], pair: ManualPair, target: DumpIndex, golden: DumpIndex) -> None:
    """Put in a pairing of a tensor that had no row: behind the operator's other rows, else at the end."""
    dump = _operator(target, pair.target, "target")
    wanted = file_form(pair.target.op)
    places = [
        number for number, row in enumerate(rows) if file_form(row.key.op if row.key else row.label.target) == wanted
    ]
    if places:
        rows.insert(places[-1] + 1, _row(rows[places[-1]].label, pair.target, pair, target, golden))
        return
    number = max((row.label.index for row in rows), default=-1) + 1
    label = OpLabel(number, 0, dump.op_type, pair.target.op, pair.golden.op)
    rows.append(_row(label, pair.target, pair, target, golden))


def _tensor(index: DumpIndex, key: TensorKey, side: str) -> Tensor | str:
    """The tensor, or why it cannot be read. Which tensors a torn file has is not known, so any may be meant."""
    operator = _operator(index, key, side)
    tensors = operator.tensors(key.slot)
    if key.index in tensors:
        return tensors[key.index]
    if operator.problem:
        return f"{key.op} of the {side} cannot be read: {operator.problem}"
    there = ", ".join(map(str, sorted(tensors))) or "none"
    raise UsageError(f"pairs: the {side} has no {key}; its {key.slot}s are {there}")


def _operator(index: DumpIndex, key: TensorKey, side: str) -> DumpedOp:
    operator = index.find(key.op)
    if operator is None:
        raise UsageError(f"pairs: the {side} has no operator {key.op}{index.hint(key.op)}")
    return operator
