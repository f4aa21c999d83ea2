"""A small classifier with a residual block, and its runs on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from device_runs import DeviceRun, Fused
from onnx_models import golden, model, node, value, weight
from planted_changes import left_out

if TYPE_CHECKING:
    from pathlib import Path

_FUSED = (
    Fused("c1b1r1", "Conv2D", ("c1", "b1", "r1")),
    Fused("p1", "Pooling", ("p1",)),
    Fused("c2a1r2", "Conv2D", ("c2", "a1", "r2")),
    Fused("gap", "GlobalAveragePool", ("gap",)),
    Fused("fc", "FullyConnection", ("fc",)),
    Fused("sm", "SoftmaxV2", ("sm",)),
)
OPERATORS = {operator.name: operator for operator in _FUSED}


def network() -> Any:
    """A residual block, a removed Flatten, a matrix product and a softmax."""
    random = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return random.normal(size=shape).astype(np.float32)

    weights = {
        "w1": normal(20, 3, 3, 3), "gamma": 1 + 0.3 * normal(20), "beta": normal(20), "mean": normal(20),
        "variance": 4 + normal(20) ** 2, "w2": normal(20, 20, 3, 3) / 10, "k2": normal(20), "wf": normal(20, 10) / 4,
        "bf": normal(10),
    }  # fmt: skip
    nodes = [
        node("Conv", "x w1", "t1", "c1", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "t1 gamma beta mean variance", "t2", "b1", epsilon=1e-3),
        node("Relu", "t2", "t3", "r1"),
        node("MaxPool", "t3", "t4", "p1", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "t4 w2 k2", "t5", "c2", pads=[1, 1, 1, 1]),
        node("Add", "t5 t4", "t6", "a1"),
        node("Relu", "t6", "t7", "r2"),
        node("GlobalAveragePool", "t7", "t8", "gap"),
        node("Flatten", "t8", "t9", "flat"),
        node("Gemm", "t9 wf bf", "t10", "fc"),
        node("Softmax", "t10", "t11", "sm"),
    ]
    return model(nodes, [value("x", [1, 3, 16, 16])], weights=[weight(*item) for item in weights.items()])


def image() -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.random.default_rng(2).normal(size=(1, 3, 16, 16)).astype(np.float32)}


def changed(name: str, **fields: Any) -> Fused:
    """An operator of the network with some fields changed."""
    return replace(OPERATORS[name], **fields)


def device_run(folder: Path, *others: Fused, **options: Any) -> DeviceRun:
    """The network with some operators replaced by others of the same name."""
    operators = OPERATORS | {operator.name: operator for operator in others}
    return DeviceRun(folder, network(), image(), tuple(operators.values()), **options).write()


def run_without_residual(folder: Path) -> DeviceRun:
    """The network without its residual sum, with golden data in `golden`."""
    made = device_run(folder, changed("c2a1r2", change=left_out(1)))
    golden(made.model, folder / "golden", inputs=image())
    return made
