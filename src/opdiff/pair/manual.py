"""Pairings declared by the user: each replaces the row of its target tensor, or adds one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.dump import side_tensor
from opdiff.core.errors import UsageError
from opdiff.core.pairing import OpLabel, Pairing, Unpaired
from opdiff.core.reasons import Reason, Status, all_of, because
from opdiff.core.tensor import Declared, TensorKey, file_safe_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.dump import DumpedOp
    from opdiff.core.pairing import ManualPair, PairingResult
    from opdiff.core.tensor import Tensor
    from opdiff.pair.dump_index import DumpIndex


def override(
    found: Iterable[PairingResult], pairs: Sequence[ManualPair], target: DumpIndex, golden: DumpIndex
) -> tuple[PairingResult, ...]:
    """Return the pairs that were found, with the user's pairings in place of pairs with the same target tensors.

    Raises:
        UsageError: a pairing names a tensor that does not exist.
    """
    pending = {pair.target.in_file_form: pair for pair in pairs}
    result: list[PairingResult] = []
    for row in found:
        pair = None if row.key is None else pending.pop(row.key.in_file_form, None)
        result.append(row if pair is None else _row(row.label, row.key or pair.target, pair, target, golden))
    for pair in pending.values():
        _add(result, pair, target, golden)
    return tuple(result)


def _row(label: OpLabel, key: TensorKey, pair: ManualPair, target: DumpIndex, golden: DumpIndex) -> PairingResult:
    label = replace(label, golden=pair.golden.op)
    tensor = _find_tensor(target, pair.target, "target")
    partner = _find_tensor(golden, pair.golden, "golden")
    side = None if isinstance(tensor, Reason) else side_tensor(key, tensor)
    if side is None or isinstance(partner, Reason):
        problem = all_of(found for found in (tensor, partner) if isinstance(found, Reason))
        return Unpaired(label, key, side, because("pair.manual_but", golden=str(pair.golden), problem=problem))
    return Pairing(
        label, side, side_tensor(pair.golden, partner), Declared(pair.layout), evidence=because("pair.manual")
    )


def _add(rows: list[PairingResult], pair: ManualPair, target: DumpIndex, golden: DumpIndex) -> None:
    """Insert a pairing of a tensor without a row: behind the other rows of its operator, else at the end."""
    operator = _find_operator(target, pair.target, "target")
    name = file_safe_name(pair.target.op)
    of_operator = [
        number for number, row in enumerate(rows) if file_safe_name(row.key.op if row.key else row.label.target) == name
    ]
    if of_operator:
        last = of_operator[-1]
        rows.insert(last + 1, _row(rows[last].label, pair.target, pair, target, golden))
        return
    index = max((row.label.index for row in rows), default=-1) + 1
    label = OpLabel(index, 0, operator.op_type, pair.target.op, pair.golden.op)
    rows.append(_row(label, pair.target, pair, target, golden))


def _find_tensor(index: DumpIndex, key: TensorKey, side: str) -> Tensor | Reason:
    """Return the tensor, or the reason why its file cannot be read.

    The tensors of an unreadable file are not known, so that the file may contain any tensor.
    """
    operator = _find_operator(index, key, side)
    tensors = operator.tensors(key.slot)
    if key.index in tensors:
        return tensors[key.index]
    if operator.problem:
        return because("pair.file_unreadable", Status.UNREADABLE, side=side, name=key.op, problem=operator.problem)
    available = tuple(map(str, sorted(tensors)))
    raise UsageError(because("pair.no_such_tensor", side=side, key=str(key), slot=key.slot, available=available))


def _find_operator(index: DumpIndex, key: TensorKey, side: str) -> DumpedOp:
    operator = index.find(key.op)
    if operator is None:
        nearest = index.nearest(key.op)
        hint = because("pair.most_similar", name=nearest) if nearest else None
        raise UsageError(because("pair.no_such_operator", side=side, name=key.op, hint=hint))
    return operator
