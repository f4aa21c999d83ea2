"""A fault in each step of the sample: step, operator and cause are named, in whole and in partial chains."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import Agreement, ErrorKind, Outcome
from opdiff.core.reasons import render
from opdiff.core.stages import Change, Loss, StageKind
from opdiff.sample.stages import STAGE_FAULTS, write_stage_sample
from opdiff.workflows.stages.options import StageName, StagesOptions
from opdiff.workflows.stages.pipeline import compare_stages

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.stages import Chain
    from opdiff.sample.stages import StageSample

# Parts of the sample that a chain consists of.
WHOLE = ("original", "quantized", "fusion_off", "fusion_on")
NO_QUANTIZED = ("original", "fusion_off", "fusion_on")
VERSIONS = ("original", "fusion_on", "next_version")
KINDS = {
    "quantization": {ErrorKind.QUANTIZATION},
    "conversion": {ErrorKind.PERMUTED},
    "fusion": {ErrorKind.SCALE},
    "version": {ErrorKind.SCALE},
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StageSample]:
    folder = tmp_path_factory.mktemp("stages")
    made = {fault: write_stage_sample(str(folder / fault), [fault]) for fault in STAGE_FAULTS}
    return made | {"": write_stage_sample(str(folder / "clean"), [])}


def chain_of(sample: StageSample, *parts: str, **changed: object) -> Chain:
    rules = (sample.fusion_on_rules, sample.fusion_off_rules, sample.quant_rules)
    options = StagesOptions(tuple(getattr(sample, part) for part in parts), (), *rules)
    return compare_stages(replace(options, **changed), lambda _done, _total: None).chain


def advice_of(chain: Chain) -> str:
    return "\n".join(render(sentence) for sentence in (*chain.notes, *chain.verdict.advice))


# Parts of the documented advice for each step.
ADVICE = {
    "quantization": ["block1/conv1, tail", "10 to 100 items", "up to 1 % is usual"],
    "conversion": ["opdiff op pool:output:0", "logs"],
    "fusion": ["fusion_switch.cfg", "TbeConvDequantReluFusionPass"],
}


@pytest.mark.parametrize("fault", ADVICE)
def test_the_faulty_step_of_a_whole_chain(samples: dict[str, StageSample], fault: str) -> None:
    chain = chain_of(samples[fault], *WHOLE)
    verdict = chain.verdict
    assert [stage.kind for stage in chain.stages] == list(StageKind)
    culprit = list(STAGE_FAULTS).index(fault)
    assert (verdict.outcome, verdict.culprit) == (Outcome.WRONG, culprit)
    assert [step.loss for step in verdict.steps] == [
        Loss.NODE if number == culprit else Loss.NONE for number in range(3)
    ]
    found = verdict.steps[culprit]
    assert found.changes == (Change(fault),)
    assert found.finding is not None
    assert STAGE_FAULTS[fault].operator in found.finding.operator
    assert found.finding.kind in KINDS[fault]
    advice = advice_of(chain)
    assert f"The accuracy is lost in {fault} (stage {culprit + 1} to {culprit + 2}," in advice
    given = {name: [part for part in parts if part in advice] for name, parts in ADVICE.items()}
    assert given == {name: parts if name == fault else [] for name, parts in ADVICE.items()}
    # From the faulty step on, the outputs differ from those of the original.
    agreements = [chain.total(number).comparison.judgement.outputs.agreement for number in (1, 2, 3)]  # type: ignore[union-attr]
    assert [agreement is Agreement.MATCH for agreement in agreements] == [number < culprit for number in range(3)]


@pytest.mark.parametrize(
    "parts", [WHOLE, NO_QUANTIZED, VERSIONS, ("fusion_off", "fusion_on"), ("original", "fusion_on")]
)
def test_clean_chains(samples: dict[str, StageSample], parts: tuple[str, ...]) -> None:
    chain = chain_of(samples[""], *parts)
    assert (chain.verdict.outcome, chain.verdict.culprit) == (Outcome.CLEAN, None)
    assert "No step lost accuracy" in advice_of(chain)


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        (None, (Change.VERSION, Change.PROCESSOR), "The data does not tell which"),
        (StageName.VERSION, (Change.VERSION,), "CANN, firmware and driver"),
        (StageName.PROCESSOR, (Change.PROCESSOR,), "--soc_version"),
    ],
)
def test_another_version_or_processor(
    samples: dict[str, StageSample], name: StageName | None, changes: tuple[Change, ...], sentence: str
) -> None:
    chain = chain_of(samples["version"], *VERSIONS, names=(None, None, name))
    assert chain.verdict.culprit == 1
    assert chain.verdict.steps[1].changes == changes
    assert chain.verdict.steps[1].finding is not None
    assert "tail" in chain.verdict.steps[1].finding.operator
    assert sentence in advice_of(chain)


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        pytest.param("quantization", {Change.QUANTIZATION, Change.CONVERSION}, id="both are possible"),
        pytest.param("conversion", {Change.CONVERSION}, id="permuted values are not due to quantization"),
    ],
)
def test_without_the_quantized_model_nothing_is_called_quantization_for_sure(
    samples: dict[str, StageSample], fault: str, changes: set[Change]
) -> None:
    chain = chain_of(samples[fault], *NO_QUANTIZED)
    assert chain.verdict.culprit == 0
    assert chain.steps[0].changes == (Change.QUANTIZATION, Change.CONVERSION)
    assert set(chain.verdict.steps[0].changes) == changes
    assert ("run the fake-quantized model" in advice_of(chain)) == (len(changes) > 1)


def test_the_next_conversion_is_written_out(samples: dict[str, StageSample]) -> None:
    advice = advice_of(chain_of(samples["fusion"], "original", "fusion_on"))
    assert "atc --model=MODEL --framework=FRAMEWORK --soc_version=SOC_VERSION --output=fusion_off" in advice
    assert "atc --mode=1 --om=fusion_off.om --json=fusion_off.json" in advice


def test_two_faulty_steps(tmp_path: Path) -> None:
    chain = chain_of(write_stage_sample(str(tmp_path), ["quantization", "fusion"]), *WHOLE)
    assert chain.verdict.culprit == 2
    assert "Also in quantization (stage 1 to 2, relative error 0.115): block1/conv2_dequant_layer" in advice_of(chain)


# Mixed-up inputs


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 2, 1, 3), (1, 0, 2, 3)], ids=str)
def test_exchanged_directories_are_put_in_order(samples: dict[str, StageSample], order: tuple[int, ...]) -> None:
    chain = chain_of(samples["fusion"], *(WHOLE[number] for number in order))
    assert chain.verdict == chain_of(samples["fusion"], *WHOLE).verdict
    assert "The directories were given in another order" in advice_of(chain)


def test_exchanged_rule_files_are_used_the_other_way_round(samples: dict[str, StageSample]) -> None:
    sample = samples["fusion"]
    swapped = {"fusion_rules": sample.fusion_off_rules, "fusion_off_rules": sample.fusion_on_rules}
    chain = chain_of(sample, *WHOLE, **swapped)
    assert chain.verdict == chain_of(sample, *WHOLE).verdict
    assert "-fr and -cfr seem to be exchanged" in advice_of(chain)


def test_what_a_directory_holds_can_be_said(samples: dict[str, StageSample]) -> None:
    right = (StageName.ORIGINAL, StageName.QUANTIZED, StageName.FUSION_OFF, StageName.OFFLINE)
    chain = chain_of(samples["fusion"], *WHOLE, names=right)
    assert [stage.kind for stage in chain.stages] == list(StageKind)
    assert all("as given by --stage" in map(render, stage.evidence) for stage in chain.stages)
    for wrong in ((StageName.OFFLINE,), (None, None, StageName.QUANTIZED)):
        with pytest.raises(UsageError, match="it contains"):
            chain_of(samples["fusion"], *WHOLE, names=wrong)


def test_two_original_models_are_refused(samples: dict[str, StageSample]) -> None:
    with pytest.raises(UsageError, match="both contain arrays of an original model that is not quantized"):
        chain_of(samples["fusion"], "original", "original", "fusion_on", quant_rules="")


def test_arrays_without_quantizing_names_are_quantized_if_there_are_quantization_rules(
    samples: dict[str, StageSample], tmp_path: Path
) -> None:
    sample = samples["quantization"]
    names = os.listdir(sample.original)
    for name in os.listdir(sample.quantized):
        if name in names:
            (tmp_path / name).write_bytes((tmp_path.joinpath(sample.quantized, name)).read_bytes())
    chain = chain_of(sample._replace(quantized=str(tmp_path)), *WHOLE)
    assert [stage.kind for stage in chain.stages] == list(StageKind)
    assert "with -qfr" in render(chain.stages[1].evidence[1])


@pytest.mark.parametrize("given", ["fusion_rules", "fusion_off_rules"])
@pytest.mark.parametrize("fault", ["", "fusion", "conversion"])
def test_a_missing_rule_file_does_not_turn_fusion_into_a_version(
    samples: dict[str, StageSample], fault: str, given: str
) -> None:
    """The rules of one dump have half of the operators of the other; its names show that it is fused otherwise."""
    absent = {"fusion_rules": "", "fusion_off_rules": ""}
    del absent[given]
    chain = chain_of(samples[fault], *NO_QUANTIZED, **absent)
    assert [stage.kind for stage in chain.stages] == [StageKind.ORIGINAL, StageKind.FUSION_OFF, StageKind.OFFLINE]
    assert chain.steps[1].changes == (Change.FUSION,)
    culprit = chain.verdict.culprit
    assert culprit is None or Change(fault) in chain.verdict.steps[culprit].changes


def test_one_directory_twice_is_said_first(samples: dict[str, StageSample]) -> None:
    chain = chain_of(samples[""], "original", "fusion_on", "fusion_on")
    (note,) = (note for note in chain.notes if note.code == "stages.step_warning")
    assert render(note).startswith("Stages 2 and 3: target and golden are the same dump")


def test_rules_of_another_version(samples: dict[str, StageSample], tmp_path: Path) -> None:
    """The file is that of the last dump even if both files fit both dumps."""
    sample = samples["version"]
    other = str(tmp_path / "next.json")
    shutil.copy(sample.fusion_on_rules, other)
    chain = chain_of(sample, *VERSIONS, fusion_off_rules="", version_rules=other)
    assert [stage.rules for stage in chain.stages] == ["", sample.fusion_on_rules, other]
    assert chain.verdict.culprit == 1
    assert chain.verdict.steps[1].changes == (Change.VERSION, Change.PROCESSOR)


# Missing data


def test_an_empty_stage_is_left_out(samples: dict[str, StageSample], tmp_path: Path) -> None:
    chain = chain_of(samples["conversion"]._replace(quantized=str(tmp_path)), *WHOLE)
    assert len(chain.stages) == 3
    assert f"{tmp_path} is left out: no files here" in advice_of(chain)
    assert chain.verdict.steps[0].changes == (Change.CONVERSION,)


def test_fewer_than_two_stages_are_an_error(samples: dict[str, StageSample], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no files here"):
        chain_of(samples["conversion"]._replace(original=str(tmp_path)), "original", "fusion_on")
    with pytest.raises(UsageError, match="give 2 to 4 directories, not 1"):
        chain_of(samples["conversion"], "original")


def test_a_step_that_cannot_be_compared_may_hold_the_loss(samples: dict[str, StageSample]) -> None:
    chain = chain_of(samples[""], "original", "quantized", quant_rules="")
    assert (chain.verdict.outcome, chain.verdict.culprit) == (Outcome.UNSURE, None)
    advice = advice_of(chain)
    assert "No step could be judged." in advice
    assert "Stages 1 and 2 (quantization) could not be compared" in advice
    assert "needs a rule file: add -qfr" in advice
    assert "It may hold a loss." in advice


def test_a_step_that_cannot_be_compared_is_acquitted_by_later_stages(samples: dict[str, StageSample]) -> None:
    chain = chain_of(samples[""], *WHOLE, quant_rules="")
    assert (chain.verdict.outcome, chain.verdict.culprit) == (Outcome.CLEAN, None)
    assert "Compared with stage 1, stage 3 has lost nothing." in advice_of(chain)


def test_a_step_that_cannot_be_compared_is_convicted_by_later_stages(samples: dict[str, StageSample]) -> None:
    chain = chain_of(samples["quantization"], *WHOLE, quant_rules="")
    assert (chain.verdict.outcome, chain.verdict.culprit) == (Outcome.SUSPICIOUS, 0)
    found = chain.verdict.steps[0]
    assert (found.loss, found.changes, found.shown_by) == (Loss.NODE, (Change.QUANTIZATION,), 2)
    assert found.finding is not None
    assert "block1/conv2" in found.finding.operator
    assert "The comparison of stage 3 with stage 1 shows it" in advice_of(chain)


def test_later_stages_say_nothing_about_a_step_if_they_are_wrong_themselves(samples: dict[str, StageSample]) -> None:
    chain = chain_of(samples["conversion"], *WHOLE, quant_rules="")
    assert chain.verdict.culprit == 1
    assert chain.verdict.steps[0].loss is Loss.UNKNOWN
    assert "It may hold a part of the loss." in advice_of(chain)


def test_dumps_with_other_fusion_are_not_told_apart_without_rules(samples: dict[str, StageSample]) -> None:
    """Without rules of fusion off, the fused operators cannot be paired, and nothing is called clean."""
    chain = chain_of(samples["fusion"], "fusion_off", "fusion_on", fusion_off_rules="", fusion_rules="")
    assert chain.stages[0].kind is StageKind.FUSION_OFF
    assert "in place of its" in render(chain.stages[0].evidence[1])
    assert chain.verdict.outcome is not Outcome.CLEAN


@pytest.mark.parametrize(
    ("kept", "outcome", "sentence"),
    [
        pytest.param(("MatMulV2", "AscendQuant"), Outcome.CLEAN, "1 of 18 operators of fusion", id="outputs remain"),
        pytest.param(("AscendQuant",), Outcome.UNSURE, "It may hold a loss.", id="outputs are missing"),
        pytest.param(("MatMulV2",), Outcome.UNSURE, "It may hold a loss.", id="nothing shows quantization"),
    ],
)
def test_most_files_missing(
    samples: dict[str, StageSample], tmp_path: Path, kept: tuple[str, ...], outcome: Outcome, sentence: str
) -> None:
    sample = samples[""]
    for name in os.listdir(sample.fusion_on):
        if name.startswith(kept):
            shutil.copy(os.path.join(sample.fusion_on, name), tmp_path / name)
    chain = chain_of(sample._replace(fusion_on=str(tmp_path)), *WHOLE)
    assert (chain.verdict.outcome, chain.verdict.culprit) == (outcome, None)
    assert sentence in advice_of(chain)
