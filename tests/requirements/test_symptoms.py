"""Accuracy problems of models, and what they usually come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, tensor
from graph_dumps import GraphCase
from made_dumps import Case, describe, numbers, read_result, rule
from opdiff.core import dtypes
from opdiff.core.judgement import Agreement, Coverage, Judgement, Level, ModelOutputs, Verdict
from opdiff.core.reasons import because
from opdiff.judge.advice import advice_of
from opdiff.sample import write_sample
from opdiff.sample.container import EncodedDump, standard_dump
from opdiff.sample.graph_text import TextNode
from opdiff.sample.names import DumpName
from requirements.requirement import requires

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Capture, Command
    from opdiff.core.codes import AnyArray
    from opdiff.sample import Sample
    from opdiff.sample.stages import StageSample

TYPES = "Issue Description, types of operator problems"
SIGNIFICANT = "Common issues, significant difference"
SLIGHT = "Common issues, slight difference"
APPLICATION = "Common issues, output matches, application differs"
UPGRADE = "Common issues, after an upgrade"
X = numbers(8, 16)
DAY = 86_400 * 1_000_000


@pytest.fixture
def case(tmp_path: Path, capsys: Capture) -> Case:
    return Case(tmp_path, capsys)


@pytest.fixture
def graphs(tmp_path: Path, capsys: Capture) -> GraphCase:
    return GraphCase(tmp_path, capsys)


def verdict(case: Case, *options: object) -> str:
    """Run the comparison; return what it prints, each sentence on one line."""
    done = case.run(*options, "--no-html")
    assert done.code == 0, done
    return done.out.replace("\n  ", " ")


def network(case: Case, target: AnyArray, golden: AnyArray, op_type: str) -> tuple[str, Path]:
    """Write an operator that reads X and gives these outputs, on an NPU and elsewhere; return `-fr` and its file."""
    case.npu("x", X)
    case.npu("y", target.astype(np.float32), inputs=(X,), op_type=op_type)
    case.npy("x", X)
    case.npy("y", golden.astype(np.float32))
    outputs = rule("x", outputs=(describe("x", 0),)), rule("y", op_type, inputs=("x:0",), outputs=(describe("y", 0),))
    return "-fr", case.rules(*outputs)


def cancelling(case: Case) -> tuple[str, Path]:
    """Write a chain of products in float16 whose end subtracts 98 % of its value; return `-fr` and its file."""
    random = np.random.default_rng(0)
    golden = target = random.normal(size=(16, 64)).astype(np.float32)
    rules = []
    for number in range(30):
        name, read = f"mm{number}", tensor(target, dtypes.FLOAT16)
        factor = (random.normal(size=(64, 64)) / 8).astype(np.float32)
        golden, rounded = golden @ factor, target @ factor * (1 + 3e-4 * random.standard_normal(target.shape))
        target = rounded.astype(np.float16).astype(np.float32)
        case.npy(name, golden)
        case.npu(name, tensor(target, dtypes.FLOAT16), inputs=(read,), op_type="MatMul")
        rules.append(rule(name, "MatMul", inputs=(f"mm{number - 1}:0",), outputs=(describe(name, 0),)))
    constant = (golden * 0.98).astype(np.float16).astype(np.float32)
    operands = tuple(tensor(array, dtypes.FLOAT16) for array in (target, constant))
    case.npy("sub", golden - constant)
    case.npu("sub", tensor(target - constant, dtypes.FLOAT16), inputs=operands, op_type="Sub")
    last = rule("sub", "Sub", inputs=("mm29:0", "c:0"), outputs=(describe("sub", 0),))
    return "-fr", case.rules(*rules, rule("c", "Const"), last)


@requires(
    "Issue Description",
    "the results of the NPU are compared with a benchmark that was made elsewhere, before migration",
    "the outputs of the model are judged in words: they match, differ slightly or differ significantly",
)
@pytest.mark.parametrize(
    ("factor", "words"), [(1.0, "match"), (1.02, "differ slightly from"), (3.0, "differ significantly from")]
)  # fmt: skip
def test_against_a_benchmark(case: Case, factor: float, words: str) -> None:
    rules = network(case, X * factor, X, "Op")
    assert verdict(case, *rules).startswith(f"The model's outputs {words} the golden ones")
    measured = read_result(*case.results()).row("y:output:0")
    assert float(measured["MaxAbsoluteError"]) == pytest.approx(np.abs(X * (factor - 1)).max(), rel=1e-5)


@requires("Issue Description", "if migration kept the accuracy, no operator is at fault")
def test_no_problem(sound: Sample, command: Command, tmp_path: Path) -> None:
    done = command("compare", sound.target, sound.golden, "-fr", sound.rules, "-o", tmp_path, "--no-html")
    assert done.out.startswith("The model's outputs match the golden ones within noise")
    assert "No operator is at fault" in done.out


@requires(
    "Issue Description",
    "a problem of model conversion is told from one of quantization or fusion, and located at an operator",
)
def test_problems_of_conversion(stages: StageSample, command: Command, tmp_path: Path) -> None:
    chain = (stages.original, stages.quantized, stages.fusion_off, stages.fusion_on)
    rules = ("-qfr", stages.quant_rules, "-cfr", stages.fusion_off_rules, "-fr", stages.fusion_on_rules)
    told = command("stages", *chain, *rules, "-o", tmp_path, "--no-html").out.replace("\n  ", " ")
    assert "The accuracy is lost in conversion" in told
    assert "pool (MaxPoolV3) is at fault" in told


@requires(TYPES, "low accuracy of an operator is named as loss of precision, with the remedy to compute in float32")
def test_low_accuracy(case: Case) -> None:
    errors = np.random.default_rng(5).standard_normal(X.shape)
    told = verdict(case, *network(case, X * (1 + 0.01 * errors), X, "Op"))
    assert "y (Op) is at fault: loss of precision" in told
    assert "Keep this operator in float32" in told


@requires(TYPES, "data overflow is named, with the number of infinities and the position of the first")
@requires(SIGNIFICANT, "an overflow of an operator is found behind the significant difference")
def test_overflow(case: Case) -> None:
    wrong = X.copy()
    wrong[2, 3:5] = np.inf
    told = verdict(case, *network(case, wrong, X, "Op"))
    assert told.startswith("The model's outputs differ significantly")
    assert "y (Op) is at fault: overflow of the element type; 2 infinities and 0 NaNs" in told
    assert "the first at [2, 3]" in told


@requires(SIGNIFICANT, "overflows that the device saw are in the column OverFlow, by -overflow_detection")
def test_overflow_column(case: Case) -> None:
    wrong = X.copy()
    wrong[2, 3] = np.inf
    rows = case.compared(*network(case, wrong, X, "Op"), "-overflow_detection")
    assert {tensor: rows.row(tensor)["OverFlow"] for tensor in ("x:output:0", "y:output:0")} == {
        "x:output:0": "NO", "y:output:0": "YES",
    }  # fmt: skip


@requires(TYPES, "another implementation of an operator is named: its error is a function of its input")
def test_implementation(case: Case) -> None:
    golden, other = 1 / (1 + np.exp(-X)), np.clip(X / 6 + 0.5, 0, 1)
    told = verdict(case, *network(case, other, golden, "Sigmoid"), "--replay", "none")
    assert "y (Sigmoid) is at fault: function approximated differently" in told


@requires(TYPES, "an unreasonable fusion is found between fusion on and off, with the pass that made it")
@requires(SIGNIFICANT, "a wrong fusion is found behind the significant difference, with the switch that disables it")
def test_wrong_fusion(fusion: StageSample, command: Command, tmp_path: Path) -> None:
    rules = ("-fr", fusion.fusion_on_rules, "-cfr", fusion.fusion_off_rules)
    sides = (fusion.fusion_on, fusion.fusion_off)
    told = command("compare", *sides, *rules, "-o", tmp_path, "--no-html", "--remedies", tmp_path / "remedies").out
    assert told.startswith("The model's outputs differ significantly")
    assert "or disable the fusion pass TbeConvDequantReluFusionPass" in told.replace("\n  ", " ")
    assert '"TbeConvDequantReluFusionPass": "off"' in (tmp_path / "remedies" / "fusion_switch.cfg").read_text()


@requires(
    TYPES, "hardware differences: if most operators differ, processors and versions are named instead of one operator"
)
@requires(SLIGHT, "if most operators add small errors, operator implementations and element types are the named causes")
def test_hardware(case: Case) -> None:
    random = np.random.default_rng(1)
    golden = target = X
    for number in range(12):
        read = target
        factor = (random.normal(size=(16, 16)) / 4).astype(np.float32)
        before, golden, target = golden, golden @ factor, target @ factor
        target = (target * (1 + 0.003 * random.standard_normal(target.shape))).astype(np.float32)
        case.npu(f"mm{number}", target, inputs=(read,), op_type="MatMul")
        case.npu_golden(f"mm{number}", golden, inputs=(before,), op_type="MatMul")
    told = verdict(case)
    assert "differ slightly" in told
    assert "usually the accumulated errors of operator implementations or of the element types" in told
    assert "as between two versions of operators, two processors or two precision modes" in told
    assert "is at fault" not in told


def advice_for(agreement: Agreement) -> str:
    outputs = ModelOutputs(agreement, "y:output:0", 0.9, 0.4)
    verdicts = (Verdict(Level.WRONG, because("judge.not_measured")),)
    return str(advice_of(Judgement("", verdicts, coverage=Coverage(1, 1, 1), outputs=outputs))[0])


@requires(SIGNIFICANT, "if no operator is found, overflow and wrong fusion are the named causes")
def test_usual_causes() -> None:
    assert advice_for(Agreement.SIGNIFICANT).endswith(": usually an overflow or a wrong fusion.")
    assert "usually" not in advice_for(Agreement.MATCH)


@requires(
    SLIGHT,
    "errors that add up along the network are called accumulated, and no operator is blamed",
    "operator implementations and the precision of the data are named as the usual causes",
)
def test_accumulated_errors(case: Case) -> None:
    told = verdict(case, *cancelling(case))
    assert told.startswith("The model's outputs differ slightly")
    assert "usually the accumulated errors of operator implementations or of the element types" in told
    assert "along the network the noise adds up to a visible error" in told
    assert "No operator is at fault" in told


@requires(APPLICATION, "if the outputs match, preprocessing and postprocessing are to be checked")
@requires(APPLICATION, "so they are if the outputs match although an inner operator exceeds its limits")
@pytest.mark.parametrize("is_inner", [False, True])
def test_outputs_match(sound: Sample, command: Command, tmp_path: Path, *, is_inner: bool) -> None:
    sample = write_sample(str(tmp_path / "inner"), faults=("overflow",)) if is_inner else sound
    done = command("compare", sample.target, sample.golden, "-fr", sample.rules, "-o", tmp_path / "out", "--no-html")
    told = done.out.replace("\n  ", " ")
    assert told.startswith("The model's outputs match the golden ones within noise")
    assert ("Inside the network gate/conv (Conv2D) exceeds its error budget" in told) == is_inner
    assert "check preprocessing and postprocessing" in told


@requires(APPLICATION, "a different preprocessing is told from a fault of the model, if the dump has the input")
def test_other_preprocessing(case: Case) -> None:

    case.npu("y", X * 2, inputs=(X * 2,), op_type="Relu")
    case.npy("x", X)
    case.npy("y", X)
    rules = case.rules(
        rule("x", "Data", outputs=(describe("x", 0),)),
        rule("y", "Relu", inputs=("x:0",), outputs=(describe("y", 0),)),
    )
    told = verdict(case, "-fr", rules)
    assert "different model inputs; this is a model input: the two runs were given different data" in told
    assert "check preprocessing, channel order, mean and scale" in told
    assert "upgrade" not in told


CHECK = "Dumps do not record the versions of CANN, driver and firmware: check that they match each other"


@requires(
    UPGRADE,
    "if one operator stands out between dumps from before and after, the environment is named, too",
    "hardware and software have to match: CANN, driver and firmware, which dumps do not record, are to be checked",
    "the dates of both dumps are named, as far as files record them",
)
@pytest.mark.parametrize("days", [0, 30])
def test_after_an_upgrade(case: Case, days: int) -> None:
    case.npu("x", X, time=TIME + days * DAY)
    case.npu("y", X * 3, inputs=(X,), time=TIME + days * DAY)
    case.npu_golden("x", X, time=TIME)
    case.npu_golden("y", X, inputs=(X,), time=TIME)
    told = verdict(case)
    assert "y (Op) is at fault" in told
    assert CHECK in told
    assert "above all after an upgrade" in told
    assert ("date of the dump 2023-01-15 (target) and 2022-12-16 (golden)" in told) == bool(days)


@requires(UPGRADE, "a changed dump format is named as a difference of the environments, which may be the cause")
def test_recorded_environment(case: Case) -> None:
    for folder, factor, version in ((case.target, 3, "1.0"), (case.golden, 1, "2.0")):
        content = standard_dump(EncodedDump(outputs=(tensor(X * factor),), op_name="y", version=version))
        case.add(folder, str(DumpName("Op", "y", 1, 3, TIME)), content)
    told = verdict(case)
    assert "y (Op) is at fault" in told
    assert "may be the cause: dump format standard 1.0 (target) and standard 2.0 (golden)." in told


@requires(UPGRADE, "against the benchmark of another platform, a significant difference leads to the versions as well")
@pytest.mark.parametrize(("factor", "is_told"), [(3.0, True), (1.0, False)])
def test_upgrade_against_the_benchmark(case: Case, factor: float, *, is_told: bool) -> None:
    told = verdict(case, *network(case, X * factor, X, "Op"))
    assert ("If this began with an upgrade" in told) == is_told
    assert ("check that the versions of CANN, driver and firmware match" in told) == is_told


@requires(UPGRADE, "graph mode: processors and versions in the graph texts are compared and named")
def test_upgrade_in_graph_mode(graphs: GraphCase) -> None:
    for root, value, version in ((graphs.target, X * 3, "8.0"), (graphs.off, X, "7.0")):
        graphs.ge("Add", (), (value,), root=root)
        text = graphs.text(TextNode("Add", "Add"), root=root)
        text.write_text(text.read_text() + f'attr {{ key: "opp_version" value {{ s: "{version}" }} }}\n')
    told = graphs.run(golden=graphs.off).out.replace("\n  ", " ")
    assert "may be the cause: opp_version 8.0 (target) and 7.0 (golden)" in told
    assert CHECK in told


@requires(
    "Issue Description",
    "whatever the symptom, the next command of the same method is printed: it examines the operator",
)
def test_next_command(case: Case) -> None:
    rules = network(case, X * 3, X, "Op")
    assert f"next: opdiff op y:output:0 {case.target} {case.golden} --rules {rules[1]}" in verdict(case, *rules)
