"""`msprobe compare -m offline_data`: options, paths and the result table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import reduce
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pytest

from dump_files import tensor
from made_dumps import DOCUMENTED, Case, describe, numbers, perturbed, read_result, rule
from opdiff.cli import main
from opdiff.core import dtypes
from opdiff.sample.names import golden_name, safe
from requirements.requirement import requires
from sample.readback import read_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from command_line import Capture, Command
    from made_dumps import Json, Result
    from opdiff.core.codes import AnyArray
    from opdiff.sample import Sample
    from opdiff.sample.graph_mode import GraphSample
    from opdiff.sample.stages import StageSample
    from sample.readback import Stored

TEST = TypeVar("TEST", bound="Callable[..., object]")

COMPARE = ("compare", "-m", "offline_data")
QUIET = ("--no-html", "--replay", "none")
TIME = "20240101120000"
GOLDEN = numbers(4, 6)
TARGET = perturbed(GOLDEN)
CONV = rule("conv", outputs=(describe("conv", 0),))
RESULT = re.compile(r"result_\d{14}\.csv")
COLUMNS = (
    "Index", "OpSequence", "OpType", "NPUDump", "DataType", "Address", "GroundTruth", "DataType#2", "TensorIndex",
    "Shape", "OverFlow", *DOCUMENTED, "CompareFailReason",
)  # fmt: skip
LONG = {
    "-m": "--mode", "-tp": "--target_path", "-gp": "--golden_path", "-fr": "--fusion_rule_file",
    "-cfr": "--close_fusion_rule_file", "-qfr": "--quant_fusion_rule_file", "-o": "--output_path",
}  # fmt: skip
SIDES = ("Parameters, -tp", "Parameters, -gp")
ELEMENT_TYPES = {1: "float32", 2: "float16", 7: "int32"}
ERRORS = [name for name in DOCUMENTED if name not in ("CosineSimilarity", "StandardDeviation")]


# Samples, and an independent computation


@pytest.fixture
def case(tmp_path: Path, capsys: Capture) -> Case:
    return Case(tmp_path, capsys)


@pytest.fixture(scope="module")
def network(offline: Sample, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Compare the whole sample network, and return its table."""
    out = tmp_path_factory.mktemp("network")
    sides = "-tp", offline.target, "-gp", offline.golden, "-fr", offline.rules
    assert main([*COMPARE, *sides, "-o", str(out), "-overflow_detection", "-r", "1,,1", *QUIET]) == 0
    (path,) = out.glob("result_*.csv")
    return read_result(path)


@pytest.fixture(scope="module")
def described(offline: Sample) -> list[Json]:
    """Return the operators of the rule file."""
    operators: list[Json] = json.loads(Path(offline.rules).read_text())["graph"][0]["op"]
    return operators


@pytest.fixture(scope="module")
def dumped(offline: Sample) -> dict[str, Stored]:
    """Return the dumped tensors by `operator:slot:index`, named as in file names, without readers of opdiff."""
    found: dict[str, Stored] = {}
    for path in Path(offline.target).iterdir():
        dump = read_dump(path.name, path.read_bytes())
        for slot, tensors in (("input", dump.inputs), ("output", dump.outputs)):
            found |= {f"{path.name.split('.')[1]}:{slot}:{index}": stored for index, stored in enumerate(tensors)}
    return found


def compared(result: Result) -> Iterator[dict[str, str]]:
    return (row for row in result.rows if row["Elements"])


def operator_of(row: dict[str, str]) -> str:
    return row["TensorIndex"].split(":")[0]


def stored_of(row: dict[str, str], dumped: dict[str, Stored]) -> Stored:
    name, slot = row["TensorIndex"].split(":", 1)
    return dumped[f"{safe(name)}:{slot}"]


def golden_of(row: dict[str, str], offline: Sample) -> AnyArray:
    name, _, index = row["GoldenTensor"].split(":")
    (path,) = Path(offline.golden).glob(golden_name(name, int(index), 0).replace(".0.npy", ".*.npy"))
    array: AnyArray = np.load(path)
    return array


