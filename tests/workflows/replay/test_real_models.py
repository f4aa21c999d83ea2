"""Models that people use, run as a device would, with many planted faults: exactly these are guilty, with causes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from device_runs import DeviceRun, fuse
from downloaded_models import find_member
from opdiff.core.replay import ReplayVerdict
from planted_changes import (
    as_nhwc,
    attribute,
    exchanged,
    foreign_channel,
    left_out,
    reversed_image,
    rough,
    set_weight,
    swapped_channels,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from device_runs import Fused
    from onnx_models import Array
    from opdiff.core.replay import Replay, ReplayCause
    from planted_changes import Change, Spoil

    Chosen = Callable[[Any], bool]


def any_node(_node: Any) -> bool:
    return True


def is_padded(item: Any) -> bool:
    pads = [attribute.ints for attribute in item.attribute if attribute.name == "pads"]
    return bool(pads) and all(pads[0])


@dataclass(frozen=True)
class Fault:
    """A fault of one operator.

    Attributes:
        types: pattern of the types of the nodes that it is compiled from.
        number: number of the operator among those of these types that `chosen` accepts.
        kind: kind of its cause.
        sentence: a part of the sentence about it.
        change: a fault of the computation.
        spoil: a fault of the result.
        chosen: accepts the first node.
    """

    types: str
    number: int
    kind: str
    sentence: str
    change: Change | None = None
    spoil: Spoil | None = None
    chosen: Chosen = any_node


def moved_window(part: Any) -> None:
    """A change: the window of a convolution is one row too low."""
    pads = next(item for item in part.graph.node[0].attribute if item.name == "pads")
    pads.ints[0], pads.ints[2] = pads.ints[0] - 1, pads.ints[2] + 1


def no_bias(part: Any) -> None:
    """A change: the bias of a convolution, which has the offset of a normalization, is zero."""
    set_weight(part.graph.node[0].input[2], np.zeros_like)(part)


def three_elements(array: Array) -> Array:
    changed = array.copy()
    changed.reshape(-1)[[70, 700, 7000]] = 30.0
    return changed


def has_two_tensors(made: Any) -> Chosen:
    """Accept sums of two results of convolutions or sums: residual connections."""
    constants = {item.name for item in made.graph.initializer}
    constants |= {item.output[0] for item in made.graph.node if item.op_type == "Constant"}
    return lambda item: not constants & set(item.input) and len(set(item.input)) == 2


@dataclass(frozen=True)
class Network:
    """A network with its input and faults."""

    package: str
    file: str
    name: str
    shape: tuple[int, ...]
    faults: tuple[Fault, ...]

    def inputs(self, seed: int = 0) -> dict[str, Array]:
        if self.name == "bytes":
            text = "".join(f"def function_{number}(x):\n    return x * {number * seed}\n" for number in range(99))
            return {self.name: np.frombuffer(text.encode()[: self.shape[1]], np.uint8).astype(np.int32)[None]}
        return {self.name: np.random.default_rng(seed).random(self.shape, np.float32)}


RAPIDOCR = "rapidocr-onnxruntime"
NETWORKS = {
    "text detection": Network(RAPIDOCR, "ch_PP-OCRv4_det_infer.onnx", "x", (1, 3, 64, 64), (
        Fault("Conv*", 0, "input", "the channels of x are in reverse order", reversed_image),
        Fault("Conv*", 4, "padding", "is computed with pads=", moved_window, chosen=is_padded),
        Fault("Add", 0, "operand", "is left out: the operand", left_out(0)),
        Fault("GlobalAveragePool", 1, "scale", "the result is multiplied by 0.49", spoil=lambda array: array / 2),
        Fault("Resize", 2, "function", "is computed with mode=linear", attribute("mode", "linear")),
        Fault("Concat", 0, "operand", "are exchanged", exchanged),
        Fault("ConvTranspose", 0, "permuted", "indices 0, 1 of axis 1", spoil=swapped_channels(0, 1)),
        Fault("BatchNormalization", 0, "permuted", "in the order NHWC", spoil=as_nhwc),
        Fault("Sigmoid", 0, "activation", "is not applied", left_out(0)),
    )),
    "text direction": Network(RAPIDOCR, "ch_ppocr_mobile_v2.0_cls_infer.onnx", "x", (1, 3, 48, 96), (
        Fault("Conv BatchNormalization Relu", 1, "activation", "(Relu) is not applied", left_out(-1)),
        Fault("Conv BatchNormalization", 2, "bias", "the bias of", no_bias),
        Fault("Conv BatchNormalization", 6, "channel", "only 1 of", spoil=foreign_channel(3)),
        Fault("HardSigmoid", 4, "activation", "alpha=0.166667", attribute("alpha", 1 / 6)),
        Fault("Clip", 9, "clipping", "values end at 0 and 4", spoil=lambda array: np.clip(array, 0, 4)),
        Fault("Conv BatchNormalization Relu", 5, "memory", "at the step before"),
        Fault("MaxPool", 0, "permuted", "axis 3 is reversed", spoil=lambda array: array[..., ::-1]),
        Fault("Softmax", 0, "fusion", "(Softmax) is left out", left_out(0)),
    )),
    "text recognition": Network(RAPIDOCR, "ch_PP-OCRv4_rec_infer.onnx", "x", (1, 3, 48, 64), (
        Fault("ReduceMean", 1, "offset", "the result is shifted by", spoil=lambda array: array + 0.01),
        Fault("Sub", 0, "operand", "are exchanged", exchanged),
        Fault("Transpose", 3, "fusion", "(Transpose) is left out", left_out(0)),
        Fault("Softmax", 0, "axis", "is computed with axis=2", attribute("axis", 2)),
        Fault("Sigmoid", 2, "function", "is approximated in another way", spoil=rough(0.03)),
        Fault("Concat", 0, "operand", "are exchanged", exchanged),
        Fault("MatMul", -1, "outliers", "only 3 of 53000 elements are wrong", spoil=three_elements),
    )),
    "kinds of files": Network("magika", "model.onnx", "bytes", (1, 2048), (
        Fault("MatMul", 0, "scale", "the result is multiplied by 1.49", spoil=lambda array: 1.5 * array),
        Fault("Tanh", 0, "activation", "is not applied", left_out(0)),
        Fault("Sub", 1, "operand", "are exchanged", exchanged),
        Fault("Conv", 0, "permuted", "indices 0, 1 of axis 1", spoil=swapped_channels(0, 1)),
        Fault("Tanh", 1, "function", "is approximated", spoil=rough(0.03)),
        Fault("ReduceSum", 1, "scale", "the result is multiplied", spoil=lambda array: array * 1.02),
    )),
}  # fmt: skip


def plant(made: Any, operators: list[Fused], faults: tuple[Fault, ...], stale: Mapping[str, Array]) -> dict[str, Fault]:
    """Put faults into operators; return them by the names of these."""
    nodes = {item.name: item for item in made.graph.node}
    planted = {}
    for fault in faults:
        chosen = has_two_tensors(made) if fault.types == "Add" else fault.chosen
        fitting = [
            number
            for number, operator in enumerate(operators)
            if fnmatchcase(" ".join(nodes[name].op_type for name in operator.originals), fault.types)
            and chosen(nodes[operator.originals[0]])
        ]
        number = fitting[fault.number]
        operator = operators[number]
        spoil = fault.spoil
        if fault.kind == "memory":
            old = stale[nodes[operator.originals[-1]].output[0]]
            spoil = lambda _array, old=old: old  # noqa: E731  bound to this operator
        operators[number] = replace(operator, change=fault.change, spoil=spoil)
        planted[operator.name] = fault
    assert len(planted) == len(faults)
    return planted


def replay_network(folder: Path, network: Network, faults: tuple[Fault, ...]) -> tuple[dict[str, Fault], list[Replay]]:
    """Run a network with faults behind a right run on other data, and replay it."""
    made = onnx.load(str(find_member(network.package, network.file)))
    earlier: Mapping[str, Array] = {}
    (folder / "earlier").mkdir()
    if any(fault.kind == "memory" for fault in faults):
        inputs = network.inputs(seed=1)
        run = DeviceRun(folder / "earlier", made, inputs, fuse(made, inputs)).write()
        run.npu.rename(folder / "0")
        earlier = run.tensors
    inputs = network.inputs()
    operators = fuse(made, inputs)
    planted = plant(made, operators, faults, earlier)
    run = DeviceRun(folder, made, inputs, operators).write()
    shapes = {name: array.shape for name, array in inputs.items()}
    return planted, run.replay(run.npu.rename(folder / "1"), shapes=shapes)


@pytest.mark.parametrize("name", NETWORKS)
def test_exactly_the_planted_faults_are_proved_with_their_causes(tmp_path: Path, name: str) -> None:
    network = NETWORKS[name]
    planted, found = replay_network(tmp_path, network, network.faults)
    guilty = {item.operator: item for item in found if item.verdict is not ReplayVerdict.INNOCENT}
    assert guilty.keys() == planted.keys(), {name: str(item.reason) for name, item in guilty.items()}
    causes = {fault: guilty[operator].cause for operator, fault in planted.items()}
    named = {fault: cause is not None and fault.sentence in str(cause.reason) for fault, cause in causes.items()}
    wrong = [
        (fault.types, fault.kind, fault.sentence, cause.kind.value if cause else "", str(cause.reason) if cause else "")
        for fault, cause in causes.items()
        if cause is None or cause.kind != fault.kind or not named[fault] or _is_no_better(cause)
    ]
    assert not wrong


def _is_no_better(cause: ReplayCause) -> bool:
    """Whether a cause leaves much of the error; causes by the level of noise have no error that remains."""
    return cause.evidence != cause.reason and cause.after > 0.3 * cause.before
