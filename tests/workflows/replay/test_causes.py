"""Causes of guilty operators: each planted change is named, and a change that is none is never proved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from device_runs import DeviceRun, Fused
from onnx_models import model, node, value
from opdiff.core.dtypes import FLOAT32
from opdiff.core.reasons import Language, render
from opdiff.core.replay import ReplayVerdict
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from planted_changes import Array, Case, attribute, identity, normal, replay_case, zero_weight

if TYPE_CHECKING:
    from pathlib import Path


def exchange(part: Any) -> None:
    """A change: the operands of the first node exchanged."""
    operands = list(part.graph.node[0].input)
    del part.graph.node[0].input[:]
    part.graph.node[0].input.extend(operands[::-1])


def rounded_inputs(part: Any) -> None:
    """A change: all inputs rounded to float16."""
    first = part.graph.node[0]
    nodes = list(part.graph.node)
    for position, source in enumerate(list(first.input)):
        narrow, wide = f"narrow{position}", f"wide{position}"
        nodes[:0] = [node("Cast", source, narrow, to=10), node("Cast", narrow, wide, to=1)]
        first.input[position] = wide
    changed = [onnx.NodeProto.FromString(item.SerializeToString()) for item in nodes]
    del part.graph.node[:]
    part.graph.node.extend(changed)


def reversed_image(part: Any) -> None:
    """A change: the channels of the input in reverse order."""
    first = part.graph.node[0]
    order = onnx.helper.make_node("Constant", [], ["order"], value_ints=[2, 1, 0])
    gather = node("Gather", f"{first.input[0]} order", "reversed", axis=1)
    first.input[0] = "reversed"
    nodes = [order, gather, *part.graph.node]
    del part.graph.node[:]
    part.graph.node.extend(nodes)


def swap_channels(array: Array) -> Array:
    return array[:, [0, 2, 1, *range(3, array.shape[1])]]


def spoil_channel(array: Array) -> Array:
    changed = array.copy()
    changed[:, 5] = normal(*changed[:, 5].shape, seed=9)
    return changed


def rough(array: Array) -> Array:
    """A sigmoid with an error that depends on its value."""
    changed: Array = array + 0.05 * np.sin(9 * array)
    return changed


def rough_softmax(array: Array) -> Array:
    """A softmax whose exponentials have an error that depends on the operand."""
    operand = np.log(array / array.max(-1, keepdims=True))
    powers = np.exp(operand) * (1 + 0.05 * np.sin(4 * operand))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result.astype(np.float32)


def pad_with_edges(part: Any) -> None:
    """A change: the image of the first node, a convolution, padded with its edges."""
    first = part.graph.node[0]
    pads = onnx.helper.make_node("Constant", [], ["pads"], value_ints=[0, 0, 1, 1, 0, 0, 1, 1])
    pad = node("Pad", f"{first.input[0]} pads", "padded", mode="edge")
    first.input[0] = "padded"
    attribute("pads", [0, 0, 0, 0])(part)
    nodes = [pads, pad, *part.graph.node]
    del part.graph.node[:]
    part.graph.node.extend(nodes)


def spoil_two_elements(array: Array) -> Array:
    changed = array.copy()
    changed[0, [3, 9]] = 5.0
    return changed


IMAGE = {"x": normal(1, 8, 10, 12)}
SILU = [node("Sigmoid", "x", "s", "sigmoid"), node("Mul", "x s", "z", "mul")]
DEAD_CHANNELS = {"w": normal(16, 8, 3, 3) / 5, "b": np.where(np.arange(16) % 4 == 3, -99, normal(16)).astype("f")}
PAIR = {"x": normal(6, 16), "y": normal(6, 16, seed=1)}
CONV = [node("Conv", "x w b", "a", "conv", pads=[1, 1, 1, 1]), node("Relu", "a", "r", "relu")]
CONV_WEIGHTS = {"w": normal(16, 8, 3, 3) / 5, "b": normal(16)}
NORM = [
    node("Conv", "x w", "a", "conv"),
    node("BatchNormalization", "a g b m v", "n", "bn"),
    node("Relu", "n", "r", "relu"),
]
NORM_WEIGHTS = {
    "w": normal(16, 8, 3, 3) / 5, "g": 1 + normal(16) / 9, "b": normal(16, seed=1), "m": normal(16, seed=2),
    "v": np.abs(normal(16, seed=3)) / 100,
}  # fmt: skip
POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}

CASES = {
    "activation": Case(
        CONV, IMAGE, "activation", "the activation relu (Relu) is not applied", identity(1), weights=CONV_WEIGHTS
    ),
    "bias": Case(CONV, IMAGE, "bias", "the bias of conv (Conv) is missing", zero_weight("b"), weights=CONV_WEIGHTS),
    "folded bias": Case(
        NORM,
        IMAGE,
        "bias",
        "the bias of bn (BatchNormalization) is missing",
        zero_weight("folded_bn_b"),
        weights=NORM_WEIGHTS,
    ),
    "padding": Case(
        CONV,
        IMAGE,
        "padding",
        "conv (Conv) is computed with pads=[2, 2, 0, 0]",
        attribute("pads", [2, 2, 0, 0]),
        weights=CONV_WEIGHTS,
    ),
    "image channels": Case(
        [node("Conv", "x w", "a", "conv")],
        {"x": normal(1, 3, 9, 9)},
        "input",
        "the channels of x are in reverse order",
        reversed_image,
        weights={"w": normal(8, 3, 3, 3)},
    ),
    "operands of a difference": Case(
        [node("Sub", "x y", "z", "sub")], PAIR, "operand", "the operands of sub (Sub) are exchanged", exchange
    ),
    "missing operand": Case(
        [node("Add", "x y", "z", "add")],
        PAIR,
        "operand",
        "add (Add) is left out: the operand y is missing",
        identity(0),
    ),
    "matrices": Case(
        [node("MatMul", "x y", "z", "mm")],
        {"x": normal(8, 8), "y": normal(8, 8, seed=1)},
        "operand",
        "the operands of mm (MatMul) are exchanged",
        exchange,
    ),
    "transposed": Case(
        [node("Gemm", "x w", "z", "fc")],
        {"x": normal(5, 8)},
        "axis",
        "a matrix of fc (Gemm) is transposed",
        attribute("transB", 1),
        weights={"w": normal(8, 8)},
    ),
    "concatenation": Case(
        [node("Concat", "x y", "z", "cat", axis=1)],
        PAIR,
        "operand",
        "the operands of cat (Concat) are exchanged",
        exchange,
    ),
    "softmax axis": Case(
        [node("Softmax", "x", "z", "sm", axis=-1)],
        PAIR,
        "axis",
        "sm (Softmax) is computed with axis=0",
        attribute("axis", 0),
    ),
    "epsilon": Case(
        [node("LayerNormalization", "x g b", "z", "ln", epsilon=1e-5)],
        {"x": normal(6, 16) / 50},
        "function",
        "ln (LayerNormalization) is computed with epsilon=0.001",
        attribute("epsilon", 1e-3),
        weights={"g": normal(16), "b": normal(16, seed=1)},
    ),
    "counted padding": Case(
        [node("AveragePool", "x", "z", "pool", **POOL)],
        IMAGE,
        "padding",
        "pool (AveragePool) is computed with count_include_pad=1",
        attribute("count_include_pad", 1),
    ),
    "resize": Case(
        [node("Resize", "x - s", "z", "up", mode="linear")],
        IMAGE,
        "function",
        "coordinate_transformation_mode=align_corners",
        attribute("coordinate_transformation_mode", "align_corners"),
        weights={"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    "transpose": Case(
        [node("Transpose", "x", "z", "tr", perm=[0, 1, 3, 2])],
        {"x": normal(1, 6, 6, 6)},
        "axis",
        "tr (Transpose) is computed with perm=[0, 3, 2, 1]",
        attribute("perm", [0, 3, 2, 1]),
    ),
    "rounded input": Case(
        [node("MatMul", "x y", "z", "mm")],
        {"x": normal(8, 32), "y": normal(32, 9, seed=1)},
        "precision",
        "inputs are rounded to float16 first",
        rounded_inputs,
        dtype=FLOAT32,
    ),
    "channel order": Case(
        CONV,
        IMAGE,
        "permuted",
        "the result is right, but indices 1, 2 of axis 1 are in another order",
        spoil=swap_channels,
        weights=CONV_WEIGHTS,
    ),
    "one channel": Case(
        CONV, IMAGE, "channel", "along axis 1, only 1 of 16 slices wrong: 5", spoil=spoil_channel, weights=CONV_WEIGHTS
    ),
    "layout": Case(
        CONV,
        IMAGE,
        "permuted",
        "the result is right, but in the order NHWC",
        spoil=lambda array: array.transpose(0, 2, 3, 1).reshape(array.shape),
        weights=CONV_WEIGHTS,
    ),
    "scale": Case(
        CONV, IMAGE, "scale", "the result is multiplied by 1.03", spoil=lambda array: array * 1.03, weights=CONV_WEIGHTS
    ),
    "channel offsets": Case(
        [node("Conv", "x w b", "a", "conv")],
        IMAGE,
        "bias",
        "every index of axis 1 is shifted by a number of its own",
        spoil=lambda array: array + normal(1, 16, 1, 1, seed=4),
        weights=CONV_WEIGHTS,
    ),
    "clipping": Case(
        [node("Neg", "x", "z", "neg")], IMAGE, "clipping", "values end at", spoil=lambda array: np.clip(array, -1, 1)
    ),
    "constant": Case(
        CONV, IMAGE, "memory", "all elements of the output are 0", spoil=np.zeros_like, weights=CONV_WEIGHTS
    ),
    "overflow": Case(
        [node("Neg", "x", "z", "neg")],
        IMAGE,
        "overflow",
        "1 element overflowed",
        spoil=lambda array: np.where(array == array.max(), np.nan, array),
    ),
    "function": Case(
        [node("Sigmoid", "x", "z", "act")], IMAGE, "function", "Sigmoid is approximated in another way", spoil=rough
    ),
    "rough softmax": Case(
        [node("Softmax", "x", "z", "softmax")],
        {"x": 2 * normal(32, 32)},
        "function",
        "Softmax is approximated",
        spoil=rough_softmax,
    ),
    "activation of several nodes": Case(
        SILU,
        IMAGE,
        "activation",
        "the activation mul (Mul) is not applied",
        change=lambda part: [identity(0)(part), identity(1)(part)][0],
    ),
    "function of several nodes": Case(
        SILU,
        IMAGE,
        "function",
        "Sigmoid is approximated in another way",
        spoil=lambda array: array + 0.02 * np.cos(array),
    ),
    "padded with edges": Case(CONV, IMAGE, "padding", "padding=edge", change=pad_with_edges, weights=CONV_WEIGHTS),
    "swapped channels beside equal ones": Case(
        CONV, IMAGE, "permuted", "indices 1, 2 of axis 1", spoil=swap_channels, weights=DEAD_CHANNELS
    ),
    "a channel swapped with a dead one": Case(
        CONV,
        IMAGE,
        "permuted",
        "indices 1, 7 of axis 1",
        spoil=lambda array: array[:, [0, 7, *range(2, 7), 1, *range(8, 16)]],
        weights=DEAD_CHANNELS,
    ),
    "two elements of a row": Case(
        [node("Neg", "x", "z", "neg")], {"x": normal(1, 64)}, "outliers", "2 of 64 elements", spoil=spoil_two_elements
    ),
    "digits": Case(
        [node("MatMul", "x y", "z", "mm")],
        {"x": normal(16, 32), "y": normal(32, 16, seed=1)},
        "precision",
        "computed with fewer digits",
        spoil=lambda array: array * (1 + 0.01 * normal(*array.shape, seed=6)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_planted_change_is_the_cause(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    found = replay_case(tmp_path, case)
    assert found.verdict is ReplayVerdict.GUILTY
    assert found.cause is not None
    assert (found.cause.kind.value, case.sentence in str(found.cause.reason)) == (case.kind, True), found.cause
    assert found.cause.after <= found.cause.before
    assert render(found.cause.reason, Language.CHINESE) != str(found.cause.reason)


def test_an_output_that_nothing_explains_has_no_cause(tmp_path: Path) -> None:
    found = replay_case(
        tmp_path, Case(CONV, IMAGE, "", "", spoil=lambda array: normal(*array.shape, seed=8), weights=CONV_WEIGHTS)
    )
    assert (found.verdict, found.cause) == (ReplayVerdict.GUILTY, None)


def test_a_later_operator_with_the_same_data_is_no_cause(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "a", "first"), node("Relu", "a", "b", "second")]
    shuffled = Fused("first", "Neg", ("first",), spoil=lambda array: np.abs(array).ravel()[::-1].reshape(array.shape))
    operators = (shuffled, Fused("second", "Relu", ("second",)))
    run = DeviceRun(tmp_path, model(nodes, [value("x", [4, 8])]), {"x": -np.abs(normal(4, 8))}, operators).write()
    found, _ = replay(ReplayOptions(str(run.npu), str(run.rules), str(run.model)), lambda _done, _total: None)
    assert found.cause is not None
    assert (found.cause.kind, str(found.cause.reason)) == ("permuted", "the values are right, but in another order")


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_results_of_infinite_inputs_prove_nothing(tmp_path: Path, bad: float) -> None:
    case = Case([node("Sub", "x x", "z", "sub")], {"x": np.where(normal(4, 8) > 1, np.float32(bad), 1)}, "", "")
    found = replay_case(tmp_path, replace(case, spoil=np.zeros_like))
    assert str(found.reason) == "an input has infinities or NaN, and the results differ, as they may"


def test_the_data_of_another_operator_is_named(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "a", "first"), node("Abs", "a", "b", "second"), node("Exp", "b", "c", "third")]
    made = model(nodes, [value("x", [4, 8])])
    stale = Fused("third", "Exp", ("third",), spoil=lambda _array: -normal(4, 8))
    operators = (Fused("first", "Neg", ("first",)), Fused("second", "Abs", ("second",)), stale)
    run = DeviceRun(tmp_path, made, {"x": normal(4, 8)}, operators).write()
    *_, found = replay(ReplayOptions(str(run.npu), str(run.rules), str(run.model)), lambda _done, _total: None)
    assert found.cause is not None
    assert (found.cause.kind, str(found.cause.reason)) == ("memory", "the output holds the data of first:output:0")
