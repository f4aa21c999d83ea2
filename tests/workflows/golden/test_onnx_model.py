"""Model files that are damaged, hostile or not what they should be; names of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data

from onnx_models import golden, graph, model, node, run_model, weight, write
from opdiff.core import wire
from opdiff.core.errors import InputError
from opdiff.workflows.golden.onnx_model import name_operators, parse_onnx, read_onnx

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def add_model() -> Any:
    return model([node("Add", "x w", "y", "add")], weights=[weight("w", X)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a model file: it is empty"),
        (b"IMOD" + bytes(300), "not an ONNX model"),
        (b'{"graph": []}', "not an ONNX model"),
        (b"\x08\x0a", "not an ONNX model: it has no version or no operators"),
    ],
    ids=["empty", "offline model", "JSON", "no graph"],
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_onnx(str(tmp_path / "m.onnx"))


def test_every_prefix_of_a_model_is_refused_or_has_no_more_than_the_model() -> None:
    data = add_model().SerializeToString()
    for length in range(len(data)):
        try:
            found = parse_onnx("m.onnx", data[:length])
        except InputError:
            continue
        assert len(found.graph.nodes) <= 1


def test_a_truncated_model_is_an_error_without_a_directory(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", add_model())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"m\.onnx: (ONNX Runtime|not an ONNX model)"):
        golden(path, tmp_path / "g", inputs={"x": X})
    assert not (tmp_path / "g").exists()


def test_graphs_may_not_be_nested_without_end() -> None:
    inner = b""
    for _ in range(40):
        attribute = wire.text(1, "body") + wire.block(6, inner)
        inner = wire.block(1, wire.text(4, "Loop") + wire.block(5, attribute))
    with pytest.raises(InputError, match="nested deeper than 32 levels"):
        parse_onnx("m.onnx", wire.number(1, 8) + wire.block(7, inner))


# Weights in other files


def external_model(location: str) -> Any:
    made = add_model()
    tensor = made.graph.initializer[0]
    set_external_data(tensor, location)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    return made


def test_weights_may_be_in_a_file_of_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(X.tobytes())
    _, found = run_model(tmp_path, external_model("data/w.bin"), inputs={"x": X})
    np.testing.assert_array_equal(found["add.0"], 2 * X)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("../secret.bin", "names weights outside of its folder: ../secret.bin"),
        ("link.bin", "names weights outside of its folder: link.bin"),
        ("{folder}/secret.bin", "names weights outside of its folder"),
        ("missing.bin", "its weights are in missing.bin, which is missing"),
    ],
)
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path, location: str, message: str) -> None:
    (tmp_path / "secret.bin").write_bytes(X.tobytes())
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    made = external_model(location.format(folder=tmp_path))
    with pytest.raises(InputError, match=message):
        golden(write(folder / "m.onnx", made), tmp_path / "g", inputs={"x": X})


# Operators that ONNX Runtime does not have


def test_all_unknown_operators_are_listed_before_anything_runs(tmp_path: Path) -> None:
    nodes = [
        node("Magic", "x", "a", domain="my.ops"), node("Magic", "a", "b", domain="my.ops"),
        node("Other", "b", "c"), node("Neg", "c", "y"),
    ]  # fmt: skip
    made = model(nodes, opsets=[helper.make_opsetid("my.ops", 1)])
    with pytest.raises(InputError, match=r"does not know: Other \(1\), my.ops.Magic \(2\); --library FILE.so may"):
        run_model(tmp_path, made, inputs={"x": X})


def test_functions_of_the_model_are_known(tmp_path: Path) -> None:
    opset = helper.make_opsetid("", 17)
    twice = helper.make_function("my.ops", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [opset])
    made = model(
        [node("Twice", "x", "y", "f", domain="my.ops")], opsets=[helper.make_opsetid("my.ops", 1)], functions=[twice]
    )
    _, found = run_model(tmp_path, made, inputs={"x": X})
    np.testing.assert_array_equal(found["f.0"], 2 * X)


def test_deployed_models_of_amct_are_recognized(tmp_path: Path) -> None:
    made = model([node("AscendQuant", "x", "a", "fc.quant"), node("Neg", "a", "y")])
    with pytest.raises(InputError, match="it is the deployed model of AMCT: give the fake-quantized model"):
        run_model(tmp_path, made, inputs={"x": X})


# Names of operators as ATC gives them


def test_only_nameless_operators_are_counted_main_graph_first_then_breadth_first() -> None:
    deepest = graph([node("Exp", "", "e"), node("Log", "", "l")], (), ())
    then = graph([node("Neg", "", "n"), node("If", "", "i", then_branch=deepest), node("Abs", "", "a", "abs")], (), ())
    otherwise, body = graph([node("Tanh", "", "t")], (), ()), graph([node("Add", "", "a")], (), ())
    nodes = [
        node("Conv", "x", "c", "conv"), node("Relu", "c", "r"),
        node("If", "r", "i", "if", else_branch=otherwise, then_branch=then), node("Loop", "i", "y", body=body),
    ]  # fmt: skip
    found = name_operators(parse_onnx("m.onnx", model(nodes).SerializeToString()).graph)
    assert [named.names for named in found.values()] == [
        ("conv", "Relu_0", "if", "Loop_1"),
        ("if_1_else_branch/Tanh_2",),
        ("if_0_then_branch/Neg_3", "if_0_then_branch/If_4", "if_0_then_branch/abs"),
        ("Loop_1_0_body/Add_5",),
        ("if_0_then_branch/If_4_0_then_branch/Exp_6", "if_0_then_branch/If_4_0_then_branch/Log_7"),
    ]