@np.errstate(all="ignore")
def by_definition(target: AnyArray, golden: AnyArray) -> dict[str, float]:
    """Return the documented metrics but the standard deviation, in float64."""
    x, y = (side.astype(np.float64).reshape(-1) for side in (target, golden))
    error = np.abs(x - y)
    relative = np.where(np.abs(y) > 2**-52, error / np.abs(y), 0)
    p, q = ((side - side.min()) / np.ptp(side) if np.ptp(side) else np.ones_like(side) for side in (x, y))
    p, q = (np.maximum(side, 2**-23) for side in (p, q))
    p, q = p / p.sum(), q / q.sum()
    values = (
        x @ y / np.sqrt((x @ x) * (y @ y)), error.max(), relative.sum(), np.sqrt((error @ error) / (y @ y)),
        (p * np.log(p / q)).sum(), error.mean(), np.sqrt((error**2).mean()), relative.max(), relative.mean(),
    )  # fmt: skip
    names = [name for name in DOCUMENTED if name != "StandardDeviation"]
    return dict(zip(names, map(float, values), strict=True))


@np.errstate(all="ignore")
def deviations(*sides: AnyArray) -> list[float]:
    """Return mean and standard deviation of each side."""
    return [float(f(side.astype(np.float64))) for side in sides for f in (np.mean, np.std)]


def measure(case: Case, target: AnyArray, golden: AnyArray) -> dict[str, str]:
    """Compare one tensor by the command line, and return its row."""
    return case.compared("-fr", case.one(target, golden), *QUIET).row("a:output:0")


def step(case: Case, number: int, *, device: int = 0, model: str = "ge_default_7_11") -> None:
    """Write a step of a training run."""
    folder = case.target / TIME / str(device) / model / "1" / str(number)
    case.npu("conv", perturbed(GOLDEN, seed=number), folder=folder)


def rules_of(case: Case, *names: str) -> Path:
    """Write the rule file of operators that were compiled unchanged."""
    return case.rules(*(rule(name, outputs=(describe(name, 0),)) for name in names))


def results(folder: Path) -> list[str]:
    return sorted(re.sub(r"\d{14}", "TIME", path.name) for path in folder.glob("*.csv"))


def of_each(texts: dict[str, str]) -> Callable[[TEST], TEST]:
    """Mark a test that executes a requirement of each of these places."""

    def mark(test: TEST) -> TEST:
        return reduce(lambda marked, place: requires(place, texts[place])(marked), reversed(texts), test)

    return mark


def of_metrics(names: Iterable[str], text: str) -> Callable[[TEST], TEST]:
    """Mark a test that executes a requirement of each of these metrics."""
    return of_each({f"Result, {name}": text for name in names})


@requires("Overview", "ONNX models before and after ATC", "TensorFlow models before and after ATC")
@requires("Constraints", "dumps of Caffe models", "dumps of ONNX models", "dumps of TensorFlow models")
@pytest.mark.parametrize(
    ("name", "layout"), [("conv1", "NCHW"), ("/layer1/Conv_0", "NCHW"), ("resnet/block1/Conv2D", "NHWC")],
    ids=["Caffe", "ONNX", "TensorFlow"],
)  # fmt: skip
def test_dumps_of_frameworks(case: Case, name: str, layout: str) -> None:
    golden = numbers(1, 20, 3, 5)
    target = perturbed(golden)
    case.npu(f"{name}_fused", tensor(target, layout="NC1HWC0"), op_type="Conv2D")
    case.npy(name, golden if layout == "NCHW" else golden.transpose(0, 2, 3, 1))
    originals = (name, f"{name}_relu")
    fused = rule(f"{name}_fused", "Conv2D", originals=originals, outputs=(describe(name, 0, layout=layout),))
    row = case.compared("-fr", case.rules(fused), *QUIET).of(f"{name}_fused")
    assert row["GroundTruth"] == ",".join(originals)
    for metric, value in by_definition(target, golden).items():
        assert float(row[metric]) == pytest.approx(value, rel=1e-5), metric


