"""Comparison between NPU and NPU: version iteration, another processor, fusion on and off."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import tensor
from made_dumps import DOCUMENTED, Case, assert_measured, describe, numbers, read_result, rule
from model_files import ModelDef, attr, om_file
from opdiff.core import dtypes
from opdiff.sample.container import EncodedTensor
from opdiff.sample.stages import StageSample, write_stage_sample
from opdiff.sample.storage import store
from requirements.requirement import requires

if TYPE_CHECKING:
    from command_line import Capture, Command, Outcome
    from made_dumps import Result
    from opdiff.core.codes import AnyArray
    from opdiff.sample import Sample

VERSIONS = "Accuracy Comparison Before and After Version Iteration"
PROCESSORS = "Scenarios with Inference Processor Switching"
FUSION = "Operator Fusion Enabled and Disabled"
X = numbers(1, 3, 4, 5)
# The network x → a → b → c in two forms: as it is, and with a and b fused.
OFF = tuple(
    rule(name, inputs=(f"{source}:0",), outputs=(describe(name, 0),)) for source, name in ("-x", "xa", "ab", "bc")
)
ON = (OFF[0], rule("ab", originals=("a", "b"), inputs=("x:0",), outputs=(describe("b", 0),)),
      rule("c", inputs=("ab:0",), outputs=(describe("c", 0),)))  # fmt: skip


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> StageSample:
    """Return a quantized model whose next version multiplies the output of `tail` by 1.25."""
    return write_stage_sample(str(tmp_path_factory.mktemp("version")), ("version",))


@pytest.fixture
def case(tmp_path: Path, capsys: Capture) -> Case:
    return Case(tmp_path, capsys)


def documented(command: Command, out: Path, target: object, golden: object, *options: object) -> Outcome:
    """Run the command as the documents write it; sentences of its result are on one line each."""
    words = ("compare", "-m", "offline_data", "-tp", target, "-gp", golden, *options, "-o", out, "--no-html")
    done = command(*words)
    return type(done)(done.code, done.out.replace("\n  ", " "), done.err)


def result_of(out: Path) -> Result:
    (path,) = out.glob("result_*.csv")
    return read_result(path)


def fused_pair(case: Case) -> tuple[Path, Path]:
    """Write the run with fusion on as target, the one with fusion off as golden; return their rules."""
    case.npu("x", X * 1.01)
    case.npu("ab", X * 1.5, inputs=(X * 1.01,))
    case.npu("c", X * 3, inputs=(X * 1.5,))
    case.npu_golden("x", X)
    case.npu_golden("a", X * 7, inputs=(X,))
    case.npu_golden("b", X, inputs=(X * 7,))
    case.npu_golden("c", X * 2, inputs=(X,))
    return case.rules(*ON, file="on.json"), case.rules(*OFF, file="off.json")


@requires("Overview", "the table has the documented columns: operators and tensors of both sides, and all ten metrics")
@requires(VERSIONS, "two non-quantized offline models: the dump before the change is -gp, the one after it -tp")
def test_two_models_that_are_not_quantized(case: Case) -> None:
    case.npu("a", X * 1.03)
    case.npu_golden("a", X)
    row = case.compared().of("a")
    assert [name for name in row if name in DOCUMENTED] == list(DOCUMENTED)
    assert (row["OpType"], row["GroundTruth"], row["TensorIndex"]) == ("Op", "a", "a:output:0")
    assert_measured(row, (X * 1.03).astype(np.float32), X)


@requires(VERSIONS, "two quantized offline models: the operator at which the accuracy decreases is named")
def test_two_quantized_models(version: StageSample, command: Command, tmp_path: Path) -> None:
    done = documented(command, tmp_path, version.next_version, version.fusion_on)
    assert done.code == 0
    assert "The model's outputs differ significantly from the golden ones" in done.out
    assert "tailtail_dequant_layertail_relu (Conv2D) is at fault: wrong scale" in done.out
    assert "Compared: 18 of 18 operators." in done.out


@requires(VERSIONS, "without a decrease no operator is blamed, for models that are quantized and for others")
@pytest.mark.parametrize("is_quantized", [True, False])
def test_no_decrease(
    version: StageSample, sound: Sample, command: Command, tmp_path: Path, *, is_quantized: bool
) -> None:
    path = version.fusion_on if is_quantized else sound.target
    done = documented(command, tmp_path / "out", shutil.copytree(path, tmp_path / "copy"), path)
    assert "No operator is at fault" in done.out
    assert result_of(tmp_path / "out").rows[0]["RunVerdict"].startswith("clean")


@requires(
    VERSIONS,
    "of a model that is not quantized, the operator that an iteration changed is found",
    "`-r` and `-s` need rules, which this comparison does not have: they are refused with the reason",
)
def test_a_fault_of_an_iteration(sound: Sample, offline: Sample, command: Command, tmp_path: Path) -> None:
    done = documented(command, tmp_path, offline.target, sound.target)
    assert re.search(r"[1-3] local_conv1local_conv1_relu \(Conv2D\) +scale", done.out)
    refused = documented(command, tmp_path, offline.target, sound.target, "-s", "1")
    assert refused.code == 2
    assert "give -fr too" in refused.err


@requires("Overview", "a quantized and a non-quantized offline model are refused, in either order")
@pytest.mark.parametrize("is_target_quantized", [True, False])
def test_mixed_models(
    version: StageSample, sound: Sample, command: Command, tmp_path: Path, *, is_target_quantized: bool
) -> None:
    sides = (version.fusion_on, sound.target) if is_target_quantized else (sound.target, version.fusion_on)
    done = documented(command, tmp_path, *sides)
    assert done.code == 3
    assert "Two NPU dumps can be compared only if both are quantized or neither is." in done.err
    assert not [*tmp_path.iterdir()]


@requires(
    VERSIONS, "model iteration: operators of one version only are listed with the reason, all others are compared"
)
def test_operators_of_one_version(case: Case) -> None:
    case.npu("a", X)
    case.npu("new", X)
    case.npu_golden("a", X)
    case.npu_golden("old", X)
    result = case.compared()
    assert float(result.of("a")["CosineSimilarity"]) == 1
    assert "the golden dump has no file for operator new" in result.of("new")["CompareFailReason"]
    (old,) = [row for row in result.rows if row["GroundTruth"] == "old"]
    assert "the target dump has no file for operator old" in old["CompareFailReason"]


@requires(VERSIONS, "model tuning: float16 of one version is compared with float32 of the other, which is named")
def test_another_precision(case: Case) -> None:
    half = (X * 1.01).astype(np.float16)
    for name in "ab":
        case.npu(name, tensor(half, dtypes.FLOAT16))
        case.npu_golden(name, X)
    assert_measured(case.compared().of("a"), half.astype(np.float32), X)
    assert "element type of 2 of 2 operators float16 (target) and float32 (golden)" in case.run().out


@requires(VERSIONS, "versions that store a tensor in other layouts are compared element by element of the same shape")
@requires(PROCESSORS, "processors that tile tensors by other sizes (C0) are compared element by element, too")
@pytest.mark.parametrize("c0", [16, 32])
def test_another_layout(case: Case, c0: int) -> None:
    wrong = (X * 1.01).astype(np.float32)
    stored = store(wrong, "NC1HWC0", c0=c0)
    case.npu("a", EncodedTensor(dtypes.FLOAT32, stored.shape, "NC1HWC0", stored.tobytes(), X.shape))
    case.npu_golden("a", tensor(X, layout="NCHW"))
    assert_measured(case.compared().of("a"), wrong, X)


def compiled(*, processor: str, compiler: str, passes: str = "") -> bytes:
    """Return an offline model with one operator."""
    graph = {"name": "net", "op": [{"name": "a", "type": "Op", "output_desc": []}]}
    command = f"atc --model=net.onnx --soc_version={processor}{passes}"
    made = {"soc_version": processor, "atc_version": compiler, "atc_cmdline": command}
    attributes = [attr(name, s=value.encode()) for name, value in made.items()]
    return om_file(ModelDef(name="net", graph=[graph], attr=attributes).SerializeToString())


@requires(
    VERSIONS,
    "a new CANN version: the versions that the offline models record are named if the runs differ",
    "versions that no file records (CANN, driver, firmware) are named as such, not guessed",
)
@requires("Overview", "two processors, which this scenario is not for, are named where the offline models record them")
def test_recorded_versions(case: Case) -> None:
    case.npu("a", X * 3)
    case.npu_golden("a", X)
    sides = {"new.om": ("Ascend310P3", "8.0"), "old.om": ("Ascend310", "7.0")}
    paths = [case.add(case.root, name, compiled(processor=p, compiler=c)) for name, (p, c) in sides.items()]
    told = case.run("-fr", paths[0], "-cfr", paths[1], "--no-html").out.replace("\n  ", " ")
    assert "may be the cause: processor Ascend310P3 (target) and Ascend310 (golden)" in told
    assert "compiler 8.0 (target) and 7.0 (golden)" in told
    assert "Dumps do not record the versions of CANN, driver and firmware" in told


@requires(
    VERSIONS,
    "the dump of any framework is read the same way: by its folders and file names",
    instead="one dump as a flat folder, and as TIME/DEVICE/MODEL/MODEL_ID/STEP, gives the same table",
)
@pytest.mark.parametrize("folder", ["", "20240101000000/0/net/1/0"])
def test_folders_of_dumps(case: Case, folder: str) -> None:
    case.npu("a", X * 1.03, folder=case.target / folder)
    case.npu_golden("a", X)
    assert_measured(case.compared().of("a"), (X * 1.03).astype(np.float32), X)


# Another processor


@requires(
    PROCESSORS,
    "two non-quantized models: the dump of processor A is -gp, that of B is -tp, without -f and -cf",
    "a decrease of accuracy is found at its operator",
)
def test_two_processors(sound: Sample, offline: Sample, command: Command, tmp_path: Path) -> None:
    done = documented(command, tmp_path, offline.target, sound.target)
    assert done.code == 0
    assert "context_pool" in done.out
    assert "Compared: 60 of 60 operators." in done.out


@requires(
    PROCESSORS,
    "two quantized models with fusion off: all operators are compared, without -f and -cf",
    "without a decrease no operator is blamed",
)
def test_two_processors_with_fusion_off(
    stages: StageSample, fusion: StageSample, command: Command, tmp_path: Path
) -> None:
    same = documented(command, tmp_path / "same", fusion.fusion_off, shutil.copytree(fusion.fusion_off, tmp_path / "b"))
    assert "No operator is at fault" in same.out
    done = documented(command, tmp_path / "other", stages.fusion_off, fusion.fusion_off)
    assert done.code == 0
    assert "pool (MaxPoolV3) is at fault" in done.out
    assert "Compared: 31 of 31 operators." in done.out


@requires(
    PROCESSORS, "-f and -cf have to be cancelled: with one of them the command says that two processors need none"
)
@pytest.mark.parametrize("option", ["-f", "-cf"])
def test_rules_have_to_be_cancelled(fusion: StageSample, command: Command, tmp_path: Path, option: str) -> None:
    done = documented(command, tmp_path, fusion.fusion_off, fusion.fusion_off, option, fusion.fusion_off_rules)
    assert done.code == 2
    assert "Give none for two versions or two processors" in done.err


@requires(
    PROCESSORS,
    "models that were fused differently: the result says so, and no operator is blamed",
    "the remedy is to convert both again with --soc_version and fusion off, and to compare without -f and -cf",
    instead="the command of the conversion names both options, and its switches are written by --remedies",
)
@pytest.mark.parametrize("is_quantized", [True, False])
def test_other_fusion_on_the_other_processor(
    fusion: StageSample, case: Case, command: Command, tmp_path: Path, *, is_quantized: bool
) -> None:
    fused_pair(case)
    sides = (fusion.fusion_on, fusion.fusion_off) if is_quantized else (case.target, case.golden)
    done = documented(command, tmp_path / "out", *sides, "--remedies", tmp_path / "remedies")
    assert done.code == 3
    assert done.out.startswith("Warning: the models were compiled with different fusion")
    assert "at fault" not in done.out
    assert "compare without -fr and -cfr" in done.out
    (atc,) = [line for line in done.out.replace(": atc", "\natc").splitlines() if line.startswith("atc")]
    assert {"--soc_version=SOC_VERSION", "--fusion_switch_file=fusion_switch_all_off.cfg"} <= set(shlex.split(atc))
    switches = json.loads((tmp_path / "remedies" / "fusion_switch_all_off.cfg").read_text())
    assert switches == {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}


@requires(PROCESSORS, "in a chain of stages, the change of processor is named as the step that lost the accuracy")
def test_the_step_of_the_processor(version: StageSample, command: Command, tmp_path: Path) -> None:
    done = command(
        "stages", version.fusion_on, version.next_version, "--stage", f"processor={version.next_version}",
        "-o", tmp_path, "--no-html",
    )  # fmt: skip
    told = done.out.replace("\n  ", " ")
    assert "The accuracy is lost in the change of processor" in told
    assert "Compile for each processor with its own --soc_version, and with fusion off" in told


# Fusion on and off


@requires(
    FUSION,
    "two non-quantized models: fusion off is -gp with -cfr, fusion on is -tp with -fr",
    "the output of a fused operator is compared with that of the last operator that it consists of",
    "operators that both models have are compared with each other",
)
def test_fused_operators(case: Case) -> None:
    on, off = fused_pair(case)
    result = case.compared("-fr", on, "-cfr", off)
    fused = result.row("ab:output:0")
    assert fused["GoldenTensor"] == "b:output:0"
    assert_measured(fused, (X * 1.5).astype(np.float32), X)
    assert_measured(result.row("c:output:0"), X * 3, X * 2)


@requires(FUSION, "the inputs of a fused operator are compared with those of its first part")
def test_inputs_of_fused_operators(case: Case) -> None:
    on, off = fused_pair(case)
    row = case.compared("-fr", on, "-cfr", off).row("ab:input:0")
    assert row["GoldenTensor"] == "x:output:0"
    assert_measured(row, (X * 1.01).astype(np.float32), X)


@requires(
    FUSION,
    "two quantized models: the fused operator that lost the accuracy is named",
    "with the fusion pass that made it, and a file that switches this pass off",
)
def test_quantized_fusion(fusion: StageSample, command: Command, tmp_path: Path) -> None:
    rules = ("-fr", fusion.fusion_on_rules, "-cfr", fusion.fusion_off_rules)
    options = (*rules, "--remedies", tmp_path / "remedies")
    done = documented(command, tmp_path / "out", fusion.fusion_on, fusion.fusion_off, *options)
    assert done.code == 0
    assert "block2 · conv1 + conv1_dequant_layer + conv1_relu (Conv2D) is at fault" in done.out
    assert "disable the fusion pass TbeConvDequantReluFusionPass" in done.out
    assert "TbeConvDequantReluFusionPass" in (tmp_path / "remedies" / "fusion_switch.cfg").read_text()


@requires(
    FUSION,
    "if fusion is right, no operator is blamed, although fault and rounding before it are in both runs",
    "the documented spellings -f and -cf are taken for the two rule files",
)
def test_sound_fusion(stages: StageSample, command: Command, tmp_path: Path) -> None:
    rules = ("-f", stages.fusion_on_rules, "-cf", stages.fusion_off_rules)
    done = documented(command, tmp_path, stages.fusion_on, stages.fusion_off, *rules)
    assert done.code == 0
    assert "No compared operator is at fault" in done.out


@requires(FUSION, "the offline model files (.om) themselves serve as the rules of both models")
def test_offline_models_as_rules(case: Case) -> None:
    fused_pair(case)
    graphs = {"on.om": [("ab", ["a", "b"], "b"), ("c", ["c"], "c")], "off.om": [(name, [name], name) for name in "abc"]}
    paths = []
    for file, operators in graphs.items():
        made = []
        for name, originals, origin in operators:
            described = [attr("_datadump_origin_name", s=origin.encode()), attr("_datadump_origin_output_index", i=0)]
            names = attr("_datadump_original_op_names", list={"s": [each.encode() for each in originals]})
            made.append({"name": name, "type": "Op", "attr": [names], "output_desc": [{"attr": described}]})
        model = ModelDef(name="net", graph=[{"name": "net", "op": made}])
        paths.append(case.add(case.root, file, om_file(model.SerializeToString())))
    assert case.compared("-fr", paths[0], "-cfr", paths[1]).row("ab:output:0")["GoldenTensor"] == "b:output:0"


@requires(FUSION, "exchanged sides are refused with the right command")
@requires(FUSION, "exchanged rule files are refused with the right command")
@pytest.mark.parametrize("are_sides", [True, False])
def test_exchanged_sides_or_rules(fusion: StageSample, command: Command, tmp_path: Path, *, are_sides: bool) -> None:
    sides, rules = (fusion.fusion_on, fusion.fusion_off), (fusion.fusion_on_rules, fusion.fusion_off_rules)
    given = (*sides[::-1], *rules) if are_sides else (*sides, *rules[::-1])
    done = documented(command, tmp_path, given[0], given[1], "-fr", given[2], "-cfr", given[3])
    assert done.code == 3
    right = shlex.join(["opdiff", "compare", *sides, "-fr", rules[0], "-cfr", rules[1]])
    assert done.err.rstrip().endswith(right)


@requires(FUSION, "a model of -cfr that was compiled with fusion on is noticed")
def test_fusion_was_not_switched_off(fusion: StageSample, command: Command, tmp_path: Path) -> None:
    rules = json.loads(Path(fusion.fusion_on_rules).read_text())
    rules["graph"][0]["name"] = "other"
    copy = tmp_path / "copy.json"
    copy.write_text(json.dumps(rules))
    options = ("-fr", fusion.fusion_on_rules, "-cfr", copy)
    done = documented(command, tmp_path / "out", fusion.fusion_on, fusion.fusion_on, *options)
    assert "warning: the model of -cfr (copy.json) seems to be compiled with fusion on" in done.out


@requires(FUSION, "without both rule files no operator is blamed, and the command with them is printed")
def test_fusion_without_rules(fusion: StageSample, command: Command, tmp_path: Path) -> None:
    done = documented(command, tmp_path, fusion.fusion_on, fusion.fusion_off)
    right = shlex.join(["opdiff", "compare", fusion.fusion_on, fusion.fusion_off])
    assert done.code == 3
    assert f"{right} -fr FUSION_ON.json -cfr FUSION_OFF.json" in done.out
    assert result_of(tmp_path).rows[0]["RunVerdict"].startswith("unsure")
    assert "at fault" not in done.out


@requires(
    FUSION,
    "without rules, an operator that absorbed another under its own name (Conv and BatchNorm) is not taken for wrong",
    "an error that goes on to the next operator is still one of the fused operator",
)
@pytest.mark.parametrize("factor", [1, 3])
def test_an_operator_fused_under_the_same_name(case: Case, factor: int) -> None:
    conv, norm = X * 1.25, (X * np.linspace(1, 3, 5) + 1).astype(np.float32)
    relu = np.maximum(norm, 0)

    def at(address: int, array: AnyArray) -> EncodedTensor:
        return tensor(array, address=4096 * address)

    case.npu("conv", at(2, norm * factor), inputs=(at(1, X),), op_type="Conv2D")
    case.npu("relu", at(4, relu * factor), inputs=(at(2, norm * factor),), op_type="Relu")
    case.npu_golden("conv", at(2, conv), inputs=(at(1, X),), op_type="Conv2D")
    case.npu_golden("norm", at(3, norm), inputs=(at(2, conv),), op_type="BNInference")
    case.npu_golden("relu", at(4, relu), inputs=(at(3, norm),), op_type="Relu")
    told = case.run("--no-html").out.replace("\n  ", " ")
    if factor == 1:
        assert "wrong pairing; its relative error is" in told
        assert "the output of norm, which reads it in the golden run and does not exist in the target" in told
    else:
        assert "wrong pairing" not in told
        assert "conv (Conv2D) or norm" in told or "conv (Conv2D) is at fault" in told
