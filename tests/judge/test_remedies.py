"""Files that apply remedies: the names and forms that ATC and AMCT take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from made_reports import FAULT, with_judgement
from opdiff.core.comparison import GraphNode, Mode, ModelGraph
from opdiff.core.judgement import ErrorKind
from opdiff.judge.remedies import end_layers, files_of, quantized_layer
from opdiff.read.rules import read_rules
from opdiff.sample import write_sample
from proto_messages import message_class

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison

# The simplified configuration of AMCT, as far as it is used.
AMCT_CONFIG = message_class("amct", {"AMCTConfig": ("1 batch_num uint32", "10 skip_layers string*")}, "AMCTConfig")
ALL_OFF = {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}


def found(*nodes: GraphNode, mode: Mode = Mode.OFFLINE, **finding: Any) -> Comparison:
    """Return a comparison whose last operator is at fault."""
    fault = replace(FAULT, operator=nodes[-1].name, passes=nodes[-1].passes, buffer_passes=nodes[-1].buffer_passes)
    plain = with_judgement()
    judgement = replace(plain.judgement, findings=(replace(fault, **finding),))
    return replace(plain, graphs=(ModelGraph(nodes),), judgement=judgement, mode=mode)


def skipped_layers(text: str) -> list[str]:
    """Return the layers that AMCT reads, by Google's parser."""
    config = AMCT_CONFIG()
    text_format.Parse(text, config)
    return list(config.skip_layers)


FUSED = GraphNode("conv1conv1_relu", "Conv2D", (), ("conv1", "bn1", "conv1_relu"), ("ConvPass",), ("TbePass",))
WITHOUT_PASSES = replace(FUSED, passes=(), buffer_passes=())
INSERTED = GraphNode("trans_TransData_4", "TransData")
RENAMED = GraphNode("PartitionedCall_Conv_52_Conv2D_12", "Conv2D", (), ("Conv_52",))
GUESSED = GraphNode("conv1conv1_relu", "Conv2D", is_guess=True)


def test_a_fused_operator_with_its_passes() -> None:
    files = files_of(found(FUSED))
    assert set(files) == {"fusion_switch.cfg", "fusion_switch_all_off.cfg"}
    assert json.loads(files["fusion_switch.cfg"]) == {
        "Switch": {"GraphFusion": {"ConvPass": "off"}, "UBFusion": {"TbePass": "off"}}
    }
    assert json.loads(files["fusion_switch_all_off.cfg"]) == ALL_OFF


@pytest.mark.parametrize(
    ("node", "kind", "names"),
    [
        (WITHOUT_PASSES, ErrorKind.SCALE, {"fusion_switch_all_off.cfg"}),
        (GUESSED, ErrorKind.SCALE, {"fusion_switch_all_off.cfg"}),
        (RENAMED, ErrorKind.SCALE, set()),
        (RENAMED, ErrorKind.FUSION, {"fusion_switch_all_off.cfg"}),
        (INSERTED, ErrorKind.SCALE, set()),
        (INSERTED, ErrorKind.OVERFLOW, set()),
        (FUSED, ErrorKind.INPUT, set()),
        (FUSED, ErrorKind.PAIRING, set()),
    ],
    ids=["no pass names", "no rules", "one original", "fusion", "inserted", "inserted, overflow", "input", "pairing"],
)
def test_files_that_are_written(node: GraphNode, kind: ErrorKind, names: set[str]) -> None:
    assert set(files_of(found(node, kind=kind))) == names


@pytest.mark.parametrize("kind", [ErrorKind.OVERFLOW, ErrorKind.PRECISION])
@pytest.mark.parametrize(
    ("node", "expected"),
    [(WITHOUT_PASSES, "conv1\nbn1\nconv1_relu\n"), (RENAMED, "Conv_52\n"), (GUESSED, None), (INSERTED, None)],
    ids=["fused", "renamed", "no rules", "inserted"],
)
def test_operators_that_keep_their_type(node: GraphNode, kind: ErrorKind, expected: str | None) -> None:
    """ATC takes every line for a name, comments included, and refuses names that the original model does not have."""
    assert files_of(found(node, kind=kind)).get("keep_dtype.cfg") == expected


def test_originals_are_listed_once() -> None:
    node = GraphNode("t", "Transpose", (), ("Transpose_0", "Transpose_0"))
    assert files_of(found(node, kind=ErrorKind.OVERFLOW)) == {"keep_dtype.cfg": "Transpose_0\n"}


