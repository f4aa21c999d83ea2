"""Small errors of all operators of a quantized model on the device: the advice is to quantize again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import opdiff
from opdiff.core.reasons import Language, render
from opdiff.sample.stages import write_stage_sample
from quantized_runs import WORST_LAYER, write_noisy_sample

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.sample.stages import StageSample


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StageSample:
    return write_noisy_sample(str(tmp_path), monkeypatch)


def test_a_conversion_names_the_layers_that_cost_most(sample: StageSample) -> None:
    found = opdiff.compare(sample.fusion_off, sample.quantized, rules=sample.fusion_off_rules)
    said = "\n".join(render(reason) for reason in found.judgement.advice)
    assert found.judgement.costly_layers[0] == WORST_LAYER
    assert "repeat the quantization with another configuration until the accuracy suffices" in said
    assert f"The quantized layers that add most error are {WORST_LAYER}, " in said
    assert "quantization may be the cause" in said
    assert "compare the versions of CANN" not in said
    assert WORST_LAYER in "".join(render(reason, Language.CHINESE) for reason in found.judgement.advice)


def test_the_chain_says_so_for_the_step(sample: StageSample) -> None:
    chain = opdiff.stages(
        [sample.original, sample.quantized, sample.fusion_off],
        quant_rules=sample.quant_rules,
        fusion_off_rules=sample.fusion_off_rules,
    )
    assert chain.verdict.culprit == 1
    said = "\n".join(render(reason) for reason in chain.verdict.advice)
    assert "Small errors in many operators may come from quantization: repeat it with another configuration" in said
    assert f"The quantized layers that add most error are {WORST_LAYER}, " in said


def test_two_runs_on_devices_differ_by_versions(sample: StageSample) -> None:
    """Both models are quantized alike."""
    found = opdiff.compare(
        sample.fusion_off, sample.fusion_on, rules=sample.fusion_off_rules, fusion_off_rules=sample.fusion_on_rules
    )
    assert found.judgement.costly_layers == ()
    assert "quantized layers" not in "\n".join(render(reason) for reason in found.judgement.advice)


def test_a_right_conversion_has_no_such_layers(tmp_path: Path) -> None:
    sample = write_stage_sample(str(tmp_path), [])
    found = opdiff.compare(sample.fusion_off, sample.quantized, rules=sample.fusion_off_rules)
    assert found.judgement.costly_layers == ()
