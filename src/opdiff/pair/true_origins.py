"""Origins of outputs as real compilers leave them: corrected, completed, or dropped.

- An output without a name is that of its operator, if nothing else is said.
- Where one original became several operators, the last of their chain has its outputs.
- Behind a transpose that the compiler put around an operator is the original's tensor, not before it.
- A fused operator that writes into the output of a concatenation (`StridedWrite`) has the output of the named original.
- The input of the original model is the output of image preprocessing on the device (`Aipp`), not the image before it.
- A folded constant has the name of an operator that reads it; that operator's own claim counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.graph import OutputDesc, parse_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.graph import RuleOp

    Claim = tuple[str, int]

_TRANSPOSES = frozenset({"Transpose", "TransposeD"})
_AFTER = re.compile(r"(.+)_Output(\d{1,4})_?TransposeAfter")
_AIPP_TYPE = "Aipp"
# Name of the preprocessing in the name of an operator that it was fused into.
_AIPP_MARK = "_huawei_aipp"
_STRIDED_WRITE = "_StridedWrite"
_BEFORE = re.compile(r".+_Input\d{1,4}_?TransposeBefore")


def complete(operators: Sequence[RuleOp]) -> list[RuleOp]:
    """Return the operators of a graph, each original once, and outputs without a name named where that is certain."""
    behind = _outputs_behind(operators)
    moved: dict[str, set[int]] = {}
    for name, index in behind.values():
        moved.setdefault(name, set()).add(index)
    completed = []
    for operator in operators:
        unique = replace(operator, originals=tuple(dict.fromkeys(operator.originals)))
        if operator.name in behind:
            unique = _with_origin(unique, *behind[operator.name])
        elif not operator.has_originals and not _is_around(operator, _BEFORE):
            unique = fill_origin(unique, operator.name)
        elif operator.op_type == _AIPP_TYPE and (source := _source_name(operator)):
            unique = fill_origin(unique, source)
        elif written := _written_original(operator):
            unique = fill_origin(unique, written)
        completed.append(_without_origins(unique, moved.get(operator.name, set())))
    return completed


def name_ends(name: str, members: list[RuleOp], claims: Iterable[Claim]) -> list[RuleOp]:
    """Name the outputs of the operator that ends the chain of those compiled from one original.

    Args:
        name: the original.
        members: operators compiled from it.
        claims: original tensors that some output is said to be.
    """
    working = [operator for operator in members if not operator.is_constant]
    if any(operator.originals != (name,) for operator in working):
        return members
    ends = {operator.name for operator in working}
    if len({operator.name for operator in members}) > 1:
        ends -= {parsed[0] for operator in working for entry in operator.inputs if (parsed := parse_input(entry))}
        if any(claimed == name for claimed, _ in claims):
            return members
    if len(ends) != 1:
        return members
    return [
        fill_origin(operator, name) if operator.name in ends and operator.has_originals else operator
        for operator in members
    ]


def claims_of(operators: Iterable[RuleOp], *, constants: bool = True) -> set[Claim]:
    """Return the original tensors that outputs are said to be."""
    return {
        (output.origin_name, output.position if output.origin_index is None else output.origin_index)
        for operator in operators
        if constants or not operator.is_constant
        for output in operator.outputs
        if output.origin_name
    }


def drop_false_claims(operator: RuleOp, claims: set[Claim]) -> RuleOp:
    """Return a constant without the origins that operators that compute have."""
    if not operator.is_constant:
        return operator
    false = {position for position in range(len(operator.outputs)) if claims_of([_only(operator, position)]) & claims}
    return _without_origins(operator, {operator.outputs[position].position for position in false})


def fill_origin(operator: RuleOp, name: str) -> RuleOp:
    """Return the operator with this original name at every output without one; a single output if none is described."""
    if operator.outputs and all(output.origin_name for output in operator.outputs):
        return operator
    outputs = tuple(replace(output, origin_name=output.origin_name or name) for output in operator.outputs)
    return replace(operator, outputs=outputs or (OutputDesc(0, origin_name=name),))


def _only(operator: RuleOp, position: int) -> RuleOp:
    return replace(operator, outputs=(operator.outputs[position],))


def _without_origins(operator: RuleOp, positions: set[int]) -> RuleOp:
    if not positions:
        return operator
    outputs = (
        replace(output, origin_name="") if output.position in positions else output for output in operator.outputs
    )
    return replace(operator, outputs=tuple(outputs))


def _with_origin(operator: RuleOp, name: str, index: int) -> RuleOp:
    output = operator.outputs[0] if operator.outputs else OutputDesc(0)
    return replace(operator, outputs=(replace(output, origin_name=name, origin_index=index),))


def reads_image(operator: RuleOp, producer: RuleOp) -> bool:
    """Return whether the producer feeds an image that the operator preprocesses on the device (AIPP)."""
    return producer.op_type == "Data" and (operator.op_type == _AIPP_TYPE or _AIPP_MARK in operator.name)


def _source_name(operator: RuleOp) -> str:
    source = parse_input(operator.inputs[0]) if operator.inputs else None
    return source[0] if source else ""


def _written_original(operator: RuleOp) -> str:
    """Return the original whose output a fused operator writes with strides; an empty string for other operators."""
    if len(operator.outputs) > 1:
        return ""
    return next((name for name in operator.originals if name and operator.name.endswith(f"{name}{_STRIDED_WRITE}")), "")


def _outputs_behind(operators: Iterable[RuleOp]) -> dict[str, Claim]:
    """Return the transposes behind an operator, and which of its outputs each brings into the original order."""
    found = {}
    for operator in operators:
        match = _AFTER.fullmatch(operator.name) if _is_around(operator, _AFTER) else None
        source = parse_input(operator.inputs[0]) if operator.inputs else None
        if match and source == (match[1], int(match[2])):
            found[operator.name] = source
    return found


def _is_around(operator: RuleOp, name: re.Pattern[str]) -> bool:
    """Whether it is a transpose that the compiler put around another operator."""
    has_no_original = not operator.has_originals or operator.is_inserted
    return operator.op_type in _TRANSPOSES and has_no_original and bool(name.fullmatch(operator.name))
