"""A model that people use, run as a device would: of all operators, only the one with a planted fault is guilty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from device_runs import DeviceRun, Fused, fuse
from downloaded_models import find_member
from opdiff.core.replay import ReplayVerdict
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (1, 3, 48, 192)


def shifted_padding(part: Any) -> None:
    """A change: the window of a depthwise convolution is one row too low."""
    pads = next(item for item in part.graph.node[0].attribute if item.name == "pads")
    pads.ints[0], pads.ints[2] = pads.ints[0] - 1, pads.ints[2] + 1


def test_only_the_operator_with_a_planted_fault_is_guilty(tmp_path: Path) -> None:
    made = onnx.load(str(find_member("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx")))
    inputs = {"x": np.random.default_rng(0).random(SHAPE, np.float32)}
    operators = fuse(made, inputs)
    position = next(number for number, operator in enumerate(operators) if _is_padded(made, operator) and number > 50)
    faulty = operators[position]
    operators[position] = Fused(faulty.name, faulty.op_type, faulty.originals, change=shifted_padding)
    run = DeviceRun(tmp_path, made, inputs, operators).write()
    options = ReplayOptions(str(run.npu), str(run.rules), str(run.model), shapes={"x": SHAPE})
    found = list(replay(options, lambda _done, _total: None))
    assert len(found) == len(operators) > 200
    assert {item.operator: item.verdict for item in found if item.verdict is not ReplayVerdict.INNOCENT} == {
        faulty.name: ReplayVerdict.GUILTY
    }


def _is_padded(made: Any, operator: Fused) -> bool:
    node = next(item for item in made.graph.node if item.name == operator.originals[0])
    pads = [item.ints for item in node.attribute if item.name == "pads"]
    return operator.op_type == "Conv" and bool(pads) and all(pads[0])
