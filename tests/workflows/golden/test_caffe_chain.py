"""Golden data of the staged sample from its Caffe files: against NumPy, and paired by both kinds of rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import opdiff
from caffe_nets import Array, Net, quant
from onnx_models import files_of, golden
from opdiff.core.tensor import file_safe_name
from opdiff.sample.quantized_network import IMAGE, build_chain
from opdiff.sample.stages import write_stage_sample

if TYPE_CHECKING:
    from opdiff.sample.stages import StageSample

MODELS = {
    "original": ("net.prototxt", "net.caffemodel"),
    "fake_quant": ("net_fake_quant_model.prototxt", "net_fake_quant_weights.caffemodel"),
}


def make_golden(sample: StageSample, folder: Path, stage: str) -> str:
    model, weights = (Path(sample.caffe) / name for name in MODELS[stage])
    image = Path(sample.caffe) / "data.npy"
    result = golden(model, folder / stage, weights=str(weights), inputs={IMAGE: image})
    assert result.omitted == ()
    return result.folder


def stored(found: dict[str, Array], name: str) -> Array:
    return found[f"{file_safe_name(name)}.0"]


def test_every_layer_is_what_numpy_makes_of_its_inputs(tmp_path: Path) -> None:
    """Quant and DeQuant exactly; sums to 1e-6 of the largest value."""
    make_golden(write_stage_sample(str(tmp_path / "sample")), tmp_path, "fake_quant")
    found = files_of(tmp_path / "fake_quant")
    forms = build_chain()
    assert found.keys() == {"data.0", *(f"{file_safe_name(op.name)}.0" for op in forms.quantized)}
    for op, rule in zip(forms.quantized, forms.quant_rules, strict=True):
        inputs = [stored(found, port.op) for port in op.inputs]
        if rule.layer.type == "Quant":
            scale = re.search(r"scale: (\S+)", rule.layer.parameters)
            assert scale
            expected, bound = quant(inputs[0], float(scale[1]), 0), 0.0
        else:
            expected = op.kernel(*(array.astype(np.float64) for array in inputs))
            bound = 0.0 if rule.layer.type == "DeQuant" else 1e-6 * float(np.abs(expected).max())
        np.testing.assert_allclose(stored(found, op.name), expected, rtol=0, atol=bound, err_msg=op.name)


@pytest.mark.parametrize(("fault", "step"), [("quantization", 0), ("conversion", 1), ("fusion", 2)])
def test_the_chain_from_the_files_alone(tmp_path: Path, fault: str, step: int) -> None:
    """-qfr pairs the fake-quantized model with the original, -fr the offline model with the fake-quantized one."""
    sample = write_stage_sample(str(tmp_path / "sample"), [fault])
    folders = [*(make_golden(sample, tmp_path, stage) for stage in MODELS), sample.fusion_off, sample.fusion_on]
    chain = opdiff.stages(
        folders,
        quant_rules=sample.quant_rules,
        fusion_off_rules=sample.fusion_off_rules,
        rules=sample.fusion_on_rules,
    )
    assert chain.verdict.culprit == step
    coverages = [found.comparison.judgement.coverage for found in chain.steps if found.comparison]
    # What is between Quant and DeQuant has no counterpart.
    assert [(coverage.compared, coverage.operators) for coverage in coverages] == [(20, 30), (21, 26), (13, 18)]


def test_protobuf_reads_the_weights(tmp_path: Path) -> None:
    sample = write_stage_sample(str(tmp_path))
    with open(f"{sample.caffe}/net_fake_quant_weights.caffemodel", "rb") as file:
        net = Net.FromString(file.read())
    blobs = {layer.name: layer.blobs for layer in net.layer}
    for layer in (op.layer for op in build_chain().quant_rules):
        assert [tuple(blob.shape.dim) for blob in blobs[layer.name]] == [array.shape for array in layer.blobs]
        for blob, array in zip(blobs[layer.name], layer.blobs, strict=True):
            np.testing.assert_array_equal(np.array(blob.data, np.float32), array.reshape(-1).astype(np.float32))
