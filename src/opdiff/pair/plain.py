"""Two NPU dumps without rules: the same name is the same operator, and tensors correspond by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.comparison import OpLabel, Pairing, Unpaired
from opdiff.core.dump import with_data
from opdiff.core.tensor import Slot, TensorKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.tensor import Tensor

    Row = Pairing | Unpaired


_RULE = "both sides have an operator of this name, and a tensor of this number"


def iter_plain_rows(target: Dump, golden: Dump) -> Iterator[Row]:
    """Rows of the target's operators, oldest first, then of those that only the golden side has."""
    names = [*target.operators, *(name for name in golden.operators if name not in target.operators)]
    for index, name in enumerate(names):
        ours, theirs = target.operators.get(name), golden.operators.get(name)
        reason = _problem(name, ours, theirs)
        if ours is None or theirs is None or (not (_has_tensors(ours) and _has_tensors(theirs)) and reason):
            label = OpLabel(index, 0, "", "*" if ours is None else name, "*" if theirs is None else name)
            yield Unpaired(label, None, None, reason)
            continue
        label = OpLabel(index, 0, ours.op_type, name, name)
        yield from _tensor_rows(label, ours, theirs)
        if reason:
            # Where each tensor has its own file, one that is torn does not cost the others.
            yield Unpaired(label, None, None, reason)


def _problem(name: str, ours: DumpedOp | None, theirs: DumpedOp | None) -> str:
    """Why an operator, or some of its tensors, cannot be compared; empty when all can."""
    if ours is None:
        return f"the target has no file of {name}"
    if theirs is None:
        return f"the golden side has no file of {name}"
    sides = (("the target's", ours), ("the golden", theirs))
    torn = [f"{side} file of {name} cannot be read: {found.problem}" for side, found in sides if found.problem]
    if not torn and not _has_tensors(ours) and not _has_tensors(theirs):
        return f"the files of {name} hold no tensors"
    return "; ".join(torn)


def _has_tensors(operator: DumpedOp) -> bool:
    return bool(operator.inputs or operator.outputs)


def _tensor_rows(label: OpLabel, ours: DumpedOp, theirs: DumpedOp) -> Iterator[Row]:
    for slot in Slot:
        left, right = ours.tensors(slot), theirs.tensors(slot)
        counts = f"the target has {_count(left, slot)} and the golden side {_count(right, slot)}"
        for index in sorted({*left, *right}):
            key = TensorKey(label.target, slot, index)
            target, golden = left.get(index), right.get(index)
            if target is not None and golden is not None:
                yield Pairing(label, with_data(key, target), with_data(key, golden), rule=_RULE)
            else:
                side = "golden side" if golden is None else "target"
                found = None if target is None else with_data(key, target)
                yield Unpaired(label, key, found, f"the {side} has no {slot} {index} of {label.target}; {counts}")


def _count(tensors: Mapping[int, Tensor], slot: Slot) -> str:
    return f"{len(tensors)} {slot}{'' if len(tensors) == 1 else 's'}"
