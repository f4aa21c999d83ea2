"""Operators of Caffe nets, replayed by their translation to ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from caffe_nets import inputs, layer, random_array, write_net
from dump_files import TIME, add, dump, tensor
from onnx_models import files_of, golden
from opdiff.core.dtypes import FLOAT16
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from rule_files import described, described_output, write_rules

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.replay import Replay

NET = (
    inputs(data=(1, 3, 8, 8))
    + layer("conv", "Convolution", "data", "conv", "convolution_param { num_output: 8 kernel_size: 3 }")
    + layer("bn", "BatchNorm", "conv", "conv")
    + layer("scale", "Scale", "conv", "conv", "scale_param { bias_term: true }")
    + layer("relu", "ReLU", "conv", "conv")
    + layer("pool", "Pooling", "conv", "pool", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }")
)
FUSED = {"convbnscalerelu": ("Conv2D", ("conv", "bn", "scale", "relu")), "pool": ("Pooling", ("pool",))}


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A net, its rules and its dump."""
    one = np.ones(1, np.float32)
    weights = {
        "conv": [random_array(8, 3, 3, 3, seed=1), random_array(8, seed=2)],
        "bn": [random_array(8, seed=3), 2 + random_array(8, seed=4) ** 2, one],
        "scale": [1 + 0.2 * random_array(8, seed=5), random_array(8, seed=6)],
    }
    prototxt, caffemodel = write_net(tmp_path, NET, weights)
    data = random_array(1, 3, 8, 8, seed=7).astype(np.float16).astype(np.float32)
    golden(prototxt, tmp_path / "g", weights=str(caffemodel), inputs={"data": data})
    arrays = files_of(tmp_path / "g")
    operators = [described("data", "Data", originals=["data"])]
    source = "data"
    for name, (op_type, originals) in FUSED.items():
        result = arrays[f"{originals[-1]}.0"]
        read = tensor(arrays[f"{FUSED[source][1][-1] if source in FUSED else source}.0"], FLOAT16, "NC1HWC0")
        content = dump(tensor(result, FLOAT16, "NC1HWC0"), inputs=(read,))
        add(tmp_path / "npu", f"{op_type}.{name}.1.0.{TIME}", content)
        outputs = [described_output(originals[-1], result.shape)]
        operators.append(described(name, op_type, [f"{source}:0"], originals, outputs=outputs))
        source = name
    write_rules(tmp_path / "rules.json", operators)
    return tmp_path


def verdicts(case: Path) -> tuple[Replay, ...]:
    npu, rules, prototxt, caffemodel = (
        str(case / name) for name in ("npu", "rules.json", "net.prototxt", "net.caffemodel")
    )
    return tuple(replay(ReplayOptions(npu, rules, prototxt, caffemodel), lambda _done, _total: None))


def test_layers_of_a_fused_operator_are_computed_together(case: Path) -> None:
    fused, pooling = verdicts(case)
    assert (fused.verdict, pooling.verdict) == ("innocent", "innocent")
    assert fused.originals == ("conv", "bn", "scale", "relu")


def test_a_wrong_layer_is_guilty(case: Path) -> None:
    add(case / "npu", f"Pooling.pool.1.0.{TIME}", dump(tensor(np.ones((1, 8, 3, 3)), FLOAT16, "NC1HWC0")))
    assert [item.verdict for item in verdicts(case)] == ["innocent", "guilty"]
