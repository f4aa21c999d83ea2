"""Remedies as files and commands for compilers and quantizers.

Files name operators of the original model, because ATC and AMCT are given the original model. ATC refuses a list with a
name that the model does not have, and AMCT a list with a layer that it cannot quantize. See docs/remedies.md.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from opdiff.core.comparison import Mode
from opdiff.core.judgement import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.comparison import Comparison, GraphNode
    from opdiff.core.graph import ModelOrigin
    from opdiff.core.judgement import Finding

FUSION_SWITCH, KEEP_DTYPE, SKIP_LAYERS = "fusion_switch.cfg", "keep_dtype.cfg", "amct_skip_layers.cfg"
FUSION_OFF_FILE = "fusion_switch_all_off.cfg"
FUSION_OFF_SWITCHES = json.dumps({"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}, indent=4)
"""Contents of the file for `atc --fusion_switch_file` that disables all passes that can be disabled."""

_MODEL = "fusion_off"
# Options of the next conversion that the command line of the last one does not decide.
_OWN_OPTIONS = ("--output", "--fusion_switch_file", "--mode", "--om", "--json")
_UNKNOWN_OPTIONS = ("--model=MODEL", "--framework=FRAMEWORK", "--soc_version=SOC_VERSION")
_FLOAT32_KINDS = frozenset({ErrorKind.OVERFLOW, ErrorKind.PRECISION})
# Kinds of findings that are no fault of an operator.
_NOT_AT_FAULT = frozenset({ErrorKind.INPUT, ErrorKind.PAIRING})
_AMCT_HEAD = """\
# Simplified configuration of AMCT: layers that it does not quantize.
#   amct_caffe calibration ... --calibration_config=amct_skip_layers.cfg    (likewise amct_onnx, amct_tensorflow)
#   create_quant_config(..., config_defination="amct_skip_layers.cfg")      (Python)
# --calibration_config excludes --batch_num: the number of batches is set here.
# batch_num : 1
"""
_AMCT_ENDS = "# The documents advise not to quantize the first and the last layer, if the accuracy is still low:\n"
# Names of operators that AMCT inserts for a layer: `conv1_quant_layer`, `conv1.dequant`, `conv1/AscendQuant`.
_INSERTED = re.compile(
    r"(.+?)(?:_(?:anti_|de)?quant_layer|\.(?:weight_|anti_|de)?quant(?:\..+)?|/(?:Ascend|Anti)(?:Weight|Anti)?(?:De)?[Qq]uant.*)"
)
# Names that TensorFlow and exporters of ONNX give to such layers: the type, and a number.
_NAMED_BY_TYPE = re.compile(r"(?:.*[/.])?(?:\w*Conv\w*?|depthwise|MatMul|Gemm|AveragePool|AvgPool)(?:_[0-9]+)?")
# Types of compiled operators whose layers AMCT quantizes; of `Pooling` only the average, which the type does not tell.
_QUANTIZABLE_TYPES = frozenset({
    "Conv2D", "Conv3D", "DepthwiseConv2D", "Conv2DTranspose", "Conv2DTransposeD", "Deconvolution", "MatMul", "MatMulV2",
    "MatMulV3", "BatchMatMul", "BatchMatMulV2", "FullyConnection", "Gemm", "AvgPool", "AvgPoolV2",
})  # fmt: skip


def files_of(comparison: Comparison) -> dict[str, str]:
    """Return the contents of the files that the findings call for, by name."""
    return {name: content for name, content in _files(comparison) if content}


def _files(comparison: Comparison) -> Iterator[tuple[str, str]]:
    findings = [finding for finding in comparison.judgement.findings if finding.kind not in _NOT_AT_FAULT]
    nodes = {node.name: node for graph in comparison.graphs for node in graph.nodes}
    yield FUSION_SWITCH, _switch_text(findings)
    # Without rules, inputs do not fit together if the models were fused differently.
    is_fused_differently = comparison.judgement.misfit is not None and not comparison.extra_inputs.fusion_rules
    if is_fused_differently or any(_may_be_fused(finding, nodes) for finding in findings):
        yield FUSION_OFF_FILE, FUSION_OFF_SWITCHES + "\n"
    if comparison.mode is Mode.OFFLINE:  # ATC and AMCT have no part in graph mode
        yield KEEP_DTYPE, "".join(f"{name}\n" for name in _names_to_keep(findings, nodes))
        layers = _layers_to_skip(findings, nodes) or comparison.judgement.costly_layers
        yield SKIP_LAYERS, _amct_text(layers, end_layers(nodes.values()))


def _switch_text(findings: Sequence[Finding]) -> str:
    """Return the passes that created the operators at fault, switched off; empty for none."""
    graph = dict.fromkeys((name for finding in findings for name in finding.passes), "off")
    buffer = dict.fromkeys((name for finding in findings for name in finding.buffer_passes), "off")
    switches = {kind: passes for kind, passes in (("GraphFusion", graph), ("UBFusion", buffer)) if passes}
    return json.dumps({"Switch": switches}, indent=4) + "\n" if switches else ""


def _may_be_fused(finding: Finding, nodes: Mapping[str, GraphNode]) -> bool:
    """Return whether an operator is fused, or nothing is known about its originals."""
    node = nodes.get(finding.operator)
    if node is None or node.is_guess or finding.kind is ErrorKind.FUSION:
        return True
    return len(set(node.originals)) > 1 or bool(finding.passes or finding.buffer_passes)


def _names_to_keep(findings: Sequence[Finding], nodes: Mapping[str, GraphNode]) -> tuple[str, ...]:
    """Return the originals of operators that need more precision; a line holds one name."""
    found = (nodes.get(finding.operator) for finding in findings if finding.kind in _FLOAT32_KINDS)
    names = dict.fromkeys(name for node in found if node is not None for name in node.originals)
    return tuple(name for name in names if name.isprintable() and name.strip())


def _layers_to_skip(findings: Sequence[Finding], nodes: Mapping[str, GraphNode]) -> tuple[str, ...]:
    """Return the quantized layers at fault, and the layers before them that were not compared."""
    quantized = (finding for finding in findings if finding.kind is ErrorKind.QUANTIZATION)
    found = (nodes.get(name) for finding in quantized for name in (*finding.before, finding.operator))
    layers = dict.fromkeys(quantized_layer(node) for node in found if node is not None)
    return tuple(filter(None, layers))


def _amct_text(layers: Sequence[str], ends: Sequence[str]) -> str:
    if not layers:
        return ""
    others = [name for name in ends if name not in layers]
    text = _AMCT_HEAD + "".join(f"skip_layers : {_quoted(name)}\n" for name in layers)
    return text + _AMCT_ENDS + "".join(f"# skip_layers : {_quoted(name)}\n" for name in others) if others else text


def _quoted(name: str) -> str:
    """Return a string of the text format of protobuf, with the escapes of C."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else _octal(char) for char in escaped) + '"'


