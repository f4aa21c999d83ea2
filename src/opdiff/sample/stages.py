"""Sample of a quantized model in all stages: original, fake-quantized, compiled with fusion off and on, next version.

    original/  fake_quant/  offline_fusion_off/  offline/  offline_next/  rules/  caffe/

`caffe` has the files of the original and of the fake-quantized model, and their input.
A fault is of one step: the stages before it are sound, and all stages after it have it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.reasons import Reason, because
from opdiff.sample.caffe_files import encode_caffemodel, encode_prototxt, layer_of
from opdiff.sample.directory import encode_json, golden_files, target_files, write_files
from opdiff.sample.faults import corrupt_output, require_known, swap_height_and_width
from opdiff.sample.golden import npy_file
from opdiff.sample.graph import SampleNetwork
from opdiff.sample.quantized_network import IMAGE, build_chain
from opdiff.sample.rules import attr, origin_attrs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.sample.caffe_files import CaffeLayer
    from opdiff.sample.faults import Corruption
    from opdiff.sample.graph import DeviceOp, GoldenOp
    from opdiff.sample.quantized_network import ChainForms, QuantOp

    Json = dict[str, Any]

_ORIGINAL, _QUANTIZED, _FUSION_OFF, _FUSION_ON, _NEXT = (
    "original", "fake_quant", "offline_fusion_off", "offline", "offline_next",
)  # fmt: skip
_CAFFE = "caffe"
_QUANT_RULES, _OFF_RULES, _ON_RULES = "rules/quant.json", "rules/fusion_off.json", "rules/fusion_on.json"


@dataclass(frozen=True, slots=True)
class StageFault:
    """A fault of one step.

    Attributes:
        step: the step that causes it, which is also its name.
        operator: the original operator.
        description: effect of the fault.
    """

    step: str
    operator: str
    description: Reason


STAGE_FAULTS = {
    fault.step: fault
    for fault in (
        StageFault("quantization", "block1/conv2", because("sample.scale_too_large")),
        StageFault("conversion", "pool", because("sample.swapped_in_both")),
        StageFault("fusion", "block2/conv1", because("sample.fused_too_large")),
        StageFault("version", "tail", because("sample.next_too_large")),
    )
}
_SCALE_FACTOR = 16.0


class StageSample(NamedTuple):
    """Paths of the parts of the sample."""

    original: str
    quantized: str
    fusion_off: str
    fusion_on: str
    next_version: str
    quant_rules: str
    fusion_off_rules: str
    fusion_on_rules: str
    caffe: str


def write_stage_sample(directory: str, faults: Collection[str] = ("conversion",)) -> StageSample:
    """Write all stages and the rule files; always the same bytes.

    Raises:
        UsageError: there is no such fault.
    """
    require_known(faults, STAGE_FAULTS)
    write_files(directory, make_stages(faults))
    parts = (_ORIGINAL, _QUANTIZED, _FUSION_OFF, _FUSION_ON, _NEXT, _QUANT_RULES, _OFF_RULES, _ON_RULES, _CAFFE)
    return StageSample(*(os.path.join(directory, part) for part in parts))


def make_stages(faults: Collection[str]) -> dict[str, bytes]:
    """Return the contents of all files by their path below the sample's directory."""
    factors = {STAGE_FAULTS["quantization"].operator: _SCALE_FACTOR} if "quantization" in faults else {}
    forms = build_chain(factors)
    off, on = forms.fusion_off, forms.fusion_on
    if "conversion" in faults:
        off, on = (_corrupted(ops, "conversion", swap_height_and_width) for ops in (off, on))
    if "fusion" in faults:
        on = _corrupted(on, "fusion", _scaled)
    following = _corrupted(on, "version", _scaled) if "version" in faults else on
    return {
        **_array_files(forms, forms.original, _ORIGINAL),
        **_array_files(forms, forms.quantized, _QUANTIZED),
        **_device_files(forms, off, _FUSION_OFF, _OFF_RULES),
        **_device_files(forms, on, _FUSION_ON, _ON_RULES),
        **_device_files(forms, following, _NEXT, _ON_RULES),
        _QUANT_RULES: encode_json(_quant_json(forms.quant_rules)),
        **_caffe_files(forms, list(map(layer_of, forms.original)), "net.prototxt", "net.caffemodel"),
        **_caffe_files(
            forms,
            [op.layer for op in forms.quant_rules],
            "net_fake_quant_model.prototxt",
            "net_fake_quant_weights.caffemodel",
        ),
        f"{_CAFFE}/{IMAGE}.npy": npy_file(forms.image),
    }


def _corrupted(ops: Sequence[DeviceOp], step: str, corruption: Corruption) -> list[DeviceOp]:
    """Return the operators with a fault in the one that has the final result of the original."""
    original = STAGE_FAULTS[step].operator
    last = [op.name for op in ops if original in op.originals][-1]
    return [corrupt_output(op, corruption) if op.name == last else op for op in ops]


def _scaled(x: AnyArray) -> AnyArray:
    return 1.25 * x


def _array_files(forms: ChainForms, ops: Sequence[GoldenOp], folder: str) -> dict[str, bytes]:
    return golden_files(SampleNetwork(forms.image, IMAGE, tuple(ops), (), ()), folder)


def _device_files(forms: ChainForms, ops: Sequence[DeviceOp], folder: str, rules: str) -> dict[str, bytes]:
    return target_files(SampleNetwork(forms.image, IMAGE, (), tuple(ops), ops[-1].ports), folder, rules)


def _caffe_files(forms: ChainForms, layers: Sequence[CaffeLayer], model: str, weights: str) -> dict[str, bytes]:
    return {
        f"{_CAFFE}/{model}": encode_prototxt(layers, IMAGE, forms.image.shape),
        f"{_CAFFE}/{weights}": encode_caffemodel(layers),
    }


def _quant_json(quant_ops: Sequence[QuantOp]) -> Json:
    """Return the quantization file."""
    described: list[Json] = [{"name": IMAGE, "type": "Input"}]
    for op in quant_ops:
        attrs = [attr("_datadump_original_op_names", {"list": {"s": list(op.originals)}})]
        layer, inputs = op.layer, [str(port) for port in op.layer.inputs]
        item: Json = {"name": layer.name, "type": layer.type, "input": inputs, "attr": attrs}
        outputs = {"output_desc": [{"attr": origin_attrs(op.origin, "NCHW")}]} if op.origin else {}
        described.append(item | outputs)
    return {"name": "sample", "graph": [{"name": "sample_quantized", "op": described}]}
