"""Fusion on against fusion off: original operators are what both compiled models were made from.

target operator ── its description ──► original tensor ── a description of the golden model ──► golden operator

Operators that the compiler inserted are no one's originals; they are compared with what they pass on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.tensor import Slot, TensorKey
from opdiff.pair.fusion import Group
from opdiff.pair.golden import Found, find_output
from opdiff.pair.trace import PASSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.graph import RuleOp
    from opdiff.pair.fusion import Network
    from opdiff.pair.names import DumpIndex
    from opdiff.pair.trace import Origin

    Place = tuple[str, int]


def relabel(network: Network, close: Network) -> Network:
    """The target's network with the golden operators in the place of the originals, for the report."""
    owners = _owners(close)
    groups = tuple(
        Group(group.index, tuple(_relabel_operator(operator, owners) for operator in group.operators))
        for group in network.groups
    )
    return network._replace(groups=groups)


def _owners(close: Network) -> dict[str, str]:
    """The golden operator that was made from an original; the last one to run, which has the final result."""
    return {original: operator.name for operator in close.in_sequence() for original in operator.originals if original}


def _relabel_operator(operator: RuleOp, owners: Mapping[str, str]) -> RuleOp:
    if operator.originals == ("",):
        return operator
    names = dict.fromkeys(owners[original] for original in operator.originals if original in owners)
    return operator._replace(originals=tuple(names))


class _Holders(NamedTuple):
    """Where a compiled model has the tensors of the original one.

    Attributes:
        outputs: golden operator and output number by original operator and output number.
        whole: the golden operator of which all outputs are those of an original.
        readers: golden operator and input number by the golden output that is read there, in the order of execution.
    """

    outputs: dict[Place, Place]
    whole: dict[str, str]
    readers: dict[Place, list[Place]]


class CloseGolden:
    """A golden dump of the same model, compiled without fusion."""

    def __init__(self, index: DumpIndex, close: Network) -> None:
        self._index = index
        self._owners = _owners(close)
        self._holders = _find_holders(close)

    def find(self, origin: Origin) -> Found | str:
        """The golden output that holds an original tensor, or the golden input that was fed with it."""
        place = self._place(origin)
        if place is None:
            return self._unknown(origin)
        found = find_output(self._index, *place)
        if isinstance(found, Found):
            return found._replace(why=_held_by(origin, place))
        return self._find_read(origin, place) or found

    def _place(self, origin: Origin) -> Place | None:
        place = self._holders.outputs.get((origin.name, origin.index))
        if place is None and origin.name in self._holders.whole:
            return self._holders.whole[origin.name], origin.index
        return place

    def _unknown(self, origin: Origin) -> str:
        owner = self._owners.get(origin.name)
        if owner is None:
            return f"no operator of the golden model was made from {origin.name}"
        return f"in the golden model {origin.name} is inside of {owner}, and none of its outputs is {origin}"

    def _find_read(self, origin: Origin, place: Place) -> Found | None:
        """What the first reader of an output got, where the output itself was not dumped (model inputs never are)."""
        for name, number in self._holders.readers.get(place, ()):
            operator = self._index.find(name)
            if operator is not None and number in operator.inputs:
                why = f"{_held_by(origin, place)}; in the golden model {name} reads it as input {number}"
                return Found(TensorKey(name, Slot.INPUT, number), operator.inputs[number], why)
        return None


def _held_by(origin: Origin, place: Place) -> str:
    name, number = place
    return "" if (origin.name, origin.index) == place else f"; in the golden model that is output {number} of {name}"


def _find_holders(close: Network) -> _Holders:
    holders = _Holders({}, {}, {})
    for operator in close.in_sequence():
        for number, entry in enumerate(operator.inputs):
            producer, _, output = entry.rpartition(":")
            if output.isdecimal() and len(output) <= 9:
                holders.readers.setdefault((producer, int(output)), []).append((operator.name, number))
        # The compiler numbers the operators it inserts: those of equal names in two models need not be the same.
        if operator.op_type not in PASSING or operator.has_originals:
            _take_outputs(operator, holders)
    return holders


def _take_outputs(operator: RuleOp, holders: _Holders) -> None:
    for output in operator.outputs:
        if not output.origin_name:
            continue
        if output.origin_index is None:
            holders.whole[output.origin_name] = operator.name
        else:
            holders.outputs[output.origin_name, output.origin_index] = operator.name, output.position