@pytest.mark.parametrize(
    ("originals", "op_type", "layer"),
    [
        (("conv1", "conv1_relu"), "Conv2D", "conv1"),
        (("conv1_dequant_layer", "conv1", "conv1_relu"), "AscendDequant", "conv1"),
        (("conv1_quant_layer",), "AscendQuant", "conv1"),
        (("block/conv1_anti_quant_layer",), "AscendAntiQuant", "block/conv1"),
        (("layer1.0.conv1.quant",), "AscendQuant", "layer1.0.conv1"),
        (("layer1.0.conv1.dequant",), "AscendDequant", "layer1.0.conv1"),
        (("fc.weight_quant",), "AscendWeightQuant", "fc"),
        (("net/conv/AscendQuant",), "AscendQuant", "net/conv"),
        (("net/conv/AscendDequant_1",), "AscendDequant", "net/conv"),
        (("net/conv1/BiasAdd", "net/conv1/Conv2D", "net/conv1/Relu"), "Conv2D", "net/conv1/Conv2D"),
        (("Constant_345", "Add_346", "MatMul_344", "LeakyRelu_347"), "BatchMatMulV2", "MatMul_344"),
        (("net/sep/BiasAdd", "net/sep/depthwise"), "DepthwiseConv2D", "net/sep/depthwise"),
        (("relu",), "Relu", ""),
        (("quantity",), "Mul", ""),
        ((), "TransData", ""),
    ],
)
def test_the_quantized_layer_of_an_operator(originals: tuple[str, ...], op_type: str, layer: str) -> None:
    assert quantized_layer(GraphNode("compiled", op_type, (), originals)) == layer


def test_layers_that_are_not_quantized() -> None:
    nodes = (
        GraphNode("first", "Conv2D", (), ("first",)),
        GraphNode("qconv2", "AscendQuant", (), ("conv2_quant_layer",)),
        INSERTED,
        GraphNode("last", "MatMulV2", (), ("fc",)),
        GraphNode("conv2conv2_relu", "Conv2D", (), ("conv2", "conv2_relu")),
    )
    given = found(*nodes, kind=ErrorKind.QUANTIZATION, before=("qconv2", "trans_TransData_4"))
    text = files_of(given)["amct_skip_layers.cfg"]
    assert skipped_layers(text) == ["conv2"]
    assert text.startswith("# Simplified configuration of AMCT")
    assert "--calibration_config=amct_skip_layers.cfg" in text.splitlines()[1]
    assert text.splitlines()[-1] == '# skip_layers : "first"'


@given(st.text(min_size=1))
def test_every_name_is_read_as_it_is(name: str) -> None:
    node = GraphNode("compiled", "Conv2D", (), (name,))
    text = files_of(found(node, kind=ErrorKind.QUANTIZATION)).get("amct_skip_layers.cfg", "")
    assert skipped_layers(text) == [quantized_layer(node)]


def test_graph_mode_has_fusion_switches_only() -> None:
    for kind in (ErrorKind.OVERFLOW, ErrorKind.QUANTIZATION):
        files = files_of(found(FUSED, mode=Mode.GRAPH, kind=kind))
        assert set(files) == {"fusion_switch.cfg", "fusion_switch_all_off.cfg"}


def test_names_of_compiled_operators_are_never_written(tmp_path: Path) -> None:
    """All operators of the sample's rules: fused ones, casts and conversions that the compiler inserted."""
    rules = read_rules(write_sample(str(tmp_path / "s")).rules)
    originals = {name for operator in rules.operators() for name in operator.originals if name}
    compiled = {operator.name for operator in rules.operators()} - originals
    assert any("TransData" in name for name in compiled)
    for operator in rules.operators():
        node = GraphNode(operator.name, operator.op_type, (), tuple(filter(None, operator.originals)))
        for kind in (ErrorKind.OVERFLOW, ErrorKind.QUANTIZATION):
            files = files_of(found(node, kind=kind))
            assert set(files.get("keep_dtype.cfg", "").splitlines()) <= originals
            assert set(skipped_layers(files.get("amct_skip_layers.cfg", ""))) <= originals


def test_ends_are_the_first_and_the_last_layer() -> None:
    nodes = [GraphNode(name, op_type, (), (name,)) for name, op_type in (("d", "Data"), ("a", "Conv2D"), ("r", "Relu"))]
    assert end_layers(nodes) == ("a",)
    assert end_layers([*nodes, GraphNode("f", "FullyConnection", (), ("fc",)), INSERTED]) == ("a", "fc")
