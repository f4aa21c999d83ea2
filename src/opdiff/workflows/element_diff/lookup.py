"""Lookup of one tensor by the name that the user gives."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError, UsageError
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import Reason, any_of, because, quoted
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.pairing import PairingResult

_UNSAFE_CHARACTERS = str.maketrans(" ./\\", "____")


def find_pairing(pairs: Sequence[PairingResult], name: str, slot: Slot = Slot.OUTPUT, index: int = 0) -> Pairing:
    """Return the pairing of a tensor, given by a target or golden operator.

    Args:
        pairs: all pairings.
        name: an operator, with slashes or as in file names, or one of its tensors, as `conv1:output:0`.
        slot: input or output, unless the name has it.
        index: index of the tensor, unless the name has it.

    Raises:
        UsageError: there is no such operator or tensor; the message has the closest names.
        InputError: the tensor has no counterpart.
    """
    op, slot, index = _parse_key(name, slot, index)
    rows = [row for row in pairs if op in _names(row)]
    rows = rows or [row for row in pairs if _file_name(op) in map(_file_name, _names(row))]
    if not rows:
        raise UsageError(_unknown_operator(op, pairs))
    for row in rows:
        if row.key is None or (row.key.slot, row.key.index) == (slot, index):
            if isinstance(row, Pairing):
                return _with_data(row)
            raise InputError(str(row.key or op), row.reason)
    available = ", ".join(f"{row.key.slot}:{row.key.index}" for row in rows if row.key is not None)
    raise UsageError(because("workflows.operator_without", operator=op, slot=slot, index=index, available=available))


def _with_data(pairing: Pairing) -> Pairing:
    """Return a pairing whose tensors can be read.

    Raises:
        InputError: a side has statistics only, or its file cannot be read.
    """
    for word, side in (("target", pairing.target), ("golden", pairing.golden)):
        if side.tensor is None:
            raise InputError(side.path, side.problem or because("compare.statistics_only", side=word))
    return pairing


def _parse_key(text: str, slot: Slot, index: int) -> tuple[str, Slot, int]:
    name, _, number = text.rpartition(":")
    op, _, kind = name.rpartition(":")
    if op and kind in set(Slot) and number.isdecimal():
        return op, Slot(kind), int(number)
    return text, slot, index


def _names(row: PairingResult) -> list[str]:
    """Return the names by which a row can be found: its own operator, then the golden one."""
    if row.key is None:
        return row.label.target.split(",")
    return [row.key.op, row.golden_key.op] if isinstance(row, Pairing) and row.key.slot is Slot.OUTPUT else [row.key.op]


def _file_name(name: str) -> str:
    """Return a name as it is written in file names."""
    return name.translate(_UNSAFE_CHARACTERS)


def _unknown_operator(name: str, pairs: Sequence[PairingResult]) -> Reason:
    known = dict.fromkeys(known for row in pairs for known in _names(row) if known != "*")
    close = get_close_matches(name, known, 3) or [other for other in known if name.lower() in other.lower()][:3]
    if not close:
        return because("workflows.no_such_operator", name=name, count=len(known))
    return because("workflows.misspelt_operator", name=name, names=any_of(map(quoted, close)))
