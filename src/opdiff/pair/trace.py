"""From a tensor of the target to the tensor of the original model that it should equal.

An output is what its description says. An input is the output of its producer. Cast and TransData change the storage
and not the numbers, so what has no counterpart behind them is looked for before them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from opdiff.core.graph import OutputDesc, RuleOp
    from opdiff.core.tensor import Shape
    from opdiff.pair.fusion import Network

PASSING = frozenset({"Cast", "TransData"})


class Origin(NamedTuple):
    """A tensor of the original model, and why it is the one; prints `c1:0`."""

    name: str
    index: int  # type: ignore[assignment]  # hides tuple.index
    layout: str
    shape: Shape
    why: str

    def __str__(self) -> str:
        return f"{self.name}:{self.index}"


class Trace(NamedTuple):
    """What a tensor may be compared with, best first; `problem` says why the way ends without one."""

    origins: tuple[Origin, ...]
    problem: str = ""


def trace(network: Network, operator: RuleOp, slot: Slot, index: int) -> Trace:
    """The way back from a tensor of an operator."""
    if slot is Slot.OUTPUT:
        return _walk(network, operator, index, _Words(f"{_made_from(operator)}output {index}"))
    step = _producer(network, operator, index)
    if isinstance(step, str):
        return Trace((), step)
    producer, number = step
    return _walk(network, producer, number, _Words(f"input {index}", producer.name))


class _Words(NamedTuple):
    """How the way so far is told; `last` is the operator that the tensor comes from, empty for the operator itself."""

    start: str
    last: str = ""

    def at(self, origin: str) -> str:
        if not self.last:
            return f"{self.start} is {origin}"
        if origin.rpartition(":")[0] == self.last:
            return f"{self.start} comes from {origin}"
        return f"{self.start} comes from {self.last}, whose output is {origin}"

    def passed(self, origin: str, through: list[str]) -> str:
        if not self.last:
            return f"{self.start} passes on {', which passes on '.join([*through[1:], origin])}"
        return f"{self.start} comes from {', which passes on '.join([*through, origin])}"


def _walk(network: Network, operator: RuleOp, index: int, words: _Words) -> Trace:
    origins: list[Origin] = []
    through: list[str] = []
    seen: set[tuple[str, str, int]] = set()
    while True:
        place = (operator.graph_name, operator.name, index)
        if place in seen:
            return Trace(tuple(origins), f"the inputs of {operator.name} lead back to itself")
        seen.add(place)
        output = operator.output(index)
        if output is not None and output.origin_name:
            origins.append(_origin(output, index, words, through))
        if operator.op_type not in PASSING:
            return Trace(tuple(origins), "" if origins else _no_origin(operator, index, output))
        through.append(operator.name)
        step = _producer(network, operator, index)
        if isinstance(step, str):
            return Trace(tuple(origins), f"{operator.name} only passes on its input, and {step}")
        operator, index = step


def _origin(output: OutputDesc, index: int, words: _Words, through: list[str]) -> Origin:
    number = index if output.origin_index is None else output.origin_index
    name = f"{output.origin_name}:{number}"
    why = words.passed(name, through) if through else words.at(name)
    return Origin(output.origin_name, number, output.layout, output.shape, why)


def _no_origin(operator: RuleOp, index: int, output: OutputDesc | None) -> str:
    if output is not None:
        return f"the rule file names no original tensor for output {index} of {operator.name} ({operator.op_type})"
    if not operator.outputs:
        return f"the rule file describes no outputs of {operator.name} ({operator.op_type})"
    return f"the rule file describes {len(operator.outputs)} outputs of {operator.name}, and this is number {index}"


def _producer(network: Network, operator: RuleOp, index: int) -> tuple[RuleOp, int] | str:
    """The operator and output that feed an input, or why they are not known."""
    if index >= len(operator.inputs):
        return f"the rule file lists {len(operator.inputs)} inputs of {operator.name}, and none with number {index}"
    entry = operator.inputs[index]
    name, _, number = entry.rpartition(":")
    if not name or not number.isdecimal() or len(number) > 9:
        return f"the rule file says that input {index} of {operator.name} is {entry!r}, which is not `operator:output`"
    producer = network.find(name, operator.graph_name)
    if producer is None:
        return f"{name}, which feeds input {index} of {operator.name}, is not in the rule file"
    return producer, int(number)


def _made_from(operator: RuleOp) -> str:
    originals = [name for name in operator.originals if name]
    if originals in ([], [operator.name]):
        return ""
    verb = "is fused from" if len(originals) > 1 else "was made from"
    return f"{operator.name} {verb} {', '.join(originals)}; "
