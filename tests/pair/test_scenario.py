"""Scenarios of all combinations of dumps and rule files, refusals, and doubts about rule files."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from opdiff.core.errors import InputError, UsageError
from opdiff.core.graph import ModelOrigin, RuleFile, RuleGraph, RuleOp
from opdiff.core.reasons import Reason, because, catalogue
from opdiff.pair import Rules
from opdiff.pair.scenario import Scenario, choose, rule_notes
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
    # Rules of a model without fusion are those of the target if the golden side was not compiled.
    ("npu", "npy", "c"): Scenario.ORIGINAL,
    ("npu quantized", "npy", "c"): Scenario.QUANT_BY_FUSION,
    ("npu quantized", "npy", "qc"): Scenario.QUANT_BY_BOTH,
    ("npu quantized", "npy quantized", "c"): Scenario.QUANT_TO_QUANT,
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
    ("target", "golden", "options", "error", "text"),
    [
        ("npu", "npy", "", UsageError, "needs a rule file: add -fr. For -fr, give"),
        ("npu", "npy", "fq", UsageError, "takes -fr, but -fr with -qfr was given: -qfr does not apply."),
        ("npu", "npy", "qc", UsageError, "takes -fr, but -qfr with -cfr was given: -qfr does not apply."),
        ("npu", "npy", "fc", UsageError, "takes -fr, but -fr with -cfr was given: -cfr does not apply."),
        ("npy quantized", "npy", "c", UsageError, "but -cfr was given: -qfr is missing; -cfr does not apply."),
        ("npu quantized", "npy", "", UsageError, "needs a rule file: add -fr or -qfr or -fr with -qfr. For -fr, give"),
        ("npu quantized", "npy quantized", "fq", UsageError, "-qfr does not apply."),
        ("npy quantized", "npy", "", UsageError, "needs a rule file: add -qfr. The target np"),
        ("npy quantized", "npy", "f", UsageError, "-qfr is missing; -fr does not apply."),
        ("npu", "npu", "f", UsageError, "but -fr was given. Give none for two versions or two processors"),
        ("npu", "npu", "c", UsageError, "takes no rule file or -fr with -cfr, but -cfr was given."),
        ("npu", "npu quantized", "", InputError, "only if both are quantized or neither is."),
        ("npu quantized", "npu", "fc", InputError, "only if both are quantized or neither is."),
        ("npu", "npy quantized", "f", InputError, "that is not quantized cannot be compared with a quantized golden"),
        ("npy", "npu", "f", InputError, "The NPU dump must be the target: swap -tp and -gp."),
        ("npy", "npy", "", InputError, "only if they come from a quantized model; give -qfr for that."),
        ("npy quantized", "npy quantized", "q", InputError, "needs the original model as golden."),
    ],
)
def test_a_refusal_says_what_to_do(
    target: str, golden: str, options: str, error: type[InputError | UsageError], text: str
) -> None:
    with pytest.raises(error) as caught:
        chosen(target, golden, options)
    assert text in str(caught.value)
    assert ("(quantized: it has names such as" in str(caught.value)) is ("quantized" in f"{target}{golden}")


@pytest.mark.parametrize("scenario", Scenario)
def test_every_scenario_has_its_sentence(scenario: Scenario) -> None:
    assert str(scenario) in catalogue()
    assert "NPU" in str(scenario.reason) or "original model" in str(scenario.reason)


FUSED = (("c1", "r1"), ("c2", "r2"), ("fc",), ("",))
APART = (("c1",), ("r1",), ("c2",), ("r2",), ("fc",))
SWITCH = ("atc", "--model=net.onnx", "--fusion_switch_file=off.cfg")


def rules(name: str, groups: tuple[tuple[str, ...], ...], command: tuple[str, ...] = (), model: str = "") -> RuleFile:
    operators = tuple(
        RuleOp(f"op{number}", "A", originals=originals, has_originals=True) for number, originals in enumerate(groups)
    )
    return RuleFile(f"/somewhere/{name}", (RuleGraph("g", operators),), ModelOrigin(model, command))


ALIKE = because("pair.fused_alike", path="off.om", alike=2, count=2)


def different(common: int, count: int, second: str) -> Reason:
    return because("pair.different_models", common=common, count=count, first="net.onnx", second=second)


@pytest.mark.parametrize(
    ("groups", "command", "model", "note"),
    [
        (APART, (), "", None),
        (APART, ("atc", "--model=net.onnx"), "", None),
        ((*APART, ("bn", "scale")), SWITCH, "", None),
        (FUSED, (), "", ALIKE),
        (FUSED, SWITCH, "", ALIKE),
        (FUSED, ("atc", "--mode", "0"), "", because("pair.no_fusion_switch", path="off.om", count=2)),
        ((("x",), ("y",), ("c1",)), ("atc", "--model", "other.onnx"), "", different(1, 3, "other.onnx")),
        ((("x",), ("y",)), (), "other", different(0, 2, "other")),
        ((("x",), ("y",)), (), "", different(0, 2, "off.om")),
    ],
)
def test_doubts_about_the_model_without_fusion(
    groups: tuple[tuple[str, ...], ...], command: tuple[str, ...], model: str, note: Reason | None
) -> None:
    given = Rules(rules("on.om", FUSED, ("atc", "--model=net.onnx")), rules("off.om", groups, command, model))
    assert rule_notes(given) == (() if note is None else (note,))


def test_one_file_raises_no_doubt_and_the_notes_of_its_reader_name_it() -> None:
    note = because("read.flow_model")
    assert rule_notes(Rules(rules("on.om", FUSED))) == ()
    file = replace(rules("on.om", FUSED), notes=(note,))
    assert rule_notes(Rules(file)) == (because("core.in_file", path="/somewhere/on.om", problem=note),)