@requires("Overview", "two versions of an offline model are compared")
@requires("Constraints", "dumps of offline models (OM)")
@requires("Parameters, -fr", "is optional")
def test_two_versions_of_an_offline_model(case: Case) -> None:
    case.npu("conv", TARGET)
    case.npu_golden("conv", GOLDEN)
    error = float(case.compared(*QUIET).row("conv:output:0")["MeanAbsoluteError"])
    assert error == pytest.approx(by_definition(TARGET, GOLDEN)["MeanAbsoluteError"], rel=1e-5)


@requires("Preparations", "the installed package has the command msprobe")
def test_command() -> None:
    program = {script.name: script.value for script in entry_points(group="console_scripts")}
    assert program["msprobe"] == program["opdiff"]


@requires(
    "Preparations", "CANN Toolkit and operator packages are installed, and their environment variables are set",
    instead="the comparison runs with an empty environment",
)  # fmt: skip
def test_environment(case: Case) -> None:
    rules = case.one(TARGET, GOLDEN)
    words = (*COMPARE, "-tp", case.target, "-gp", case.golden, "-fr", rules, "-o", case.out)
    done = subprocess.run([sys.executable, "-m", "opdiff", *words, *QUIET], env={}, capture_output=True, check=True)
    assert b"Compared: 1 of 1 operator." in done.stdout


@requires("Syntax", "-fr, -cfr and -o are given together", "-fr, -qfr and -o are given together")
@requires("Syntax", "an original model is compared with -qfr alone")
@requires("Parameters, -m", "offline_data compares offline dumps")
@of_each({f"Parameters, {short}": f"the long spelling is {long}" for short, long in LONG.items()})
@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("options", ["-fr -cfr", "-fr -qfr", "-qfr"])
def test_spellings(stages: StageSample, command: Command, tmp_path: Path, options: str, *, is_long: bool) -> None:
    rules = {"-fr": stages.fusion_on_rules, "-cfr": stages.fusion_off_rules, "-qfr": stages.quant_rules}
    target = stages.quantized if options == "-qfr" else stages.fusion_on
    golden = stages.fusion_off if "-cfr" in options else stages.original
    given = {"-m": "offline_data", "-tp": target, "-gp": golden, "-o": tmp_path}
    given |= {option: rules[option] for option in options.split()}
    words = [word for option, value in given.items() for word in (LONG[option] if is_long else option, value)]
    assert command("compare", *words, *QUIET).code == 0
    (path,) = tmp_path.glob("result_*.csv")
    assert len(list(compared(read_result(path)))) >= 10


@requires("Parameters, -m", "other values are refused, and the message lists the values")
@of_each(dict.fromkeys(SIDES, "is mandatory: without it the message names it"))
def test_mandatory_options(command: Command) -> None:
    for words, told in (("-m offline -tp . -gp .", "offline_data"), ("-gp .", "-tp"), ("-tp .", "-gp")):
        done = command("compare", *words.split())
        assert (done.code, told in done.err) == (2, True), done


@requires("Parameters, -m", "offline_data refuses dumps of graph mode and names the mode that compares them")
def test_mode(torchair: GraphSample, command: Command) -> None:
    done = command(*COMPARE, "-tp", torchair.target, "-gp", torchair.golden)
    assert (done.code, "-m torchair" in done.err) == (3, True)


@requires("Parameters, -tp", "is the directory of many binary dump files, each of which is compared")
@requires("Parameters, -gp", "is the directory of many .npy files")
def test_directories(network: Result, offline: Sample) -> None:
    of_files = {path.name.split(".")[1] for path in Path(offline.target).iterdir()}
    found = {safe(operator_of(row)) for row in compared(network)}
    # The first part of an operator that was split has no original tensor.
    assert of_files - found <= {"merge_hswish_sigmoid", "Node_OpDebug"}
    assert len(of_files) > 50
    assert len({row["GoldenTensor"] for row in compared(network)}) > 50


@of_each(dict.fromkeys(SIDES, "the parent directory is needed: a file in its place is refused, saying so"))
@pytest.mark.parametrize("side", ["target", "golden"])
def test_files_in_place_of_directories(case: Case, side: str) -> None:
    rules = case.one(TARGET, GOLDEN)
    (file,) = getattr(case, side).iterdir()
    setattr(case, side, file)
    message = case.refused("-fr", rules)
    assert f"{file}: " in message
    assert "directory" in message


