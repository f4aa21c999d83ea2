"""Scenarios of all combinations of dumps and rule files, and the messages for those that are refused."""

from __future__ import annotations

import pytest

from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import catalogue
from opdiff.pair.scenario import Scenario, choose
from pair.rule_files import npu, npy

SIDES = {"npu": npu(), "npu quantized": npu(quantized=True), "npy": npy(), "npy quantized": npy(quantized=True)}
OPTIONS = {"": (), "f": ("fusion",), "q": ("quant",), "c": ("fusion_off",), "fq": ("fusion", "quant")}
OPTIONS |= {"fc": ("fusion", "fusion_off"), "qc": ("quant", "fusion_off"), "fqc": ("fusion", "quant", "fusion_off")}
ALLOWED = {
    ("npu", "npy", "f"): Scenario.ORIGINAL,
    ("npu quantized", "npy", "f"): Scenario.QUANT_BY_FUSION,
    ("npu quantized", "npy", "q"): Scenario.QUANT_BY_QUANT,
    ("npu quantized", "npy", "fq"): Scenario.QUANT_BY_BOTH,
    ("npu quantized", "npy quantized", "f"): Scenario.QUANT_TO_QUANT,
    ("npy quantized", "npy", "q"): Scenario.QUANT_ORIGINAL,
    ("npy", "npy", "q"): Scenario.QUANT_ORIGINAL,
    ("npu", "npu", ""): Scenario.PLAIN,
    ("npu", "npu", "fc"): Scenario.FUSION_ON_OFF,
    ("npu quantized", "npu quantized", ""): Scenario.PLAIN,
    ("npu quantized", "npu quantized", "fc"): Scenario.FUSION_ON_OFF,
}


def chosen(target: str, golden: str, options: str) -> Scenario:
    return choose(SIDES[target], SIDES[golden], frozenset(OPTIONS[options]))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("golden", SIDES)
@pytest.mark.parametrize("target", SIDES)
def test_every_combination_is_a_scenario_or_refused(target: str, golden: str, options: str) -> None:
    expected = ALLOWED.get((target, golden, options))
    if expected is not None:
        assert chosen(target, golden, options) is expected
        return
    with pytest.raises((UsageError, InputError)) as caught:
        chosen(target, golden, options)
    assert "The target np" in str(caught.value)
    assert "; the golden np" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "golden", "options", "text"),
    [
        ("npu", "npy", "", "takes -fr, but no rule file was given: -fr is missing."),
        ("npu", "npy", "fq", "takes -fr, but -fr with -qfr was given: -qfr does not apply."),
        ("npu", "npy", "qc", "-fr is missing; -qfr with -cfr does not apply."),
        ("npu quantized", "npy", "", "takes -fr or -qfr or -fr with -qfr, but no rule file was given."),
        ("npu", "npu", "f", "takes no rule file or -fr with -cfr, but -fr was given."),
        ("npu", "npu quantized", "", "only if both are quantized or neither is"),
        (
            "npu",
            "npy quantized",
            "f",
            "A target that is not quantized cannot be compared with a quantized golden model.",
        ),
        ("npy", "npu", "", "exchange -tp and -gp"),
        ("npy", "npy", "", "come from a quantized model; give -qfr"),
        ("npy quantized", "npy quantized", "q", "needs the original model as golden"),
    ],
)
def test_a_refusal_says_what_to_do(target: str, golden: str, options: str, text: str) -> None:
    with pytest.raises((UsageError, InputError)) as caught:
        chosen(target, golden, options)
    assert text in str(caught.value)
    assert ("(quantized: it has names such as" in str(caught.value)) is ("quantized" in f"{target}{golden}")


@pytest.mark.parametrize("scenario", Scenario)
def test_every_scenario_has_its_sentence(scenario: Scenario) -> None:
    assert str(scenario) in catalogue()
    assert "NPU" in str(scenario.reason) or "original model" in str(scenario.reason)
