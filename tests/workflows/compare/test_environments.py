"""Differences between the environments of two runs: named in a note, and in the verdict if the runs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from command_line import run
from dump_files import TIME
from graph_dumps import GraphCase
from made_dumps import Case, describe, numbers, rule
from model_files import ModelDef, attr, om_file
from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, encode_tensor, standard_dump
from opdiff.sample.graph_text import TextNode
from opdiff.sample.names import DumpName

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray

X = numbers(4, 6)
WRONG = X * 3
DAY = 86_400 * 1_000_000
FORMATS = "dump format standard (target) and standard 2.0 (golden)"
NOTE = "the environments of the two runs differ: "


@pytest.fixture
def graphs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> GraphCase:
    return GraphCase(tmp_path, capsys)


def add_dump(case: Case, side: str, array: AnyArray, **more: Any) -> None:
    """Write operator `a` of one side; `more` has fields of its header, and element type and layout of its output."""
    output = encode_tensor(array, more.pop("dtype", dtypes.FLOAT32), more.pop("layout", "ND"))
    content = standard_dump(EncodedDump(outputs=(output,), op_name="a", **{"dump_time": TIME, **more}))
    case.add(case.root / side, str(DumpName("Op", "a", 1, 3, TIME)), content)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ({}, ""),
        ({"version": "1.0"}, "dump format standard 1.0 (target) and standard 2.0 (golden)"),
        (
            {"version": "", "dump_time": TIME + 3 * DAY},
            f"{FORMATS}; date of the dump 2022-12-19 (target) and 2022-12-16 (golden)",
        ),
        ({"layout": "NHWC"}, "layout of 1 of 1 operators NHWC (target) and ND (golden)"),
        ({"dtype": dtypes.FLOAT16}, "element type of 1 of 1 operators float16 (target) and float32 (golden)"),
    ],
    ids=["equal", "version", "version_and_days", "layout", "precision"],
)
def test_facts_of_dumps(case: Case, target: dict[str, object], told: str) -> None:
    add_dump(case, "target", WRONG, **target)
    add_dump(case, "golden", X)
    out = run(case.capsys, "compare", case.target, case.golden, "-o", case.out, "--no-html").out
    assert out.startswith(f"{NOTE}{told}\n" if told else "a (Op) is at fault")
    whole = out.replace("\n  ", " ")
    assert (f"differ, which may be the cause: {told}." in whole) == bool(told)
    judged = run(case.capsys, "judge", case.out).out.replace("\n  ", " ")
    assert (f"differ, which may be the cause: {told}." in judged) == bool(told)


CHECK = "Dumps do not record the versions of CANN, driver and firmware: check that they match each other in both runs"
DATES = "date of the dump 2022-12-19 (target) and 2022-12-16 (golden)"


def told_by(case: Case, *options: object) -> str:
    out = run(case.capsys, "compare", case.target, case.golden, "-o", case.out, "--no-html", *options).out
    return out.replace("\n  ", " ")


@pytest.mark.parametrize("in_header", [True, False])
def test_dates_alone_are_no_other_environment(case: Case, *, in_header: bool) -> None:
    """The date is in the header, otherwise in the name of the file."""
    later = TIME + 3 * DAY
    output = encode_tensor(WRONG, dtypes.FLOAT32, "ND")
    content = standard_dump(EncodedDump(outputs=(output,), op_name="a", dump_time=later if in_header else 0))
    case.add(case.target, str(DumpName("Op", "a", 1, 3, TIME if in_header else later)), content)
    add_dump(case, "golden", X)
    out = told_by(case)
    assert out.startswith(f"{DATES}\na (Op) is at fault")
    assert "may be the cause" not in out
    assert f"The {DATES}. {CHECK}" in out
    assert f"The {DATES}. {CHECK}" in run(case.capsys, "judge", case.out).out.replace("\n  ", " ")


def test_numbers_of_files_that_are_no_times_are_no_dates(case: Case) -> None:
    for side, array, number in (("target", WRONG, 1), ("golden", X, TIME)):
        output = encode_tensor(array, dtypes.FLOAT32, "ND")
        content = standard_dump(EncodedDump(outputs=(output,), op_name="a", dump_time=0))
        case.add(case.root / side, str(DumpName("Op", "a", 1, 3, number)), content)
    assert "date" not in told_by(case)


@pytest.mark.parametrize(("array", "is_told"), [(WRONG, True), (X, False)])
def test_unrecorded_versions_are_to_be_checked_if_runs_differ(case: Case, array: AnyArray, *, is_told: bool) -> None:
    add_dump(case, "target", array)
    add_dump(case, "golden", X)
    assert (CHECK in told_by(case)) == is_told


@pytest.mark.parametrize(("array", "is_told"), [(WRONG, True), (X * 1.02, False), (X, False)])
def test_an_upgrade_explains_outputs_that_differ_from_another_platform(
    case: Case, array: AnyArray, *, is_told: bool
) -> None:
    """The dump has the input and the output of one operator."""
    case.npu("a", X)
    case.npu("b", array.astype(X.dtype), inputs=(X,))
    case.npy("a", X)
    case.npy("b", X)
    rules = case.rules(rule("a", outputs=(describe("a", 0),)), rule("b", inputs=("a:0",), outputs=(describe("b", 0),)))
    out = told_by(case, "-fr", rules)
    assert ("If this began with an upgrade of the environment, check that the versions of CANN" in out) == is_told
    assert CHECK not in out


def test_the_verdict_of_equal_runs_does_not_name_the_environment(case: Case) -> None:
    add_dump(case, "target", X, version="1.0")
    add_dump(case, "golden", X)
    out = run(case.capsys, "compare", case.target, case.golden, "-o", case.out, "--no-html").out
    assert out.startswith(NOTE)
    assert "may be the cause" not in out


def model(**attributes: str) -> bytes:
    made = [attr(name, s=value.encode()) for name, value in attributes.items()]
    graph = {"name": "net", "op": [{"name": "a", "type": "Op"}]}
    return om_file(ModelDef(name="net", graph=[graph], attr=made).SerializeToString())


def test_facts_of_offline_models(case: Case) -> None:
    add_dump(case, "target", WRONG)
    add_dump(case, "golden", X)
    command = "atc --model=net.onnx --precision_mode={}"
    sides = {
        "on.om": model(soc_version="Ascend310", atc_version="1.80", atc_cmdline=command.format("force_fp16")),
        "off.om": model(soc_version="Ascend910", atc_version="1.80", atc_cmdline=command.format("origin")),
    }
    paths = [case.add(case.root, name, content) for name, content in sides.items()]
    out = case.run("-fr", paths[0], "-cfr", paths[1], "--no-html").out
    told = (
        "processor Ascend310 (target) and Ascend910 (golden); --precision_mode force_fp16 (target) and origin (golden)"
    )
    assert f"{NOTE}{told}\n" in out
    assert f"may be the cause: {told}." in out.replace("\n  ", " ")


def test_facts_of_graph_texts_and_folders(graphs: GraphCase) -> None:
    case = graphs
    version = 'attr {{ key: "soc_version" value {{ s: "{}" }} }}\n'
    for root, value, processor, extra in (
        (case.target, WRONG, "Ascend910B", ()),
        (case.off, X, "Ascend310P", ("Relu",)),
    ):
        case.ge("Add", (), (value,), root=root)
        text = case.text(TextNode("Add", "Add"), *(TextNode(name, name) for name in extra), root=root)
        text.write_text(text.read_text() + version.format(processor))
    out = case.run(golden=case.off).out
    versions = "soc_version Ascend910B (target) and Ascend310P (golden)"
    sizes = "number of operators in the graph text 1 (target) and 2 (golden)"
    assert f"note: {NOTE}{versions}; {sizes}\n" in out
    assert f"may be the cause: {versions}; {sizes}." in out.replace("\n  ", " ")


def test_folders_show_the_version_of_torchair(graphs: GraphCase) -> None:
    case = graphs
    case.text(TextNode("Add", "Add"))
    case.ge("Add", (), (X,))
    case.ge("Add", (), (X,), root=case.off, folder="20240130064151/0/graph_1_0/1/0")
    told = "version of TorchAir 7.1.0 or newer (target) and older than 7.1.0 (golden)"
    assert f"note: {NOTE}{told}\n" in case.run(golden=case.off).out