@requires("Parameters, -gp", "with -cfr: the directory of dumps of the model that was converted with fusion off")
@requires("Parameters, -cfr", "maps the operators of the model with fusion off to their originals")
@requires("Parameters, -fr", "is the file of the model with fusion on, and -cfr that of the model with fusion off")
def test_fusion_on_and_off(case: Case) -> None:
    case.npu("ab", TARGET)
    case.npu_golden("a_off", 2 * GOLDEN)
    case.npu_golden("b_off", GOLDEN)
    on = rule("ab", originals=("a", "b"), outputs=(describe("b", 0),))
    off = [rule(f"{name}_off", originals=(name,), outputs=(describe(name, 0),)) for name in "ab"]
    result = case.compared("-fr", case.rules(on, file="on.json"), "-cfr", case.rules(*off, file="off.json"), *QUIET)
    row = result.row("ab:output:0")
    assert (row["GoldenTensor"], row["GroundTruth"]) == ("b_off:output:0", "a_off,b_off")


@requires("Parameters, -o", "is optional: the default is the current directory", "a missing directory is made")
@requires("Parameters, -o", "the file of a single comparison is result_{timestamp}.csv")
@pytest.mark.parametrize("given", [False, True])
def test_output_directory(case: Case, command: Command, monkeypatch: pytest.MonkeyPatch, *, given: bool) -> None:
    rules = case.one(TARGET, GOLDEN)
    case.out.mkdir()
    monkeypatch.chdir(case.out)
    out = case.root / "new" / "folder" if given else case.out
    words = ("-o", out) if given else ()
    assert command(*COMPARE, "-tp", case.target, "-gp", case.golden, "-fr", rules, *QUIET, *words).code == 0
    assert [RESULT.fullmatch(path.name) is not None for path in out.glob("*.csv")] == [True]


