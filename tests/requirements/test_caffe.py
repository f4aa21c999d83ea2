"""Comparison of Caffe models: original, quantized and offline."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from caffe_nets import quant
from opdiff.core.reasons import because
from opdiff.core.tensor import file_safe_name
from opdiff.read import read_operator
from opdiff.sample.quantized_network import build_chain
from opdiff.sample.stages import STAGE_FAULTS, StageFault, write_stage_sample
from quantized_runs import WORST_LAYER, write_noisy_sample
from requirements.requirement import requires
from score_files import save, scores

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from command_line import Command, Outcome
    from opdiff.core.codes import AnyArray
    from opdiff.sample import Sample
    from opdiff.sample.stages import StageSample

    Table = Callable[[Path], list[dict[str, str]]]
    Offline = Callable[..., "Comparison"]

# The operators that the compiler makes of a quantized layer, with fusion off and on.
LAYER = "block2/conv1"
FUSED = "block2_conv1block2_conv1_dequant_layerblock2_conv1_relu"
FILES = ("net.prototxt", "net.caffemodel"), ("net_fake_quant_model.prototxt", "net_fake_quant_weights.caffemodel")
COLUMNS = [
    "Index", "OpType", "NPUDump", "DataType", "Address", "GroundTruth", "DataType", "TensorIndex", "Shape",
    "CosineSimilarity", "MaxAbsoluteError", "AccumulatedRelativeError", "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence", "StandardDeviation", "MeanAbsoluteError", "RootMeanSquareError", "MaxRelativeError",
    "MeanRelativeError", "CompareFailReason",
]  # fmt: skip
FUSION_OFF = {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}


class Comparison(NamedTuple):
    """Output of `msprobe compare -m offline_data`, its answer, and its table by tensor."""

    outcome: Outcome
    answer: dict[str, Any]
    rows: dict[str, dict[str, str]]

    @property
    def at_fault(self) -> list[str]:
        return [finding["operator"] for finding in self.answer["findings"]]

    def compared(self) -> set[str]:
        return {name for name, row in self.rows.items() if row["CosineSimilarity"] not in ("NaN", "")}


@pytest.fixture
def msprobe(command: Command, table: Table, tmp_path: Path) -> Offline:
    """Return a function that compares two folders as the document does."""

    def run(target: str, golden: str, *rules: str) -> Comparison:
        out, answer = tmp_path / f"out{len(list(tmp_path.iterdir()))}", tmp_path / "answer.json"
        given = ("-m", "offline_data", "-tp", target, "-gp", golden, *rules, "-o", out)
        outcome = command("compare", *given, "--json", answer, "--no-html")
        assert outcome.code == 0, outcome.err
        rows = {row["TensorIndex"]: row for row in table(out)}
        return Comparison(outcome, json.loads(answer.read_text()), rows)

    return run


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> StageSample:
    """Write a quantized model in all stages without a fault."""
    return write_stage_sample(str(tmp_path_factory.mktemp("sound")), [])


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], StageSample]:
    """Return a function that writes a quantized model with a fault in one step, once."""
    folder = tmp_path_factory.mktemp("faulty")

    def write(step: str) -> StageSample:
        return write_stage_sample(str(folder / step), [step])

    return write


def stages_of(command: Command, out: Path, sample: StageSample, *folders: str) -> Outcome:
    rules = ("-qfr", sample.quant_rules, "-cfr", sample.fusion_off_rules, "-fr", sample.fusion_on_rules)
    outcome = command("stages", *folders, *rules, "-o", out, "--no-html")
    assert outcome.code == 0, outcome.err
    return outcome


def flowing(outcome: Outcome) -> str:
    """Return the printed sentences without their line breaks."""
    return " ".join(outcome.out.split())


def array(folder: str, name: str) -> AnyArray:
    (path,) = Path(folder).glob(f"{file_safe_name(name)}.0.*.npy")
    found: AnyArray = np.load(path)
    return found


def device_array(folder: str, name: str) -> AnyArray:
    """Return output 0 of a dumped operator in NCHW, by the definition of NC1HWC0."""
    (path,) = Path(folder).glob(f"*.{file_safe_name(name)}.*")
    stored = read_operator(str(path)).outputs[0].array().astype(np.float64)
    n, c1, h, w, c0 = stored.shape
    return stored.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)


def assert_metrics(row: dict[str, str], target: AnyArray, golden: AnyArray) -> None:
    """Check the numbers of a row against their definitions in NumPy."""
    x, y = target.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    expected = {
        "CosineSimilarity": x @ y / np.linalg.norm(x) / np.linalg.norm(y),
        "MaxAbsoluteError": np.abs(x - y).max(),
        "RelativeEuclideanDistance": np.linalg.norm(x - y) / np.linalg.norm(y),
        "MeanAbsoluteError": np.abs(x - y).mean(),
        "RootMeanSquareError": np.sqrt(((x - y) ** 2).mean()),
    }
    assert {name: float(row[name]) for name in expected} == pytest.approx(expected, rel=1e-4, abs=1e-6)


# Models that are not quantized


@requires("Overview", "models that are not quantized can be compared", "the result has the documented columns")
@requires("Table 1, .npy file", "arrays of the original model are the reference")
@requires("Table 1, .json file", "the JSON that ATC makes of the offline model maps its operators to the original ones")
@requires("Table 1, dump data file", "dumps of the offline model are compared with the original model's arrays")
def test_an_offline_model_against_its_original(offline: Sample, msprobe: Offline, tmp_path: Path) -> None:
    found = msprobe(offline.target, offline.golden, "-fr", offline.rules)
    assert len(found.compared()) > 100
    with next(tmp_path.glob("out*/*.csv")).open(newline="") as file:
        head = next(csv.reader(file))
    assert head[: len(COLUMNS)] == COLUMNS
    rows = [row for row in found.rows.values() if row["NPUDump"].startswith("stem/conv")]
    row = next(row for row in rows if row["TensorIndex"].endswith("output:0"))
    target = device_array(offline.target, row["TensorIndex"].rsplit(":", 2)[0])
    golden = array(offline.golden, row["GroundTruth"].split(",")[-1])
    assert_metrics(row, target[:, : golden.shape[1]], golden)


@requires("Table 1, .json file", "a comparison without the JSON is refused, and the message names the option")
def test_the_mapping_is_needed(offline: Sample, command: Command, tmp_path: Path) -> None:
    given = ("-tp", offline.target, "-gp", offline.golden, "-o", tmp_path)
    refused = command("compare", "-m", "offline_data", *given)
    assert (refused.code, "needs a rule file: add -fr" in refused.err) == (2, True)


# What quantization and compilation do to a model


@requires(
    "Quantization scenarios", "operators that AMCT inserted are recognized: inputs of quantizing ones are compared"
)
@requires("Quantization scenarios", "outputs of dequantizing operators are compared, 8-bit values before them are not")
def test_operators_that_amct_inserts(stages: StageSample, msprobe: Offline) -> None:
    found = msprobe(stages.fusion_off, stages.original, "-qfr", stages.quant_rules)
    ours = {name.removeprefix(LAYER): name in found.compared() for name in found.rows if name.startswith(LAYER)}
    assert ours["_quant_layer:input:0"]
    assert ours["_dequant_layer:output:0"]
    assert not any(ours[name] for name in ("_quant_layer:output:0", ":input:0", ":output:0"))
    name = f"{LAYER}_dequant_layer"
    row = found.rows[f"{name}:output:0"]
    assert_metrics(row, device_array(stages.fusion_off, name), array(stages.original, LAYER))


@requires(
    "Quantization scenarios",
    "fusion hides the dequantization of a fused operator, whose result alone is compared",
    "with fusion off, the dequantization itself is compared with the quantized model",
)
def test_fusion_hides_inserted_operators(sound: StageSample, msprobe: Offline) -> None:
    on = msprobe(sound.fusion_on, sound.quantized, "-fr", sound.fusion_on_rules).compared()
    off = msprobe(sound.fusion_off, sound.quantized, "-cfr", sound.fusion_off_rules)
    flat = {file_safe_name(name) for name in on}
    assert f"{FUSED}:output:0" in flat
    assert not any(name.startswith("block2_conv1_dequant_layer") for name in flat)
    name = f"{LAYER}_dequant_layer"
    row = off.rows[f"{name}:output:0"]
    assert_metrics(row, device_array(sound.fusion_off, name), array(sound.quantized, name))


@requires("Quantization scenarios, acceptable error", "a loss of up to 1 % of the task accuracy is acceptable")
@requires(
    "Step 1.5",
    "the top-N accuracy over 10,000 samples decides on the error of quantization",
    "a loss of 3 % is called too large",
    "a loss between 1 % and 3 % calls for an examination",
)
@pytest.mark.parametrize(("lost", "verdict", "code"), [(50, "clean", 0), (200, "suspicious", 1), (400, "wrong", 1)])
def test_accuracy_of_the_task(command: Command, tmp_path: Path, lost: int, verdict: str, code: int) -> None:
    labels = np.arange(10_000) % 10
    results = np.where(np.arange(10_000) < lost, (labels + 1) % 10, labels)
    golden, target = (save(tmp_path / f"{name}.npy", scores(best)) for name, best in (("g", labels), ("t", results)))
    (tmp_path / "labels.txt").write_text("\n".join(map(str, labels)))
    options = ("--labels", tmp_path / "labels.txt", "--k", "1", "--json", "-", "--fail-on", "suspicious")
    found = command("topn", target, golden, *options)
    assert (found.code, found.json["outcome"]) == (code, verdict)
    (top,) = found.json["top"]
    assert top["loss"]["value"] == pytest.approx(lost / 10_000)


@requires(
    "Quantization scenarios, causes", "a loss in quantization is told from one in conversion, and its operator named"
)
@requires("Quantization scenarios, steps", "each step of the way to the device is compared with the one before it")
@pytest.mark.parametrize(
    ("step", "name"), [("quantization", "block1/conv2"), ("conversion", "pool"), ("fusion", LAYER)]
)
def test_the_step_that_lost_the_accuracy(
    faulty: Callable[[str], StageSample], command: Command, tmp_path: Path, step: str, name: str
) -> None:
    sample = faulty(step)
    found = stages_of(command, tmp_path, sample, sample.original, sample.quantized, sample.fusion_off, sample.fusion_on)
    assert f"The accuracy is lost in {step} (stage" in flowing(found) or f"An error arises in {step}" in flowing(found)
    assert name in re.sub("_(?=conv)", "/", found.out)
    assert {path.name for path in tmp_path.iterdir()} >= {"1-2_quantization", "2-3_conversion", "3-4_fusion"}


# Step 1: quantization


@requires("Step 1.1", "prototxt and caffemodel of the original model are run on the CPU, without Caffe")
@requires("Step 1.1", "each layer has an array, {layer}.{index}.{time}.npy, with the values that the layers define")
@requires("Step 1.3", "the fake-quantized model is run, its Quant and DeQuant layers included")
@requires("Step 1.3", "Quant rounds half away from zero to 256 steps, as the C function does")
@pytest.mark.parametrize("files", FILES, ids=["original", "fake-quantized"])
def test_arrays_of_a_caffe_model(sound: StageSample, command: Command, tmp_path: Path, files: tuple[str, str]) -> None:
    model = [Path(sound.caffe) / name for name in files]
    made = command("golden", *model, "--input", f"data={sound.caffe}/data.npy", "-o", tmp_path / "made")
    assert made.code == 0, made.err
    chain, folder = build_chain(), str(tmp_path / "made")
    is_original = files == FILES[0]
    operators = chain.original if is_original else chain.quantized
    names = {path.name for path in (tmp_path / "made").glob("*.npy")}
    expected = {rf"{file_safe_name(op.name)}\.0\.\d{{16}}\.npy" for op in operators} | {r"data\.0\.\d{16}\.npy"}
    assert len(names) == len(expected)
    assert all(any(re.fullmatch(pattern, name) for name in names) for pattern in expected)
    for op in operators:
        inputs = [array(folder, port.op) for port in op.inputs]
        if not op.name.endswith("_quant_layer"):
            result = op.kernel(*(each.astype(np.float64) for each in inputs))
            np.testing.assert_allclose(array(folder, op.name), result, rtol=0, atol=1e-6 * np.abs(result).max())
    if not is_original:
        text = model[0].read_text()
        scale = re.search(rf'"{LAYER}_quant_layer".*?scale: (\S+)', text, re.DOTALL)
        assert scale
        x = array(folder, "block1/add_relu")
        np.testing.assert_array_equal(array(folder, f"{LAYER}_quant_layer"), quant(x, float(scale[1]), 0))


@requires("Step 1.2", "of AMCT's files, the deployed model is refused for a CPU run, and the one to run is named")
def test_the_deployed_model_is_for_atc(sound: StageSample, command: Command, tmp_path: Path) -> None:
    for name, ending in zip(FILES[1], ("deploy_model.prototxt", "deploy_weights.caffemodel"), strict=True):
        (tmp_path / f"net_{ending}").write_bytes((Path(sound.caffe) / name).read_bytes())
    model = tmp_path / "net_deploy_model.prototxt", tmp_path / "net_deploy_weights.caffemodel"
    refused = command("golden", *model, "--input", f"data={sound.caffe}/data.npy", "-o", tmp_path / "made")
    assert refused.code == 3
    assert "run the fake-quantized model: net_fake_quant_model.prototxt" in refused.err
    assert not (tmp_path / "made").exists()


@requires("Step 1.2", "the quantization information file is taken as -qfr, and maps quantized layers to original ones")
@requires("Step 1.4", "the quantized original model is compared with the original one, tensor by tensor")
@requires("Step 1.4", "a sound quantization is not blamed on an operator")
def test_quantized_original_against_original(sound: StageSample, msprobe: Offline) -> None:
    found = msprobe(sound.quantized, sound.original, "-qfr", sound.quant_rules)
    assert found.at_fault == []
    row = found.rows[f"{LAYER}_dequant_layer:output:0"]
    assert row["GroundTruth"] == LAYER
    assert_metrics(row, array(sound.quantized, f"{LAYER}_dequant_layer"), array(sound.original, LAYER))
    assert_metrics(found.rows["fc:output:0"], array(sound.quantized, "fc"), array(sound.original, "fc"))


@requires("Step 1.4", "this comparison takes the quantization file and no other rule file")
def test_rule_files_of_the_quantization_step(sound: StageSample, command: Command, tmp_path: Path) -> None:
    for option in ("-fr", "-cfr"):
        given = ("-tp", sound.quantized, "-gp", sound.original, option, sound.fusion_off_rules, "-o", tmp_path)
        refused = command("compare", "-m", "offline_data", *given)
        assert refused.code == 2
        assert f"-qfr is missing; {option} does not apply" in flowing(refused) + " ".join(refused.err.split())


@requires("Step 1.6", "after a loss in quantization, check that the calibration data is representative")
@requires("Step 1.6", "calibration takes 10 to 100 items")
@requires("Step 1.7", "the layers to exclude first are named: those at the input and at the output of the model")
@requires("Step 1.5", "losses of 1 % and 3 % are named as the measure of quantization")
def test_advice_about_quantization(faulty: Callable[[str], StageSample], command: Command, tmp_path: Path) -> None:
    sample = faulty("quantization")
    said = flowing(stages_of(command, tmp_path, sample, sample.original, sample.quantized))
    assert "Check that the calibration data represents the real data, and has 10 to 100 items." in said
    assert "a loss of up to 1 % is usual, 3 % is not" in said
    assert re.search(r"Exclud\w+ .*\(block1/conv1, tail\)|\(block1/conv1, tail\)", said), said


@requires("Step 1.7", "layers that are not to be quantized are written as a configuration of AMCT")
def test_layers_not_to_quantize(faulty: Callable[[str], StageSample], command: Command, tmp_path: Path) -> None:
    sample = faulty("quantization")
    sides = ("-tp", sample.quantized, "-gp", sample.original, "-qfr", sample.quant_rules)
    found = command("compare", *sides, "-o", tmp_path / "out", "--remedies", tmp_path / "fixes", "--no-html")
    assert found.code == 0
    written = (tmp_path / "fixes" / "amct_skip_layers.cfg").read_text()
    assert '\nskip_layers : "block1/conv2"\n' in written


# Step 2: conversion


@requires(
    "Step 2.1",
    "the switches that turn off all fusion are written as a file for ATC",
    "the command that compiles the model with fusion off is given",
    instead="the file has the documented switches, and the printed command names it and the documented options",
)
@requires("Step 2.2", "the command that makes the JSON of the offline model is given", instead="the printed command")
def test_conversion_with_fusion_off(stages: StageSample, command: Command, tmp_path: Path) -> None:
    rules = ("-qfr", stages.quant_rules, "-fr", stages.fusion_on_rules)
    found = command("stages", stages.original, stages.fusion_on, *rules, "-o", tmp_path, "--no-html")
    (path,) = tmp_path.glob("fusion_switch*.cfg")
    assert json.loads(path.read_text()) == FUSION_OFF
    compile_line = next(line.split() for line in found.out.splitlines() if line.strip().startswith("atc --model"))
    assert f"--fusion_switch_file={path.name}" in compile_line
    assert {option.partition("=")[0] for option in compile_line} >= {"--framework", "--output", "--soc_version"}
    assert re.search(r"atc --mode=1 --om=\S+\.om --json=\S+\.json", flowing(found))


@requires("Step 2.2", "the JSON of the model with fusion off is read, by -cfr or -fr, with one result")
@requires("Step 2.3", "dumps of a quantized offline model are read, in its private layouts and element types")
@requires("Step 2.4", "the quantized original model is compared with the offline model, fusion off")
@requires("Step 2.4", "a sound conversion is not blamed on an operator")
def test_quantized_original_against_offline_model(sound: StageSample, msprobe: Offline) -> None:
    tables = [msprobe(sound.fusion_off, sound.quantized, option, sound.fusion_off_rules) for option in ("-cfr", "-fr")]
    assert tables[0].rows == tables[1].rows
    assert tables[0].at_fault == []
    row = tables[0].rows["pool:output:0"]
    assert (row["GroundTruth"], row["DataType"]) == ("pool", "float16")
    assert_metrics(row, device_array(sound.fusion_off, "pool"), array(sound.quantized, "pool"))


@requires("Step 2.5", "an error of one node is told from an accumulated one, and the node named")
@requires("Step 2.5", "for a node, the logs go to the vendor's support")
@requires("Step 2.5", "a quantized node at fault is to be excluded before the model is quantized again")
def test_a_node_error(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{LAYER}_dequant_layer"
    fault = StageFault("conversion", name, because("sample.swapped_in_both"))
    monkeypatch.setitem(STAGE_FAULTS, "conversion", fault)
    sample = write_stage_sample(str(tmp_path / "s"), ["conversion"])
    said = flowing(stages_of(command, tmp_path / "o", sample, sample.original, sample.quantized, sample.fusion_off))
    assert f"{name} (AscendDequant)" in said
    assert "exclude this layer from quantization and quantize again" in said
    assert "Report it with the logs to the vendor's support." in said
    assert "Small errors in many operators" not in said


@requires("Step 2.5", "small errors of many operators are called so, and quantization is named as the possible cause")
@requires("Step 2.5", "the advice is to quantize again with another configuration until the accuracy suffices")
@requires("Step 2.5", "the quantized layers that add most of the error are named and written for AMCT")
def test_an_accumulated_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, msprobe: Offline) -> None:
    sample = write_noisy_sample(str(tmp_path / "s"), monkeypatch)
    rules = ("-fr", sample.fusion_off_rules)
    said = flowing(msprobe(sample.fusion_off, sample.quantized, *rules, "--remedies", str(tmp_path / "fixes")).outcome)
    assert "not as by one faulty operator" in said
    assert "quantization may be the cause" in said
    assert "repeat the quantization with another configuration until the accuracy suffices" in said
    assert f"The quantized layers that add most error are {WORST_LAYER}, " in said
    assert f'skip_layers : "{WORST_LAYER}"' in (tmp_path / "fixes" / "amct_skip_layers.cfg").read_text()


@requires("Step 2.6", "where the cosine says little, one operator is examined element by element")
@requires("Step 2.6", "an operator with a cosine above 0.99 and a wrong scale is at fault nevertheless")
def test_special_data(faulty: Callable[[str], StageSample], command: Command, msprobe: Offline, tmp_path: Path) -> None:
    sample = faulty("fusion")
    rules = ("-fr", sample.fusion_on_rules)
    found = msprobe(sample.fusion_on, sample.quantized, *rules)
    name = next(name for name in found.at_fault if file_safe_name(name) == FUSED)
    row = found.rows[f"{name}:output:0"]
    assert float(row["CosineSimilarity"]) > 0.99
    sides = ("-m", "offline_data", "-tp", sample.fusion_on, "-gp", sample.quantized, *rules)
    single = command("compare", *sides, "-op", name, "-n", "5", "-o", tmp_path / "single")
    assert single.code == 0, single.err
    x, y = device_array(sample.fusion_on, FUSED), array(sample.quantized, f"{LAYER}_relu")
    assert f"{np.abs(x - y.astype(np.float64)).max():.4g}"[:4] in single.out


# Step 3: fusion


@requires("Step 3", "fusion on is compared with fusion off, both quantized, by -fr and -cfr")
@requires("Step 3", "an operator that fusion made wrong is named, and a sound fusion is not blamed")
@pytest.mark.parametrize("step", ["fusion", "conversion"])
def test_fusion_on_against_fusion_off(faulty: Callable[[str], StageSample], msprobe: Offline, step: str) -> None:
    sample = faulty(step)
    rules = ("-fr", sample.fusion_on_rules, "-cfr", sample.fusion_off_rules)
    found = msprobe(sample.fusion_on, sample.fusion_off, *rules)
    assert [file_safe_name(name) for name in found.at_fault] == ([FUSED] if step == "fusion" else [])
    row = next(row for name, row in found.rows.items() if file_safe_name(name) == f"{FUSED}:output:0")
    assert_metrics(row, device_array(sample.fusion_on, FUSED), device_array(sample.fusion_off, f"{LAYER}_relu"))


# A first look: the original against the quantized offline model


@requires("Table 2", "the original model is compared with the quantized offline model in one step")
@requires("Table 2, .json of the offline model", "the JSON of ATC alone suffices")
@requires("Table 2, quantization information file", "the file of AMCT alone suffices, for a model with fusion on, too")
@requires("Table 2, select one", "either file finds the same operator at fault, and both together as well")
@requires("Table 2, dump data file", "fused operators are compared with the layers whose names theirs join")
@pytest.mark.parametrize("given", ["f", "q", "fq"])
def test_original_against_quantized_offline_model(stages: StageSample, msprobe: Offline, given: str) -> None:
    options = {"f": ("-fr", stages.fusion_on_rules), "q": ("-qfr", stages.quant_rules)}
    found = msprobe(stages.fusion_on, stages.original, *(word for name in given for word in options[name]))
    assert found.at_fault == ["pool"]
    row = next(row for name, row in found.rows.items() if file_safe_name(name) == f"{FUSED}:output:0")
    assert_metrics(row, device_array(stages.fusion_on, FUSED), array(stages.original, f"{LAYER}_relu"))
    assert found.answer["coverage"]["compared"] >= 11


@requires("Table 2, quantization information file", "what needs the JSON of the offline model is said, once")
def test_what_the_quantization_file_does_not_tell(stages: StageSample, msprobe: Offline) -> None:
    found = msprobe(stages.fusion_on, stages.original, "-qfr", stages.quant_rules)
    said = flowing(found.outcome)
    assert said.count("cannot be compared, or not completely, by names and the quantization file alone") == 1
    assert "its .om file, given as -fr" in said
    assert "trans_TransData_1:input:0" not in found.compared()


@requires("Table 2", "the first look does not tell quantization from conversion, and says which run would")
def test_a_first_look_is_preliminary(stages: StageSample, command: Command, tmp_path: Path) -> None:
    said = flowing(stages_of(command, tmp_path, stages, stages.original, stages.fusion_on))
    assert "pool (MaxPoolV3) is at fault" in said
    assert "fusion_switch_file" in said