def _octal(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode(errors="replace"))


# Layers of the original model that quantization changed


def quantized_layer(node: GraphNode) -> str:
    """Return the quantized layer that an operator was compiled from; empty if none is known."""
    inserted = (match[1] for name in (*node.originals, node.name) if (match := _INSERTED.fullmatch(name)))
    layer = next(inserted, "")
    if layer or node.op_type not in _QUANTIZABLE_TYPES:
        return layer
    # Layers of other frameworks have free names; there the operator that others were fused into comes first.
    by_type = (name for name in node.originals if _NAMED_BY_TYPE.fullmatch(name))
    return next(by_type, node.originals[0] if node.originals else "")


def end_layers(nodes: Iterable[GraphNode]) -> tuple[str, ...]:
    """Return the first and the last layer in the order of execution that can be quantized."""
    layers = [layer for node in nodes if (layer := quantized_layer(node))]
    return tuple(dict.fromkeys((*layers[:1], *layers[-1:])))


# The next conversion, with fusion off


def fusion_off_commands(origin: ModelOrigin) -> tuple[str, str]:
    """Return the commands that compile a model with fusion off and write its rules; unknown values in capitals."""
    options = _kept_options(origin.command_line) or _UNKNOWN_OPTIONS
    own = (f"--output={_MODEL}", f"--fusion_switch_file={FUSION_OFF_FILE}")
    names = (f"--om={_MODEL}.om", f"--json={_MODEL}.json")
    return shlex.join(["atc", *options, *own]), shlex.join(["atc", "--mode=1", *names])


def _kept_options(command_line: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command line of ATC as `--name=value`, without the options about output and fusion."""
    kept: list[str] = []
    for argument in command_line:
        if argument.startswith("--"):
            kept.append(argument)
        elif kept and "=" not in kept[-1]:
            kept[-1] += f"={argument}"
    return tuple(option for option in kept if option.partition("=")[0] not in _OWN_OPTIONS)
