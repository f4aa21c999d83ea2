"""Operators on quantized values, and originals of a quantized model traced to the original model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.dtypes import Kind
from opdiff.core.graph import DEQUANTIZING_TYPES, QUANTIZING_TYPES, OutputDesc, parse_input
from opdiff.pair.groups import group_key, index_groups

if TYPE_CHECKING:
    from opdiff.core.dtypes import DType
    from opdiff.core.graph import RuleOp
    from opdiff.pair.groups import GroupedModel, OpKey

_QUANT_NAME = r"_quant_layer|/AscendQuant|/AscendWeightQuant|\.quant|\.weight_quant"
_DEQUANT_NAME = r"_dequant_layer|_anti_quant_layer|/AscendDequant|/AntiQuant|\.dequant|\.anti_quant"
# Types of layers of Caffe, too.
_QUANTIZING_TYPES, _DEQUANTIZING_TYPES = QUANTIZING_TYPES | {"Quant"}, DEQUANTIZING_TYPES | {"DeQuant"}
# Output types of dequantizing operators; which one depends on the precision that the model was compiled for.
_DEQUANT_DTYPES = frozenset({"DT_FLOAT", "DT_FLOAT16", "DT_BF16"})
_MAX_QUANTIZED_BITS = 8


def find_quantized(model: GroupedModel) -> frozenset[OpKey]:
    """Return the operators, by graph and name, on quantized values, which the original model does not have."""
    outputs: set[tuple[str, str, int]] = set()  # that hold quantized values
    found = set()
    for operator in sorted(model.by_graph.values(), key=lambda operator: operator.sequence):
        reads = any(_feeding_output(model, operator, entry) in outputs for entry in operator.inputs)
        written = [
            (operator.graph_name, operator.name, index)
            for index, output in enumerate(operator.outputs)
            if _is_quantized(operator, output.dtype, reads_quantized=reads)
        ]
        outputs.update(written)
        if reads and written:
            found.add(operator.key)
    return frozenset(found)


def _feeding_output(model: GroupedModel, operator: RuleOp, entry: str) -> tuple[str, str, int] | None:
    """Return graph, operator and number of the output that feeds an input, which is written as `producer:output`."""
    source = parse_input(entry)
    producer = model.find(source[0], operator.graph_name) if source else None
    return (producer.graph_name, producer.name, source[1]) if source and producer else None


def _is_quantized(operator: RuleOp, dtype: str, *, reads_quantized: bool) -> bool:
    """Return whether an output holds quantized values; between quantizing and dequantizing operators all do."""
    if dtype == "DT_INT8" and (operator.op_type in QUANTIZING_TYPES or _is_named(operator, _QUANT_NAME)):
        return True
    if dtype in _DEQUANT_DTYPES and (operator.op_type in DEQUANTIZING_TYPES or _is_named(operator, _DEQUANT_NAME)):
        return False
    return reads_quantized


def is_quantized_type(dtype: DType) -> bool:
    """Return whether quantized values have such a type: integers of at most 8 bits."""
    return dtype.kind is Kind.INTEGER and dtype.bits <= _MAX_QUANTIZED_BITS


def is_quantizing(operator: RuleOp) -> bool:
    """Return whether an operator of a compiled or of a quantized model quantizes, by its type or its names."""
    return operator.op_type in _QUANTIZING_TYPES or _is_named(operator, _QUANT_NAME)


def is_dequantizing(operator: RuleOp) -> bool:
    """Return whether an operator of a compiled or of a quantized model dequantizes, by its type or its names."""
    return operator.op_type in _DEQUANTIZING_TYPES or _is_named(operator, _DEQUANT_NAME)


def _is_named(operator: RuleOp, pattern: str) -> bool:
    """Return whether the operator's name or its originals match a pattern."""
    names = (operator.name, "".join(operator.originals))
    return any("uant" in name and re.search(pattern, name) for name in names)


def merge_quantization(model: GroupedModel, quant: GroupedModel) -> GroupedModel:
    """Return the compiled model with its originals traced through the quantized model to the original one.

    The rule file of the compiled model names operators of the quantized model as originals; the quantization file has
    the originals of those. Operators that it does not contain keep their names.
    """
    peers = {member.name: group.operators for group in quant.groups for member in group.operators}
    grouped: dict[str, list[RuleOp]] = {}
    for operator in model.by_graph.values():
        merged = _merge(operator, peers)
        grouped.setdefault(group_key(merged), []).append(merged)
    return index_groups(grouped.values())


def _merge(operator: RuleOp, peers: dict[str, tuple[RuleOp, ...]]) -> RuleOp:
    originals = dict.fromkeys(
        original for name in operator.originals for peer in peers.get(name, ()) for original in peer.originals
    )
    return replace(
        operator,
        originals=tuple(originals) or operator.originals,
        outputs=tuple(_merge_output(output, peers) for output in operator.outputs),
        l1_subgraph="",
    )


def _merge_output(output: OutputDesc, peers: dict[str, tuple[RuleOp, ...]]) -> OutputDesc:
    quantized = next((peer for peer in peers.get(output.origin_name, ()) if peer.name == output.origin_name), None)
    if quantized is None:
        return output
    number = output.position if output.origin_index is None else output.origin_index
    taken = quantized.output(number) or OutputDesc(output.position)
    return OutputDesc(
        position=output.position,
        dtype=output.dtype,
        origin_name=taken.origin_name,
        origin_index=output.origin_index if taken.origin_index is None else taken.origin_index,
        layout=output.layout or taken.layout,
        shape=output.shape if output.layout else taken.shape,
    )
