"""Meaning of operator inputs: which argument of an FX node an input of the graph engine's operator is.

Lowering moves, drops and adds arguments: `addmm(bias, x, w)` becomes `MatMulV2(x, w, bias)`. The names of descriptors
say what an input is; the signature of the FX operator says where that stands among the arguments.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.graph import TextOp

    Argument = tuple[int, int]

_TARGET = re.compile(r"[^-]*-([\w<>]+)\.(\w+)")
_LISTED = re.compile(r"x(\d+)")
# Targets of FX operators, types of the operators that they are lowered to, and arguments by the names of inputs.
_MATMULS = "MatMul MatMulV2 MatMulV3 BatchMatMul BatchMatMulV2 BatchMatMulV3"
_LOWERINGS: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("mm bmm matmul", _MATMULS, {"x1": 0, "x2": 1}),
    ("addmm baddbmm", _MATMULS, {"x1": 1, "x2": 2, "bias": 0}),
    ("addmm", "Add AxpyV2", {"x2": 0}),
    ("baddbmm", "Mul", {"x1": 0}),
    ("linear", _MATMULS, {"x1": 0, "x2": 1, "bias": 2}),
    ("add sub", "AxpyV2", {"x1": 0, "x2": 1}),
    ("rsub", "Sub Sxpy", {"x1": 1, "x2": 0}),
    ("bitwise_and", "LogicalAnd", {"x1": 0, "x2": 1}),
    ("bitwise_or", "LogicalOr", {"x1": 0, "x2": 1}),
    ("clamp", "ClipByValue ClipByValueV2", {"x": 0, "clip_value_min": 1, "clip_value_max": 2}),
    ("mse_loss", "MseLoss", {"predict": 0, "label": 1}),
    ("native_layer_norm", "LayerNormV4 LayerNormV3 LayerNorm", {"x": 0, "gamma": 2, "beta": 3}),
    ("native_group_norm", "GroupNorm", {"x": 0, "gamma": 1, "beta": 2}),
    (
        "_native_batch_norm_legit_no_training native_batch_norm",
        "BNInfer BNInference BatchNorm",
        {"x": 0, "scale": 1, "offset": 2, "mean": 3, "variance": 4},
    ),
    ("convolution", "Conv2D Conv3D Conv2DTranspose Conv3DTranspose", {"x": 0, "filter": 1, "bias": 2}),
    ("embedding", "GatherV2 Gather", {"x": 0, "indices": 1}),
    ("index_select", "GatherV2 Gather", {"x": 0, "indices": 2}),
    ("gather", "GatherElements", {"x": 0, "index": 2}),
    ("where", "Select SelectV2", {"condition": 0, "then": 1, "x1": 1, "else": 2, "x2": 2}),
    ("masked_fill", "MaskedFill", {"x": 0, "mask": 1}),
    ("scatter", "ScatterElements", {"data": 0, "indices": 2, "updates": 3}),
    ("scatter_add", "ScatterElements", {"data": 0, "indices": 2, "updates": 3}),
    ("select_scatter", "ScatterElements", {"data": 0}),
    ("index_add", "InplaceIndexAdd", {"var": 0, "indices": 2, "updates": 3}),
    ("searchsorted", "SearchSorted", {"sorted_sequence": 0, "values": 1}),
    ("addcmul", "Addcmul", {"input_data": 0, "x1": 1, "x2": 2}),
    ("addcdiv", "Addcdiv", {"input_data": 0, "x1": 1, "x2": 2}),
    ("lerp", "Lerp", {"start": 0, "end": 1, "weight": 2}),
    ("copy_", "Assign", {"ref": 0, "value": 1}),
)
# Operators of two operands, which keep their order.
_BINARY = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "RealDiv", "maximum": "Maximum", "minimum": "Minimum",
    "pow": "Pow", "eq": "Equal", "ne": "NotEqual", "gt": "Greater", "ge": "GreaterEqual", "lt": "Less",
    "le": "LessEqual", "logical_and": "LogicalAnd", "logical_or": "LogicalOr", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "fmod": "Mod", "remainder": "FloorMod", "atan2": "Atan2",
    "floor_divide": "FloorDiv",
}  # fmt: skip
# Operators whose first argument is a list.
_LISTS = {"cat": "Concat", "stack": "Pack"}


def _argument_numbers() -> dict[tuple[str, str, str], int]:
    """Return the number of the argument by target, type of the reader and name of its input."""
    binary = ((target, op_type, {"x1": 0, "x2": 1}) for target, op_type in _BINARY.items())
    return {
        (target, op_type, name): number
        for targets, types, arguments in (*_LOWERINGS, *binary)
        for target in targets.split()
        for op_type in types.split()
        for name, number in arguments.items()
    }


_ARGUMENTS = _argument_numbers()


def argument_of(node: str, reader: TextOp, index: int, lengths: Mapping[int, int]) -> Argument | None:
    """Return the argument of an FX node that an input of an operator is, as number and position in a list.

    Args:
        node: FX node and target.
        reader: the operator.
        index: which of its inputs.
        lengths: how many tensors each argument of the node has.
    """
    match = _TARGET.match(node)
    if match is None or index >= len(reader.input_descriptors):
        return None
    name = match[2].removesuffix("_") if match[2] != "copy_" else match[2]
    described = reader.input_descriptors[index].name
    if reader.op_type.startswith(_LISTS.get(name, " ")):
        return _list_element(described, reader, lengths)
    found = _ARGUMENTS.get((name, reader.op_type, described))
    return None if found is None else (found, 0)


def _list_element(described: str, reader: TextOp, lengths: Mapping[int, int]) -> Argument | None:
    """The element of the list that is argument 0, unless some elements were left out."""
    listed = _LISTED.fullmatch(described)
    inputs = sum(bool(_LISTED.fullmatch(descriptor.name)) for descriptor in reader.input_descriptors)
    return (0, int(listed[1])) if listed and inputs == lengths.get(0) else None
