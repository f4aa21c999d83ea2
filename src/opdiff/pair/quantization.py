"""Quantization: operators between quantizing and dequantizing, and rules of a quantized model carried back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opdiff.core.graph import OutputDesc, parse_input
from opdiff.pair.fusion import fusion_name, network_of

if TYPE_CHECKING:
    from opdiff.core.graph import RuleOp
    from opdiff.pair.fusion import Network, OpKey

_QUANT = r"_quant_layer|/AscendQuant|/AscendWeightQuant|\.quant|\.weight_quant"
_DEQUANT = r"_dequant_layer|_anti_quant_layer|/AscendDequant|/AntiQuant|\.dequant|\.anti_quant"
# What dequantizing yields; which of them depends on the precision that the model was compiled for.
_REAL = frozenset({"DT_FLOAT", "DT_FLOAT16", "DT_BF16"})
_QUANTIZED, _DEQUANTIZED, _MIDDLE, _NORMAL = "quantized", "dequantized", "middle", "normal"


def find_quantized(network: Network) -> frozenset[OpKey]:
    """The operators, by graph and name, that work on quantized numbers: the original model has nothing comparable."""
    states: dict[tuple[str, str, int], str] = {}
    found = set()
    for operator in sorted(network.by_graph.values(), key=lambda operator: operator.sequence):
        in_pair = any(_state_of(network, states, operator, entry) in (_QUANTIZED, _MIDDLE) for entry in operator.inputs)
        own = [_output_state(operator, output.dtype, in_pair=in_pair) for output in operator.outputs]
        for number, state in enumerate(own):
            states[operator.graph_name, operator.name, number] = state
        if in_pair and any(state != _DEQUANTIZED for state in own):
            found.add(operator.key)
    return frozenset(found)


def _state_of(network: Network, states: dict[tuple[str, str, int], str], operator: RuleOp, entry: str) -> str | None:
    source = parse_input(entry)
    producer = network.find(source[0], operator.graph_name) if source else None
    if source is None or producer is None:
        return None
    return states.get((producer.graph_name, producer.name, source[1]))


def _output_state(operator: RuleOp, dtype: str, *, in_pair: bool) -> str:
    if dtype == "DT_INT8" and _is_named(operator, _QUANT):
        return _QUANTIZED
    if dtype in _REAL and _is_named(operator, _DEQUANT):
        return _DEQUANTIZED
    return _MIDDLE if in_pair else _NORMAL


def _is_named(operator: RuleOp, pattern: str) -> bool:
    """Whether the operator's name or its originals fit a pattern."""
    texts = (operator.name, "".join(operator.originals))
    return any("uant" in text and re.search(pattern, text) for text in texts)


def merge_quant(network: Network, quant: Network) -> Network:
    """The compiled model's operators, traced on through the quantized model to the original one.

    The rule file of the compiled model names operators of the quantized model as originals; the quantization file tells
    what those were made from. What it does not know keeps its name.
    """
    peers = {member.name: group.operators for group in quant.groups for member in group.operators}
    grouped: dict[str, list[RuleOp]] = {}
    for operator in network.by_graph.values():
        merged = _merge(operator, peers)
        grouped.setdefault(fusion_name(merged), []).append(merged)
    return network_of(grouped.values())


def _merge(operator: RuleOp, peers: dict[str, tuple[RuleOp, ...]]) -> RuleOp:
    originals = dict.fromkeys(
        original for name in operator.originals for peer in peers.get(name, ()) for original in peer.originals
    )
    return operator._replace(
        originals=tuple(originals) or operator.originals,
        outputs=tuple(_merge_output(output, peers) for output in operator.outputs),
        l1_number="",
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
