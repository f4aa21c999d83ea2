"""Golden files of small ONNX models: names, numbers, types, and operators without a file."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_models import files_of, golden, graph, model, node, plain_run, run_model, value, weight, write

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5


def convnet() -> Any:
    random = np.random.default_rng(0)
    weights = [
        weight("w", random.normal(size=(4, 3, 3, 3)).astype(np.float32)),
        weight("b", random.normal(size=4).astype(np.float32)),
    ]
    nodes = [
        node("Conv", "x w b", "c", "conv1", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r", "block/relu.1"),
        node("MaxPool", "r", "p i", "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Identity", "i", "j"),
        node("Shape", "p", "s"),
        node("Split", "p", "o q", "split", axis=1),
    ]
    return model(nodes, [value("x", ["N", 3, "H", None])], weights=weights, opset=13)


def reasons_of(result: Any) -> Counter[str]:
    return Counter(item.reason.code for item in result.omitted)


def test_files_equal_a_plain_run(tmp_path: Path) -> None:
    data = np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32)
    made = convnet()
    result, found = run_model(tmp_path, made, inputs={"x": data})
    tensors = plain_run(made, {"x": data})
    expected = {
        "x.0": data, "conv1.0": tensors["c"], "block_relu_1.0": tensors["r"], "pool.0": tensors["p"],
        "pool.1": tensors["i"], "Identity_0.0": tensors["j"], "Shape_1.0": tensors["s"], "split.0": tensors["o"],
        "split.1": tensors["q"],
    }  # fmt: skip
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name], strict=True)
    assert (result.files, result.nbytes) == (9, sum(array.nbytes for array in expected.values()))
    (timestamp,) = {path.name.split(".")[-2] for path in (tmp_path / "g").glob("*.npy")}
    assert re.fullmatch(r"\d{16}", timestamp)


def test_absent_outputs_keep_their_number(tmp_path: Path) -> None:
    weights = [weight(name, np.ones((1, 8, 3 if name == "w" else 2), np.float32)) for name in "wr"]
    nodes = [node("LSTM", "x w r", "- h", "lstm", hidden_size=2), node("Neg", "h", "y", "last")]
    made = model(nodes, [value("x", (2, 1, 3))], weights=weights)
    _, found = run_model(tmp_path, made, inputs={"x": X.reshape(2, 1, 3)})
    assert found.keys() == {"x.0", "lstm.1", "last.0"}


def test_weights_that_are_listed_as_inputs_need_no_data(tmp_path: Path) -> None:
    made = model([node("Add", "x w", "y", "add")], [value("x"), value("w", (3,))], weights=[weight("w", X[0])])
    _, found = run_model(tmp_path, made, inputs={"": X})
    np.testing.assert_array_equal(found["add.0"], X + X[0])


# Names


def test_characters_of_names_are_kept_but_separators(tmp_path: Path) -> None:
    names = ["Add@0", "F0::anon", "a/b.c d\\e", "卷积"]
    nodes = [
        node("Neg", "x" if not number else f"t{number - 1}", f"t{number}", name) for number, name in enumerate(names)
    ]
    _, found = run_model(tmp_path, model(nodes), inputs={"": X})
    assert found.keys() == {"x.0", "Add@0.0", "F0::anon.0", "a_b_c_d_e.0", "卷积.0"}


def test_the_first_of_two_operators_with_one_file_name_is_written(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "a", "n.1"), node("Abs", "x", "b", "n/1"), node("Add", "a b", "y", "x")]
    result, found = run_model(tmp_path, model(nodes), inputs={"": X})
    np.testing.assert_array_equal(found["n_1.0"], -X)
    np.testing.assert_array_equal(found["x.0"], X)
    assert [(item.name, item.reason.fact("owner")) for item in result.omitted] == [("n/1", "n.1"), ("x", "x")]


def test_long_names_are_digits_with_a_line_in_the_mapping(tmp_path: Path) -> None:
    long, with_comma = "m/" * 130, f"{'n' * 250},1"
    nodes = [node("Neg", "x", "a", long), node("Abs", "a", "y", with_comma)]
    result, _ = run_model(tmp_path, model(nodes), inputs={"": X})
    (line,) = (tmp_path / "g" / "mapping.csv").read_text().splitlines()
    short, real = line.split(",")
    assert re.fullmatch(r"\d+\.npy", short)
    assert real.startswith("m_" * 130 + ".0.")
    np.testing.assert_array_equal(np.load(tmp_path / "g" / short), -X)
    assert [(item.name, item.reason.code) for item in result.omitted] == [(with_comma, "golden.name_too_long")]


# Types and shapes


@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        (TensorProto.FLOAT16, np.float16), (TensorProto.BFLOAT16, np.float32), (TensorProto.DOUBLE, np.float64),
        (TensorProto.FLOAT8E4M3FN, np.float32), (TensorProto.FLOAT8E5M2, np.float32), (TensorProto.INT4, np.int8),
        (TensorProto.UINT16, np.uint16), (TensorProto.BOOL, np.bool_), (TensorProto.INT64, np.int64),
    ],
    ids=lambda item: TensorProto.DataType.Name(item) if isinstance(item, int) else np.dtype(item).name,
)  # fmt: skip
def test_every_type_of_numbers_is_written(tmp_path: Path, element: int, dtype: type) -> None:
    data = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    made = model([node("Cast", "x", "c", "cast", to=element), node("Cast", "c", "y", "back", to=1)], opset=21)
    _, found = run_model(tmp_path, made, inputs={"": data})
    assert found["cast.0"].dtype == dtype
    np.testing.assert_array_equal(found["cast.0"].astype(np.float32), data if dtype is not np.bool_ else data != 0)


def test_strings_and_sequences_are_reported(tmp_path: Path) -> None:
    nodes = [
        node("Cast", "x", "t", "text", to=TensorProto.STRING),
        node("SplitToSequence", "x", "s", "parts"),
        node("SequenceLength", "s", "y", "length"),
    ]
    result, found = run_model(tmp_path, model(nodes), inputs={"": X})
    assert found.keys() == {"x.0", "length.0"}
    assert [(item.name, item.reason.fact("type")) for item in result.omitted] == [
        ("text", "tensor(string)"),
        ("parts", "seq(tensor(float))"),
    ]


def test_scalars_empty_tensors_and_shapes_that_depend_on_data(tmp_path: Path) -> None:
    nodes = [
        node("ReduceSum", "x", "s", "sum", keepdims=0),
        node("NonZero", "x", "n", "nonzero"),
        node("Greater", "x s", "b", "greater"),
        node("Compress", "x b2", "e", "empty", axis=0),
    ]
    made = model(nodes, weights=[weight("b2", np.array([False, False]))])
    _, found = run_model(tmp_path, made, inputs={"": X})
    assert {name: array.shape for name, array in found.items()} == {
        "x.0": (2, 3), "sum.0": (), "nonzero.0": (2, 6), "greater.0": (2, 3), "empty.0": (0, 3),
    }  # fmt: skip
    assert found["sum.0"] == X.sum()


def test_shapes_that_a_model_states_wrongly_do_not_matter(tmp_path: Path) -> None:
    made = model([node("Reshape", "x shape", "r", "reshape"), node("Neg", "r", "y", "neg")],
                 [value("x"), value("shape", (2,), TensorProto.INT64)], [value("y", (2, 3))])  # fmt: skip
    _, found = run_model(tmp_path, made, inputs={"x": X, "shape": np.array([3, 2])})
    np.testing.assert_array_equal(found["neg.0"], -X.reshape(3, 2))


def test_inputs_of_types_that_numpy_lacks_are_raw_bytes(tmp_path: Path) -> None:
    made = model([node("Cast", "x", "y", "cast", to=1)], [value("x", (3,), TensorProto.BFLOAT16)])
    codes = (np.array([1.5, -2, 0.25], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    (tmp_path / "x.bin").write_bytes(codes.tobytes())
    _, found = run_model(tmp_path, made, inputs={"x": tmp_path / "x.bin"})
    assert found["x.0"].tolist() == found["cast.0"].tolist() == [1.5, -2, 0.25]


# Constants, selection


def test_constants_are_written_only_on_request(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["c"], value=weight("v", X))
    path = write(tmp_path / "m.onnx", model([constant, node("Add", "x c", "y", "add")]))
    result = golden(path, tmp_path / "without", inputs={"": X})
    assert reasons_of(result) == {"golden.constant": 1}
    golden(path, tmp_path / "with", inputs={"": X}, constants=True)
    assert files_of(tmp_path / "with").keys() - files_of(tmp_path / "without").keys() == {"Constant_0.0"}


def test_only_and_until_limit_the_operators(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "a", "conv1"), node("Neg", "a", "b", "relu"), node("Neg", "b", "y", "conv2")]
    path = write(tmp_path / "m.onnx", model(nodes))
    golden(path, tmp_path / "only", inputs={"": X}, only=("conv*",))
    golden(path, tmp_path / "until", inputs={"": X}, until="relu")
    assert files_of(tmp_path / "only").keys() == {"x.0", "conv1.0", "conv2.0"}
    assert files_of(tmp_path / "until").keys() == {"x.0", "conv1.0", "relu.0"}


# Inner graphs


def conditional(name: str, condition: str, then: Any, otherwise: Any, outputs: str) -> Any:
    return node("If", condition, outputs, name, then_branch=then, else_branch=otherwise)


def branch(nodes: list[Any], output: str, weights: tuple[Any, ...] = ()) -> Any:
    return graph(nodes, [], [onnx.ValueInfoProto(name=output)], weights)


def nested_model() -> Any:
    inner = conditional(
        "inner",
        "flag",
        branch([node("Mul", "n w", "m", "mul")], "m", (weight("w", X),)),
        branch([node("Neg", "n", "m", "neg")], "m"),
        "i",
    )
    then = branch(
        [node("Abs", "x", "n", "abs"), node("Identity", "c", "flag"), inner, node("Neg", "i", "t", "last")], "t"
    )
    otherwise = branch([node("Relu", "x", "t", "relu"), node("Tanh", "t", "u")], "u")
    nodes = [node("Not", "c0", "c", "not"), conditional("outer", "c", then, otherwise, "y")]
    return model(nodes, [value("x"), value("c0", (1,), TensorProto.BOOL)])


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        (False, {"outer_0_then_branch_abs.0": np.abs(X), "outer_0_then_branch_Identity_1.0": np.array([True]),
                 "outer_0_then_branch_inner.0": np.abs(X) * X, "outer_0_then_branch_last.0": -np.abs(X) * X,
                 "outer_0_then_branch_inner_0_then_branch_mul.0": np.abs(X) * X,
                 "outer_0_then_branch_inner_0_then_branch_n.0": np.abs(X), "outer_0_then_branch_x.0": X,
                 "outer_0_then_branch_c.0": np.array([True]), "outer.0": -np.abs(X) * X}),
        (True, {"outer_1_else_branch_relu.0": np.maximum(X, 0), "outer_1_else_branch_x.0": X,
                "outer_1_else_branch_Tanh_0.0": np.tanh(np.maximum(X, 0)), "outer.0": np.tanh(np.maximum(X, 0))}),
    ],
    ids=["then", "else"],
)  # fmt: skip
def test_operators_of_the_branch_that_runs_are_written(tmp_path: Path, flag: bool, expected: dict[str, Any]) -> None:
    result, found = run_model(tmp_path, nested_model(), inputs={"x": X, "c0": np.array([flag])})
    assert found.keys() - {"x.0", "c0.0", "not.0"} == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, err_msg=name)
    assert reasons_of(result) == {"golden.branch_not_taken": 6 if flag else 3}


def test_loops_have_their_results_and_their_operators_are_reported(tmp_path: Path) -> None:
    body = graph(
        [node("Add", "v v", "w", "twice"), node("Identity", "c", "d", "keep")],
        [value("n", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v")],
        [value("d", (), TensorProto.BOOL), value("w")],
    )
    weights = [weight("count", np.array(3)), weight("go", np.array(1, bool))]
    made = model([node("Loop", "count go x", "y", "loop", body=body)], weights=weights)
    result, found = run_model(tmp_path, made, inputs={"": X})
    np.testing.assert_array_equal(found["loop.0"], 8 * X)
    assert [(item.name.rsplit("/", 1)[1], item.reason.code) for item in result.omitted] == [
        ("twice", "golden.inside_loop"),
        ("keep", "golden.inside_loop"),
    ]


# Fake-quantized models of AMCT


def test_results_of_fake_quantization_have_the_names_of_the_deployed_model(tmp_path: Path) -> None:
    steps = [
        node("Mul", "x s", "a1", "fc.quant.fakequant.mul"), node("Round", "a1", "a2", "fc.quant.fakequant.round"),
        node("Sub", "a2 s", "a3", "fc.quant.fakequant.sub"), node("MatMul", "a3 w", "a4", "fc"),
        node("Mul", "a4 s", "a5", "fc.fakedequant.mul"), node("Mul", "a5 s", "a6", "add.anti_quant.fake_antiquant.mul"),
        node("Neg", "a6", "y", "neg"),
    ]  # fmt: skip
    weights = [weight("s", np.array(2, np.float32)), weight("w", np.eye(3, dtype=np.float32))]
    made = model(steps, weights=weights)
    result, found = run_model(tmp_path, made, inputs={"": X})
    tensors = plain_run(made, {"x": X})
    for name, tensor in {"fc_quant": "a3", "fc_dequant": "a5", "fc": "a5", "add_anti_quant": "a6"}.items():
        np.testing.assert_array_equal(found[f"{name}.0"], tensors[tensor])
    assert [(item.name, item.reason.code) for item in result.omitted] == [("fc", "golden.replaced")]
    # Second names are links.
    names = ("fc", "fc_dequant", "fc_fakedequant_mul")
    assert len({path.stat().st_ino for name in names for path in (tmp_path / "g").glob(f"{name}.0.*")}) == 1
