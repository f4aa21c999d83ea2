"""Origins of outputs as real compilers leave them: corrected, completed, or dropped.

1. If the rule file names no origin for an output and no original for its operator, the origin has the operator's name.
2. If the compiler inserted a transpose after an operator, the output of the transpose is the original tensor, and its
   input is not.
3. A fused operator that writes into the output of a concatenation (`StridedWrite`) has the output of the original that
   its name contains.
4. The input of the original model is the output of image preprocessing on the device (`Aipp`), not the image before it.
5. If one original became a chain of operators, the last operator of the chain has the outputs of the original.
6. A folded constant often has the name of an operator that reads it. If an operator that computes declares the same
   origin, the constant loses the origin.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.graph import OutputDesc, parse_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.graph import RuleOp

    Origin = tuple[str, int]

_TRANSPOSES = frozenset({"Transpose", "TransposeD"})
_TRANSPOSE_AFTER = r"(.+)_Output(\d{1,4})_?TransposeAfter"
_AIPP_TYPE = "Aipp"
# Name of the preprocessing in the name of an operator that it was fused into.
_AIPP_MARK = "_huawei_aipp"
_STRIDED_WRITE = "_StridedWrite"
_TRANSPOSE_BEFORE = r".+_Input\d{1,4}_?TransposeBefore"


def correct_origins(operators: Sequence[RuleOp]) -> list[RuleOp]:
    """Return the operators of a graph, with the origins that rules 1 to 4 give, and each original listed once."""
    transposed = _transposed_outputs(operators)
    moved: dict[str, set[int]] = {}
    for name, index in transposed.values():
        moved.setdefault(name, set()).add(index)
    completed = []
    for operator in operators:
        unique = replace(operator, originals=tuple(dict.fromkeys(operator.originals)))
        if operator.name in transposed:
            unique = _with_origin(unique, *transposed[operator.name])
        elif not operator.has_originals and not _is_inserted_transpose(operator, _TRANSPOSE_BEFORE):
            unique = fill_origin(unique, operator.name)
        elif operator.op_type == _AIPP_TYPE and (source := _source_name(operator)):
            unique = fill_origin(unique, source)
        elif written := _written_original(operator):
            unique = fill_origin(unique, written)
        completed.append(_without_origins(unique, moved.get(operator.name, set())))
    return completed


def fill_origin_at_chain_end(name: str, members: list[RuleOp], declared: Iterable[Origin]) -> list[RuleOp]:
    """Return the operators compiled from one original, with the original as the origin at the end of the chain.

    Args:
        name: the original.
        members: operators compiled from the original.
        declared: origins that the rule file declares for outputs.
    """
    working = [operator for operator in members if not operator.is_constant]
    if any(operator.originals != (name,) for operator in working):
        return members
    ends = {operator.name for operator in working}
    if len({operator.name for operator in members}) > 1:
        ends -= {parsed[0] for operator in working for entry in operator.inputs if (parsed := parse_input(entry))}
        if any(origin == name for origin, _ in declared):
            return members
    if len(ends) != 1:
        return members
    return [
        fill_origin(operator, name) if operator.name in ends and operator.has_originals else operator
        for operator in members
    ]


def declared_origins(operators: Iterable[RuleOp], *, constants: bool = True) -> set[Origin]:
    """Return the original tensors that the rule file declares for outputs."""
    return {
        _origin(output)
        for operator in operators
        if constants or not operator.is_constant
        for output in operator.outputs
        if output.origin_name
    }


def drop_constant_origins(operator: RuleOp, origins: set[Origin]) -> RuleOp:
    """Return a constant without the origins that computing operators have; other operators are unchanged."""
    if not operator.is_constant:
        return operator
    return _without_origins(operator, {output.position for output in operator.outputs if _origin(output) in origins})


def fill_origin(operator: RuleOp, name: str) -> RuleOp:
    """Return the operator with this original at every output without an origin; if none is described, at output 0."""
    if operator.outputs and all(output.origin_name for output in operator.outputs):
        return operator
    outputs = tuple(replace(output, origin_name=output.origin_name or name) for output in operator.outputs)
    return replace(operator, outputs=outputs or (OutputDesc(0, origin_name=name),))


def _origin(output: OutputDesc) -> Origin:
    return output.origin_name, output.position if output.origin_index is None else output.origin_index


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


def _transposed_outputs(operators: Iterable[RuleOp]) -> dict[str, Origin]:
    """Return the transposes inserted after operators, and the output that each brings into the original order."""
    found = {}
    for operator in operators:
        is_transpose = _is_inserted_transpose(operator, _TRANSPOSE_AFTER)
        match = re.fullmatch(_TRANSPOSE_AFTER, operator.name) if is_transpose else None
        source = parse_input(operator.inputs[0]) if operator.inputs else None
        if match and source == (match[1], int(match[2])):
            found[operator.name] = source
    return found


def _is_inserted_transpose(operator: RuleOp, name: str) -> bool:
    """Return whether an operator is a transpose that the compiler inserted before or after another operator."""
    has_no_original = not operator.has_originals or operator.is_inserted
    return operator.op_type in _TRANSPOSES and has_no_original and re.fullmatch(name, operator.name) is not None