@requires("Parameters, -o", "a directory of another user is not advised: a note says whose it is")
def test_output_directory_of_another_user(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, own = case.one(TARGET, GOLDEN), os.geteuid()
    assert "belongs to user" not in case.run("-fr", rules, *QUIET).err
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert re.search(rf"note: {case.out} belongs to user \S+; use a folder of your own", case.run("-fr", rules).err)


@requires("Parameters, -fr", "is the .json file that ATC makes of the .om file; it maps operators of the whole network")
def test_rules_map_operators(network: Result, described: list[Json]) -> None:
    originals = {op["name"]: ",".join(originals_of(op)) for op in described}
    found = {operator_of(row): row["GroundTruth"] for row in compared(network) if row["GroundTruth"] != "*"}
    assert {name: originals[name] for name in found} == found
    # Operators that were fused, and one that was renamed.
    assert sum("," in names for names in found.values()) > 10
    assert any(name != names and "," not in names for name, names in found.items())


def originals_of(op: Json) -> list[str]:
    """Return the original operators that a rule file names; none for operators that the compiler inserted."""
    attributes = {item["key"]: item["value"] for item in op["attr"]}
    return list(attributes["_datadump_original_op_names"]["list"].get("s", []))


@requires("Parameters, -qfr", "is the .json file that AMCT wrote; it maps operators that quantization inserted")
@requires("Parameters, -qfr", "original against quantized offline model: this option alone, -fr alone, or both")
@requires("Parameters, -qfr", "original against quantized offline model: refused without any of them, naming both")
@requires("Parameters, -qfr", "original against quantized original model: only this option; others are refused")
def test_quantization_rules(stages: StageSample, command: Command, tmp_path: Path) -> None:
    quant, off = ("-qfr", stages.quant_rules), ("-fr", stages.fusion_off_rules)
    compiled = {"by_qfr": quant, "by_fr": off, "by_both": (*off, *quant)}
    runs = [(name, stages.fusion_off, rules) for name, rules in compiled.items()]
    runs += [("original", stages.quantized, quant)]
    for name, target, rules in runs:
        words = (*COMPARE, "-tp", target, "-gp", stages.original, *rules, "-o", tmp_path / name, *QUIET)
        assert command(*words).code == 0, name
        (path,) = (tmp_path / name).glob("result_*.csv")
        pairs = {row["TensorIndex"]: row["GoldenTensor"] for row in compared(read_result(path))}
        assert pairs["block2/conv1_relu:output:0"] == "block2/conv1_relu:output:0", name
        inserted = pairs.get("block2/conv1_dequant_layer:output:0")
        assert inserted == (None if name == "by_fr" else "block2/conv1:output:0"), name
    done = command(*COMPARE, "-tp", stages.fusion_off, "-gp", stages.original, *QUIET)
    assert (done.code, "needs a rule file: add -fr or -qfr or -fr with -qfr" in done.err) == (2, True), done
    for extra in (off, ("-cfr", stages.fusion_off_rules)):
        done = command(*COMPARE, "-tp", stages.quantized, "-gp", stages.original, *quant, *extra, *QUIET)
        assert (done.code, f"{extra[0]} does not apply" in done.err) == (2, True)


@requires("Example", "the command runs as it is written")
@requires("Output", "result_{timestamp}.csv is in the directory where the command is executed")
@requires("Example", "dumps of the models on GPU and NPU are prepared", instead="the dumps are written by an encoder")
def test_example(case: Case, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    case.target, case.golden = (case.root / "data" / f"{side}_path" for side in ("target", "golden"))
    case.one(TARGET, GOLDEN).rename(case.root / "data" / "fusion_rule.json")
    monkeypatch.chdir(case.root)
    line = "-tp ./data/target_path -gp ./data/golden_path -fr ./data/fusion_rule.json"
    assert command(*COMPARE, *line.split()).code == 0
    assert [RESULT.fullmatch(path.name) is not None for path in case.root.glob("*.csv")] == [True]


# Training


@requires("Overview", "steps of a TensorFlow training are compared")
@requires("Parameters, -tp", "training: TensorFlow is the original network", "single file: its directory")
@requires("Parameters, -fr", "training: a .json file of the graph", "training, single file: one .json file")
@requires("Parameters, -o", "training, single file: the result is result_{timestamp}.csv")
def test_training_of_a_single_file(case: Case) -> None:
    name, golden = "resnet/block1/Conv2D", numbers(1, 3, 5, 16)
    case.target = case.target / TIME / "0" / "ge_default_7_11" / "1" / "0"
    case.npu(name, perturbed(golden))
    case.npy(name, golden)
    rules = case.rules(rule(name, outputs=(describe(name, 0, layout="NHWC"),)), graph="ge_default_7_11")
    result = case.compared("-fr", rules, *QUIET)
    assert RESULT.fullmatch(result.path.name)
    assert result.row(f"{name}:output:0")["Shape"] == "[1,3,5,16]"


@requires("Parameters, -tp", "training, batch: dump_path/time/ is the path of many dump files")
@requires("Parameters, -tp", "training, batch: dump files are in device_id/model_name/model_id/dump_step/ below it")
@requires("Parameters, -o", "training, batch: there are several results, one for each step")
@requires("Parameters, -o", "training, batch: a result is {device_id}_{model_name}_{dump_step}_result_{timestamp}.csv")
@requires("Parameters, -fr", "training, batch: a directory with a .json file for each model")
def test_training_batch(case: Case) -> None:
    first, second = "ge_default_7_11", "ge_default_7_21"
    steps = [(0, first, 0), (0, first, 10), (1, first, 0), (1, second, 3)]
    for device, model, number in steps:
        step(case, number, device=device, model=model)
    for graph in (first, second):
        case.rules(CONV, file=f"rules/{graph}.json", graph=graph)
    case.npy("conv", GOLDEN)
    case.target = case.target / TIME
    assert case.run("-fr", case.root / "rules", *QUIET).code == 0
    assert results(case.out) == [f"{device}_{model}_{number}_result_TIME.csv" for device, model, number in steps]
    for device, model, number in steps:
        (path,) = case.out.glob(f"{device}_{model}_{number}_result_*.csv")
        value = by_definition(perturbed(GOLDEN, seed=number), GOLDEN)["MaxAbsoluteError"]
        assert float(read_result(path).row("conv:output:0")["MaxAbsoluteError"]) == pytest.approx(value, rel=1e-5)


@requires("Parameters, -fr", "training, batch: one file is enough for one model, otherwise the right command is given")
def test_training_batch_with_one_file(case: Case) -> None:
    case.npy("conv", GOLDEN)
    rules = case.rules(CONV, graph="another")
    step(case, 0)
    step(case, 1)
    assert case.run("-fr", rules, *QUIET).code == 0
    assert len(results(case.out)) == 2
    step(case, 0, model="ge_default_7_21")
    done = case.run("-fr", rules, *QUIET)
    assert (done.code, f"opdiff compare {case.target} {case.golden} -fr RULES_DIR" in done.err) == (3, True)


@of_each(dict.fromkeys(("Parameters, -qfr", "Parameters, -cfr"), "is for inference: refused for steps of a training"))
@pytest.mark.parametrize("option", ["-qfr", "-cfr"])
@pytest.mark.parametrize("is_directory", [True, False])
def test_training_has_other_rules(case: Case, option: str, *, is_directory: bool) -> None:
    case.npy("conv", GOLDEN)
    step(case, 0)
    step(case, 1)
    rules = case.rules(CONV, file="rules/net.json", graph="ge_default_7_11")
    message = case.refused("-fr", rules.parent if is_directory else rules, option, rules, code=2)
    assert f"only inference takes {option}" in message


@requires("Result", "the columns have the documented names and the documented order")
@requires("Result, OverFlow", "is a column only with -overflow_detection")
@requires("Result, OpSequence", "is a column only if some operators are asked for")
def test_columns(network: Result, case: Case) -> None:
    assert tuple(network.header[: len(COLUMNS)]) == COLUMNS
    header = case.compared("-fr", case.one(TARGET, GOLDEN), *QUIET).header
    assert header[: len(COLUMNS) - 2] == [name for name in COLUMNS if name not in ("OverFlow", "OpSequence")]
    assert not {"OverFlow", "OpSequence"} & set(header)


@requires("Result, Index", "is the number of the operator in the network, the same for operators of the same originals")
@requires("Result, OpSequence", "is the id of the operator in the rule file")
@requires("Result, OpType", "is the type of the operator in the rule file")
@requires("Result, NPUDump", "is the name of the operator of the compiled model")
def test_operators(network: Result, described: list[Json]) -> None:
    groups: dict[object, int] = {}
    index = {op["name"]: groups.setdefault(tuple(originals_of(op)) or op["name"], len(groups)) for op in described}
    by_name = {op["name"]: op for op in described}
    for row in compared(network):
        op = by_name[operator_of(row)]
        assert operator_of(row) in row["NPUDump"].split(",")
        assert (row["OpSequence"], row["OpType"]) == (str(op["id"]), op["type"])
        assert row["Index"] == str(index[op["name"]]), op["name"]
    assert len({row["OpType"] for row in compared(network)}) > 10


@requires("Result, DataType", "is the element type in the dump", "of the ground truth that of the .npy file")
@requires("Result, Address", "is the device address in the dump")
@requires("Result, Shape", "is the shape of the compared tensor")
@requires("Result, TensorIndex", "has operator, input or output, and number of the dumped tensor")
@requires("Result, GroundTruth", "is the name of the operator of the original model")
def test_tensors(network: Result, offline: Sample, dumped: dict[str, Stored]) -> None:
    for row in compared(network):
        stored, golden = stored_of(row, dumped), golden_of(row, offline)
        types = ELEMENT_TYPES[stored.header.data_type], golden.dtype.name
        assert (row["DataType"], row["DataType#2"]) == types
        assert row["Address"] == str(stored.header.address)
        assert json.loads(row["Shape"]) == [*stored.numbers().shape]
        if row["GroundTruth"] != "*" and ":output:" in row["TensorIndex"]:
            assert row["GoldenTensor"].split(":")[0] in row["GroundTruth"].split(",")
    assert {row["DataType"] for row in compared(network)} == {"float16", "float32", "int32"}
    assert len({row["Address"] for row in compared(network)}) > 10


@requires("Result, Address", "is a column of both sides for dumps of the NPU, and of no side of arrays")
def test_addresses(case: Case) -> None:
    case.npu("a", tensor(TARGET, address=4096))
    case.npu_golden("a", tensor(GOLDEN, address=8192))
    row = case.compared(*QUIET).row("a:output:0")
    assert (row["Address"], row["Address#2"]) == ("4096", "8192")
    case.npy("a_quant_layer", TARGET, folder=case.root / "arrays")
    case.npy("a", GOLDEN, folder=case.root / "originals")
    case.target, case.golden = case.root / "arrays", case.root / "originals"
    rules = case.rules(rule("a_quant_layer", originals=("a",), outputs=(describe("a", 0),)))
    assert "Address" not in case.compared("-qfr", rules, *QUIET).header


@requires("Result, OverFlow", "YES for a tensor with overflow, NO for one without, NaN if its type cannot overflow")
def test_overflow(case: Case) -> None:
    tensors = {
        "inf": tensor([1.0, np.inf], dtypes.FLOAT16),
        "largest": tensor([1.0, -65504.0], dtypes.FLOAT16),
        "finite": tensor([1.0, 65472.0], dtypes.FLOAT16),
        "integer": tensor(np.array([1, 2**31 - 1]), dtypes.INT32),
    }
    for name, made in tensors.items():
        case.npu(name, made)
        case.npy(name, np.array([1.0, 2.0], np.float32))
    result = case.compared("-fr", rules_of(case, *tensors), "-overflow_detection", *QUIET)
    assert [result.of(name)["OverFlow"] for name in tensors] == ["YES", "YES", "NO", "NaN"]


@of_metrics(DOCUMENTED, "has the value of an independent computation in float64")
def test_values(network: Result, offline: Sample, dumped: dict[str, Stored]) -> None:
    count = 0
    for row in compared(network):
        target, golden = stored_of(row, dumped).numbers(), golden_of(row, offline)
        for metric, value in by_definition(target, golden).items():
            found = float(row[metric])
            assert found == pytest.approx(value, rel=1e-5, abs=1e-9, nan_ok=True), (row["TensorIndex"], metric)
        shown = [float(text) for text in re.findall(r"-?[\w.]+", row["StandardDeviation"])]
        assert shown == pytest.approx(deviations(target, golden), abs=1.001e-3, nan_ok=True)
        count += 1
    assert count > 100


@requires("Result, CosineSimilarity", "ranges from -1 to 1")
@of_metrics([*ERRORS, "StandardDeviation"], "ranges from 0 to infinity")
def test_ranges(case: Case, network: Result) -> None:
    rows = [row for row in compared(network) if row["SpecialMismatch"] == "0"]
    rows += [measure(case, -GOLDEN, GOLDEN), measure(case, 1e30 * GOLDEN, GOLDEN), measure(case, GOLDEN, GOLDEN)]
    for row in rows:
        assert -1 <= float(row["CosineSimilarity"]) <= 1
        assert all(float(row[name]) >= 0 for name in ERRORS)
        assert all(float(text) >= 0 for text in re.findall(r";([\w.]+)\)", row["StandardDeviation"]))
    assert [float(row["CosineSimilarity"]) for row in rows[-3:]] == [-1, 1, 1]
    assert float(rows[-2]["MaxAbsoluteError"]) > 1e30
    infinite = measure(case, np.where(GOLDEN > 2, np.float32(np.inf), GOLDEN), GOLDEN)
    assert float(infinite["MaxAbsoluteError"]) == np.inf


@requires("Result, CosineSimilarity", "is closer to 1 for more similar tensors, and 1 for equal ones")
@of_metrics(ERRORS, "is closer to 0 for more similar tensors, and 0 for equal ones")
@requires("Result, StandardDeviation", "is smaller for values closer to their average")
def test_more_similar_tensors_have_better_values(case: Case) -> None:
    noise = perturbed(GOLDEN) - GOLDEN
    rows = [measure(case, GOLDEN + factor * noise, GOLDEN) for factor in (0, 1, 10, 40)]
    for name in ERRORS:
        values = [float(row[name]) for row in rows]
        assert values[0] == 0, name
        assert values == sorted(set(values)), name
    cosines = [float(row["CosineSimilarity"]) for row in rows]
    assert cosines == [1, *sorted(cosines[1:], reverse=True)]
    spread, narrow = (measure(case, GOLDEN * factor, GOLDEN)["StandardDeviation"] for factor in (1, np.float32(0.5)))
    first, second = (float(text.partition(";")[2].partition(")")[0]) for text in (spread, narrow))
    assert second == pytest.approx(first / 2, abs=1e-3)


@requires("Result, RootMeanSquareError", "is never less than MeanAbsoluteError")
def test_rmse_and_mae(network: Result, case: Case) -> None:
    rows = [*compared(network)]
    rows += [measure(case, GOLDEN + np.float32(offset), GOLDEN) for offset in (1e-30, 1e-3, 0.1, 1 / 3, 1e20)]
    rows += [measure(case, perturbed(numbers(63, 65), seed), numbers(63, 65)) for seed in range(5)]
    for row in rows:
        mae, rmse = float(row["MeanAbsoluteError"]), float(row["RootMeanSquareError"])
        assert rmse >= mae or np.isnan(rmse)


@requires("Result, MeanAbsoluteError", "both it and RootMeanSquareError are close to 0 if measured and true values are")
@requires("Result, MeanAbsoluteError", "if close to 0, a larger RootMeanSquareError shows that a few errors are large")
@requires("Result, MeanAbsoluteError", "if large, equals RootMeanSquareError where all elements are off by the same")
@requires("Result, MeanAbsoluteError", "if large, is less than RootMeanSquareError where errors are scattered")
def test_what_mae_and_rmse_show(case: Case) -> None:
    golden = numbers(100, 100)
    outlier = golden.copy()
    outlier[3, 4] += 64
    scattered = golden * np.linspace(0, 4, 10_000, dtype=np.float32).reshape(100, 100)
    pairs = []
    for target in (golden + np.float32(2**-20), outlier, golden + 2, scattered):
        row = measure(case, target, golden)
        pairs.append((float(row["MeanAbsoluteError"]), float(row["RootMeanSquareError"])))
    close, few, offset, wide = pairs
    assert max(close) < 1e-5
    assert 50 * few[0] < few[1] < 1
    assert offset == (2.0, 2.0)
    assert 1.2 < 1.2 * wide[0] < wide[1]


@requires("Result, CompareFailReason", "every row without values has the cause", "rows with values have none")
def test_causes(network: Result, case: Case) -> None:
    for row in network.rows:
        assert bool(row["CompareFailReason"]) == (not row["Elements"]), row["TensorIndex"]
        if row["SpecialMismatch"] == "0":
            assert "NaN" not in {row[name] for name in DOCUMENTED}, row["TensorIndex"]
    case.npu("shape", numbers(2, 3))
    case.npu("missing", numbers(2, 3))
    broken = case.npu("broken", numbers(2, 3))
    broken.write_bytes(broken.read_bytes()[:-5])
    for name in ("shape", "broken"):
        case.npy(name, numbers(3, 4))
    names = ("shape", "missing", "broken", "not_dumped")
    result = case.compared("-fr", rules_of(case, *names), *QUIET, code=3)
    causes = [result.of(name)["CompareFailReason"] for name in names]
    told = "[2, 3], the golden [3, 4]", "the golden dump has no file", "cannot be read", "the target dump has no file"
    assert all(text in cause for text, cause in zip(told, causes, strict=True)), causes


@requires("Result, CompareFailReason", "`this tensor is scalar.` for shapes that are empty or all 1; the cosine is 1")
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
def test_scalars(case: Case, shape: tuple[int, ...]) -> None:
    row = measure(case, np.full(shape, 3.0, np.float32), np.full(shape, 2.0, np.float32))
    assert (row["CosineSimilarity"], row["CompareFailReason"]) == ("1.000000", "this tensor is scalar.")
    assert json.loads(row["Shape"]) == [*shape]
    assert float(row["MaxAbsoluteError"]) == 1
    assert measure(case, np.full((1, 2), 3.0, np.float32), np.full((1, 2), 2.0, np.float32))["CompareFailReason"] == ""
