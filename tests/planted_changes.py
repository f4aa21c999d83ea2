"""Small ONNX operators with one planted change, run as a device would and replayed with the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from device_runs import DeviceRun, Fused
from onnx_models import model, value, weight
from opdiff.core.dtypes import FLOAT16, DType
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.replay import Replay

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """An operator with a planted change, the kind of its cause, and a part of the sentence."""

    nodes: list[Any]
    inputs: dict[str, Array]
    kind: str
    sentence: str
    change: Callable[[Any], None] | None = None
    spoil: Callable[[Array], Array] | None = None
    weights: dict[str, Array] = field(default_factory=dict)
    dtype: DType = FLOAT16
    opset: int = 17


def attribute(name: str, new: Any) -> Callable[[Any], None]:
    """A change of an attribute of the first node."""

    def change(part: Any) -> None:
        kept = [item for item in part.graph.node[0].attribute if item.name != name]
        del part.graph.node[0].attribute[:]
        part.graph.node[0].attribute.extend([*kept, onnx.helper.make_attribute(name, new)])

    return change


def identity(position: int) -> Callable[[Any], None]:
    """A change: a node that passes its first input on."""

    def change(part: Any) -> None:
        item = part.graph.node[position]
        item.op_type = "Identity"
        del item.input[1:], item.attribute[:]

    return change


def zero_weight(name: str) -> Callable[[Any], None]:
    """A change: a weight of zeros."""

    def change(part: Any) -> None:
        for item in part.graph.initializer:
            if item.name == name:
                item.CopyFrom(weight(name, np.zeros(tuple(item.dims), np.float32)))

    return change


def without_residual(part: Any) -> None:
    """A change: the addition behind the first node passes its first operand on."""
    part.graph.node[1].op_type = "Identity"
    del part.graph.node[1].input[1:]


def replay_case(folder: Path, case: Case) -> Replay:
    inputs = [value(name, array.shape) for name, array in case.inputs.items()]
    made = model(case.nodes, inputs, weights=[weight(*item) for item in case.weights.items()], opset=case.opset)
    names = tuple(item.name for item in case.nodes)
    operator = Fused("op", case.nodes[0].op_type, names, case.change, case.spoil)
    run = DeviceRun(folder, made, case.inputs, (operator,), dtype=case.dtype).write()
    (found,) = replay(ReplayOptions(str(run.npu), str(run.rules), str(run.model)), lambda _done, _total: None)
    return found
