"""Pairing of two NPU dumps without rules: by operator name and tensor number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.dump import side_tensor
from opdiff.core.pairing import OpLabel, Pairing, Unpaired
from opdiff.core.reasons import Status, all_of, because
from opdiff.core.tensor import Slot, TensorKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason


_SAME_NAME = because("pair.same_name")


def iter_plain_pairs(target: Dump, golden: Dump) -> Iterator[PairingResult]:
    """Yield the pairs of the target's operators, oldest first, then of operators that only the golden dump has."""
    names = [*target.operators, *(name for name in golden.operators if name not in target.operators)]
    for index, name in enumerate(names):
        target_op, golden_op = target.operators.get(name), golden.operators.get(name)
        if target_op is None or golden_op is None:
            yield _one_sided_row(index, name, "target" if target_op is None else "golden")
            continue
        label = OpLabel(index, 0, target_op.op_type, name, name)
        problem = _find_problem(name, target_op, golden_op)
        if problem is None or (_has_tensors(target_op) and _has_tensors(golden_op)):
            yield from _tensor_pairs(label, target_op, golden_op)
        else:
            label = replace(label, op_type="")
        if problem is not None:
            # Where each tensor has its own file, an unreadable one does not cost the others.
            yield Unpaired(label, None, None, problem)


def _one_sided_row(index: int, name: str, absent: str) -> Unpaired:
    """Return the entry of an operator that the dump of one side does not have."""
    label = OpLabel(index, 0, "", "*" if absent == "target" else name, "*" if absent == "golden" else name)
    status = Status.NOT_DUMPED if absent == "target" else Status.NO_GOLDEN_FILE
    return Unpaired(label, None, None, because("pair.no_file", status, side=absent, name=name))


def _find_problem(name: str, target: DumpedOp, golden: DumpedOp) -> Reason | None:
    """Return the reason why an operator, or some of its tensors, cannot be compared."""
    sides = (("target", target), ("golden", golden))
    unreadable = [
        because("pair.file_unreadable", Status.UNREADABLE, side=side, name=name, problem=operator.problem)
        for side, operator in sides
        if operator.problem
    ]
    if unreadable:
        return all_of(unreadable)
    if not _has_tensors(target) and not _has_tensors(golden):
        return because("pair.both_files_empty", name=name)
    return None


def _has_tensors(operator: DumpedOp) -> bool:
    return bool(operator.inputs or operator.outputs)


def _tensor_pairs(label: OpLabel, target_op: DumpedOp, golden_op: DumpedOp) -> Iterator[PairingResult]:
    for slot in Slot:
        targets, goldens = target_op.tensors(slot), golden_op.tensors(slot)
        for index in sorted({*targets, *goldens}):
            key = TensorKey(label.target, slot, index)
            target, golden = targets.get(index), goldens.get(index)
            if target is not None and golden is not None:
                yield Pairing(label, side_tensor(key, target), side_tensor(key, golden), evidence=_SAME_NAME)
            else:
                side = "golden" if golden is None else "target"
                found = None if target is None else side_tensor(key, target)
                yield Unpaired(label, key, found, _missing(side, key, len(targets), len(goldens)))


def _missing(side: str, key: TensorKey, target_count: int, golden_count: int) -> Reason:
    return because(
        "pair.no_input" if key.slot is Slot.INPUT else "pair.no_output",
        side=side,
        index=key.index,
        name=key.op,
        target_count=target_count,
        golden_count=golden_count,
    )
