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
# For FX operators: type of the reader, name of its input -> number of the argument.
_MATMULS = ("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_ROLES: dict[str, dict[tuple[str, str], int]] = {}
_LISTS = {"cat": "Concat", "stack": "Pack"}


def _define(targets: str, types: tuple[str, ...] | str, **arguments: int) -> None:
    for target in targets.split():
        roles = _ROLES.setdefault(target, {})
        for op_type in (types,) if isinstance(types, str) else types:
            roles |= {(op_type, name): index for name, index in arguments.items()}


_define("mm bmm matmul", _MATMULS, x1=0, x2=1)
_define("addmm baddbmm", _MATMULS, x1=1, x2=2, bias=0)
_define("addmm", ("Add", "AxpyV2"), x2=0)
_define("baddbmm", "Mul", x1=0)
_define("linear", _MATMULS, x1=0, x2=1, bias=2)
for _target, _type in {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "RealDiv", "maximum": "Maximum", "minimum": "Minimum",
    "pow": "Pow", "eq": "Equal", "ne": "NotEqual", "gt": "Greater", "ge": "GreaterEqual", "lt": "Less",
    "le": "LessEqual", "logical_and": "LogicalAnd", "logical_or": "LogicalOr", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor", "fmod": "Mod", "remainder": "FloorMod", "atan2": "Atan2",
    "floor_divide": "FloorDiv",
}.items():  # fmt: skip
    _define(_target, _type, x1=0, x2=1)
_define("add sub", "AxpyV2", x1=0, x2=1)
_define("rsub", ("Sub", "Sxpy"), x1=1, x2=0)
_define("bitwise_and", "LogicalAnd", x1=0, x2=1)
_define("bitwise_or", "LogicalOr", x1=0, x2=1)
_define("clamp", ("ClipByValue", "ClipByValueV2"), x=0, clip_value_min=1, clip_value_max=2)
_define("mse_loss", "MseLoss", predict=0, label=1)
_define("native_layer_norm", ("LayerNormV4", "LayerNormV3", "LayerNorm"), x=0, gamma=2, beta=3)
_define("native_group_norm", "GroupNorm", x=0, gamma=1, beta=2)
_define(
    "_native_batch_norm_legit_no_training native_batch_norm",
    ("BNInfer", "BNInference", "BatchNorm"),
    x=0, scale=1, offset=2, mean=3, variance=4,
)  # fmt: skip
_define("convolution", ("Conv2D", "Conv3D", "Conv2DTranspose", "Conv3DTranspose"), x=0, filter=1, bias=2)
_define("embedding", ("GatherV2", "Gather"), x=0, indices=1)
_define("index_select", ("GatherV2", "Gather"), x=0, indices=2)
_define("gather", "GatherElements", x=0, index=2)
_define("where", ("Select", "SelectV2"), condition=0, then=1, x1=1, **{"else": 2, "x2": 2})
_define("masked_fill", "MaskedFill", x=0, mask=1)
_define("scatter", "ScatterElements", data=0, indices=2, updates=3)
_define("scatter_add", "ScatterElements", data=0, indices=2, updates=3)
_define("select_scatter", "ScatterElements", data=0)
_define("index_add", "InplaceIndexAdd", var=0, indices=2, updates=3)
_define("searchsorted", "SearchSorted", sorted_sequence=0, values=1)
_define("addcmul", "Addcmul", input_data=0, x1=1, x2=2)
_define("addcdiv", "Addcdiv", input_data=0, x1=1, x2=2)
_define("lerp", "Lerp", start=0, end=1, weight=2)
_define("copy_", "Assign", ref=0, value=1)


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
    found = _ROLES.get(name, {}).get((reader.op_type, described))
    return None if found is None else (found, 0)


def _list_element(described: str, reader: TextOp, lengths: Mapping[int, int]) -> Argument | None:
    """The element of the list that is argument 0, unless some elements were left out."""
    listed = _LISTED.fullmatch(described)
    inputs = sum(bool(_LISTED.fullmatch(descriptor.name)) for descriptor in reader.input_descriptors)
    return (0, int(listed[1])) if listed and inputs == lengths.get(0) else None
