"""Every combination of two dumps and rule files: compared, or rejected with a reason."""

from __future__ import annotations

import pytest

from dump_files import tensor
from made_dumps import DOCUMENTED, Case, assert_measured, describe, numbers, perturbed, rule

GOLDEN = numbers(3, 5)
TARGET = perturbed(GOLDEN)
QUANT = "conv_dequant_layer"

# Names of the four kinds of data in messages.
CALLED = {
    "npu": "dumps of a model run on an NPU (not quantized)",
    "npu-quant": "dumps of a model run on an NPU (quantized: ",
    "npy": "arrays (.npy) of an original model (not quantized)",
    "npy-quant": "arrays (.npy) of an original model (quantized: ",
}
NAMES = {"npu": "conv", "npy": "conv", "npu-quant": QUANT, "npy-quant": QUANT}

ADDRESSES = {"npu": ["Address"], "npu-quant": ["Address"], "npy": [], "npy-quant": []}


def write_sides(case: Case, target: str, golden: str) -> None:
    """Write one operator on each side; its name differs in a quantized model."""
    for folder, kind, values in ((case.target, target, TARGET), (case.golden, golden, GOLDEN)):
        if kind.startswith("npu"):
            case.npu(NAMES[kind], values, folder=folder)
        else:
            case.npy(NAMES[kind], values, folder=folder)


def options(case: Case, given: str) -> list[object]:
    """Write the rule files and return their options."""
    files = {
        # The compiled model was made from the original one.
        "-fr": (rule("conv", outputs=(describe("conv", 0),)),),
        "-fr:quant": (rule(QUANT, outputs=(describe(QUANT, 0),)),),
        "-fr:original": (rule(QUANT, originals=("conv",), outputs=(describe("conv", 0),)),),
        "-qfr": (rule(QUANT, originals=("conv",), outputs=(describe("conv", 0),)),),
        # A fake-quantized model keeps the names.
        "-qfr:fake": (rule("conv", originals=("conv",), outputs=(describe("conv", 0),)),),
        "-cfr": (rule("conv", outputs=(describe("conv", 0),)),),
        "-cfr:quant": (rule(QUANT, outputs=(describe(QUANT, 0),)),),
    }
    words: list[object] = []
    for number, item in enumerate(given.split()):
        words += [item.partition(":")[0], case.rules(*files[item], file=f"rules{number}.json")]
    return words


@pytest.mark.parametrize(
    ("target", "golden", "given"),
    [
        pytest.param("npu", "npy", "-fr", id="offline model against its original"),
        pytest.param("npu-quant", "npy", "-qfr", id="quantized offline model against the original, by quant rules"),
        pytest.param("npu-quant", "npy", "-fr:original", id="quantized offline model against the original, by rules"),
        pytest.param("npu-quant", "npy", "-fr:quant -qfr", id="quantized offline model against the original, by both"),
        pytest.param("npu-quant", "npy-quant", "-fr:quant", id="quantized offline model against quantized original"),
        pytest.param("npy-quant", "npy", "-qfr", id="quantized original against the original"),
        pytest.param("npy", "npy", "-qfr:fake", id="fake-quantized original with the names of the original"),
        pytest.param("npu", "npu", "", id="two versions"),
        pytest.param("npu-quant", "npu-quant", "", id="two versions, quantized"),
        pytest.param("npu", "npu", "-fr -cfr", id="fusion on against off"),
        pytest.param("npu-quant", "npu-quant", "-fr:quant -cfr:quant", id="fusion on against off, quantized"),
    ],
)
def test_compared(case: Case, target: str, golden: str, given: str) -> None:
    write_sides(case, target, golden)
    result = case.compared(*options(case, given))
    head = ["Index", "OpType", "NPUDump", "DataType", *ADDRESSES[target], "GroundTruth", "DataType#2"]
    second = "Address#2" if ADDRESSES[target] else "Address"
    head += [second] if ADDRESSES[golden] else []
    head += ["TensorIndex", "Shape", *DOCUMENTED, "CompareFailReason"]
    assert result.header[: len(head)] == head
    (row,) = result.rows
    assert row["TensorIndex"] == f"{NAMES[target]}:output:0"
    assert row["GoldenTensor"] == f"{NAMES[golden]}:output:0"
    assert (row["Shape"], row["CompareFailReason"]) == ("[3,5]", "")
    assert (row["DataType"], row["DataType#2"]) == ("float32", "float32")
    assert_measured(row, TARGET, GOLDEN)


def test_the_short_names_of_rule_options(case: Case) -> None:
    write_sides(case, "npu", "npu")
    fusion = case.rules(rule("conv", outputs=(describe("conv", 0),)))
    result = case.compared("-f", fusion, "-cf", fusion)
    assert result.row("conv:output:0")["GoldenTensor"] == "conv:output:0"


def test_addresses_are_read_from_both_headers(case: Case) -> None:
    case.npu("a", tensor([1.0, 2.0], address=4096))
    case.npu_golden("a", tensor([1.0, 2.0], address=8192))
    rules = case.rules(rule("a", outputs=(describe("a", 0),)))
    for words in ((), ("-fr", rules, "-cfr", rules)):
        row = case.compared(*words).row("a:output:0")
        assert (row["Address"], row["Address#2"]) == ("4096", "8192")


@pytest.mark.parametrize(
    ("target", "golden", "given", "code", "why"),
    [
        ("npu", "npy", "-fr -qfr", 2, "takes -fr, but -fr with -qfr was given: -qfr does not apply."),
        ("npu-quant", "npy", "-fr:quant -cfr", 2, "-cfr does not apply."),
        ("npy-quant", "npy", "-qfr -cfr", 2, "-cfr does not apply."),
        ("npy-quant", "npu", "-qfr", 3, "The NPU dump must be the target: swap -tp and -gp."),
        ("npy", "npy-quant", "-fr", 3, "needs the original model as golden."),
        ("npu", "npu", "-fr -cfr -qfr", 2, "-qfr does not apply."),
        ("npu", "npu-quant", "", 3, "only if both are quantized or neither is."),
    ],
)
def test_rejected(case: Case, target: str, golden: str, given: str, code: int, why: str) -> None:
    write_sides(case, target, golden)
    message = case.refused(*options(case, given), code=code)
    assert f"The target {case.target} contains {CALLED[target]}" in message
    assert f"the golden {case.golden} contains {CALLED[golden]}" in message
    assert why in message


def test_training_of_one_step_equals_the_comparison_of_one_folder(case: Case) -> None:
    step = case.target / "20240101120000" / "0" / "ge_default_20240101120000_11" / "1" / "2"
    case.npu("conv", TARGET, folder=step)
    case.npy("conv", GOLDEN)
    result = case.compared("-fr", case.rules(rule("conv", outputs=(describe("conv", 0),))))
    assert result.path.name.startswith("result_")
    assert_measured(result.row("conv:output:0"), TARGET, GOLDEN)
