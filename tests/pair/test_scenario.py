"""Every row of the table of comparisons, and what is said where there is none."""

from __future__ import annotations

import pytest

from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import catalogue
from opdiff.pair.scenario import GivenRules, Scenario, choose
from pair.rule_files import npu, npy

SIDES = {"npu": npu(), "npu quantized": npu(quantized=True), "npy": npy(), "npy quantized": npy(quantized=True)}
OPTIONS = {"": (), "f": ("fusion",), "q": ("quant",), "c": ("close",), "fq": ("fusion", "quant")}
OPTIONS |= {"fc": ("fusion", "close"), "qc": ("quant", "close"), "fqc": ("fusion", "quant", "close")}
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
    return choose(SIDES[target], SIDES[golden], GivenRules(**dict.fromkeys(OPTIONS[options], True)))


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
    assert "; the golden side np" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "golden", "options", "text"),
    [
        ("npu", "npy", "", "takes -fr, but no rule file was given: -fr is missing."),
        ("npu", "npy", "fq", "takes -fr, but -fr with -qfr was given: -qfr does not belong here."),
        ("npu", "npy", "qc", "-fr is missing; -qfr with -cfr does not belong here."),
        ("npu quantized", "npy", "", "takes -fr or -qfr or -fr with -qfr, but no rule file was given."),
        ("npu", "npu", "f", "takes no rule file or -fr with -cfr, but -fr was given."),
        ("npu", "npu quantized", "", "Only two quantized or two non-quantized models"),
        ("npu", "npy quantized", "f", "A model that is not quantized cannot be judged by a quantized one."),
        ("npy", "npu", "", "exchange -tp and -gp"),
        ("npy", "npy", "", "come from a quantized model; then give -qfr"),
        ("npy quantized", "npy quantized", "q", "the golden side then has to be the original one"),
    ],
)
def test_a_refusal_says_what_to_do(target: str, golden: str, options: str, text: str) -> None:
    with pytest.raises((UsageError, InputError)) as caught:
        chosen(target, golden, options)
    assert text in str(caught.value)
    assert ("(quantized: names such as" in str(caught.value)) is ("quantized" in f"{target}{golden}")


@pytest.mark.parametrize("scenario", Scenario)
def test_every_scenario_has_its_sentence(scenario: Scenario) -> None:
    assert str(scenario) in catalogue()
    assert "NPU" in str(scenario.reason) or "original model" in str(scenario.reason)
