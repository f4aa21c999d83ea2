"""Changes between two stages, and the rule files of their comparison."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from opdiff.core.dump import DumpKind
from opdiff.core.graph import ModelOrigin
from opdiff.core.stages import Change, Stage, StageKind
from opdiff.workflows.stages.options import StagesOptions
from opdiff.workflows.stages.pipeline import changes_between, folder_name, pair_options

ORIGIN = ModelOrigin(compiler="7.0", operators="7.0", processor="Ascend310P3")
ORIGINAL = Stage("original", StageKind.ORIGINAL, DumpKind.ARRAYS)
FAKE = Stage("fake", StageKind.QUANTIZED, DumpKind.ARRAYS, quantized=True)
OFF = Stage("off", StageKind.FUSION_OFF, DumpKind.NPU, rules="off.om", fused=0, origin=ORIGIN)
ON = Stage("on", StageKind.OFFLINE, DumpKind.NPU, rules="on.om", fused=9, origin=ORIGIN)
QUANTIZED_OFF, QUANTIZED_ON = OFF._replace(quantized=True), ON._replace(quantized=True)
NEWER = ON._replace(origin=replace(ORIGIN, compiler="8.0"))
OTHER_PROCESSOR = ON._replace(origin=replace(ORIGIN, processor="Ascend910B"))


@pytest.mark.parametrize(
    ("golden", "target", "changes"),
    [
        (ORIGINAL, FAKE, "quantization"),
        (ORIGINAL, OFF, "conversion"),
        (ORIGINAL, ON, "conversion fusion"),
        (ORIGINAL, ON._replace(fused=0), "conversion"),
        (ORIGINAL, ON._replace(fused=None), "conversion fusion"),
        (ORIGINAL, QUANTIZED_ON, "quantization conversion fusion"),
        (FAKE, QUANTIZED_OFF, "conversion"),
        (OFF, ON, "fusion"),
        (OFF, NEWER, "fusion version"),
        (ON, ON, "version processor"),
        (ON, NEWER, "version"),
        (ON, OTHER_PROCESSOR, "processor"),
        (ON, ON._replace(change=Change.PROCESSOR), "processor"),
        (ON, NEWER._replace(change=Change.PROCESSOR), "processor version"),
    ],
)
def test_changes(golden: Stage, target: Stage, changes: str) -> None:
    assert changes_between(golden, target) == tuple(map(Change, changes.split()))


@pytest.mark.parametrize(
    ("golden", "target", "rules"),
    [
        pytest.param(ORIGINAL, FAKE, ("", "", "quant.json"), id="quantization"),
        pytest.param(ORIGINAL, OFF, ("off.om", "", ""), id="conversion without quantization"),
        pytest.param(ORIGINAL, QUANTIZED_ON, ("on.om", "", "quant.json"), id="all in one"),
        pytest.param(FAKE, QUANTIZED_OFF, ("off.om", "", ""), id="conversion of the quantized model"),
        pytest.param(OFF, ON, ("on.om", "off.om", ""), id="fusion"),
        pytest.param(ON, ON._replace(path="new"), ("", "", ""), id="versions with the same rules"),
        pytest.param(ON, ON._replace(path="new", rules=""), ("", "", ""), id="versions, rules of one"),
    ],
)
def test_rules_of_a_comparison(golden: Stage, target: Stage, rules: tuple[str, ...]) -> None:
    options = pair_options(golden, target, StagesOptions(quant_rules="quant.json"))
    assert (options.golden, options.target) == (golden.path, target.path)
    assert options.rule_paths == rules


def test_folders() -> None:
    assert folder_name(1, 2, [Change.CONVERSION, Change.FUSION]) == "2-3_conversion_fusion"
    assert folder_name(0, 3, [Change.FUSION]) == "1-4"
