"""Operators with several files, or with file names that do not contain them: slices, hashes, timestamps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dump_files import TIME, hashed_name, mapping_csv, tensor
from graph_dumps import saved
from made_dumps import Case, assert_measured, describe, numbers, perturbed, read_result, rule
from opdiff.report.saved_json import load
from opdiff.sample.container import EncodedDump, standard_dump
from opdiff.sample.names import DumpName, Task, golden_name
from page_data import pack, raw_document, sentences
from sliced_dumps import Cuts, SliceFile, automatic_slices, manual_slices

A, B, C = (numbers(4, 6, seed=seed) for seed in range(3))
X, Y, Z = (perturbed(golden, seed=seed) for seed, golden in enumerate((A, B, C)))


Slice = Callable[[DumpName, EncodedDump, Cuts], tuple[SliceFile, ...]]
SLICES = pytest.mark.parametrize("cut", [automatic_slices, manual_slices], ids=["automatic", "manual"])


@SLICES
@pytest.mark.parametrize("parts", [2, 3])
def test_ffts_slices_are_joined(case: Case, parts: int, cut: Slice) -> None:
    case.npy("conv", A)
    dump = EncodedDump(outputs=(tensor(X),), op_name="conv")
    name = DumpName("Conv2D", "conv", 4, 3, TIME)
    for part in cut(name, dump, Cuts(((1, parts),))):
        case.add(case.target, part.name, part.content)
    result = case.compared("-fr", case.rules(rule("conv", outputs=(describe("conv", 0),))))
    row = result.row("conv:output:0")
    assert row["Shape"] == "[4,6]"
    assert f"joined from {parts} slices along axis 1" in row["Conversion"]
    assert_measured(row, X, A)


@SLICES
def test_operator_with_a_missing_slice_is_not_compared(case: Case, cut: Slice) -> None:
    case.npy("conv", A)
    dump = EncodedDump(outputs=(tensor(X),), op_name="conv")
    for part in cut(DumpName("Conv2D", "conv", 4, 3, TIME), dump, Cuts(((1, 3),)))[:-1]:
        case.add(case.target, part.name, part.content)
    result = case.compared("-fr", case.rules(rule("conv", outputs=(describe("conv", 0),))), code=3)
    assert "2 of 3 slices are present" in result.of("conv")["CompareFailReason"]


def test_slices_of_an_operator_in_a_scheduled_sub_graph(case: Case) -> None:
    case.npu_golden("conv", A)
    name = DumpName("Conv2D", "partition0_sgt_graph_0_conv", 4, 3, TIME)
    dump = EncodedDump(outputs=(tensor(X),), op_name="conv")
    for part in manual_slices(name, dump, Cuts(((2, 1),))):
        case.add(case.target, part.name, part.content)
    assert_measured(case.compared().row("conv:output:0"), X, A)


def test_hashed_long_names_on_both_sides(case: Case) -> None:
    long = "scope_" + "very_long_name_" * 20
    case.npy("b", B)
    case.npu("b", Y)
    target = str(DumpName("Op", long, 9, 3, TIME))
    golden = golden_name(long, 0, TIME)
    for folder, name, content in (
        (case.target, target, standard_dump(EncodedDump(outputs=(tensor(X),)))),
        (case.golden, golden, saved(A)),
    ):
        hashed = hashed_name(str(folder), name)
        case.add(folder, hashed, content)
        (folder / "mapping.csv").write_text(mapping_csv([(hashed, name)]))
    result = case.compared("-fr", case.rules(rule(long), rule("b")))
    assert_measured(result.row(f"{long}:output:0"), X, A)
    assert_measured(result.row("b:output:0"), Y, B)


def short(time: int) -> str:
    return str(DumpName("Op", "a", 9, 3, time))


def with_task(time: int) -> str:
    return str(replace(DumpName("Op", "a", 9, 3, time), task=Task(0, 1, 2, 0)))


@pytest.mark.parametrize("named", [short, with_task], ids=["five fields", "nine fields"])
def test_newest_of_several_timestamps_is_used(case: Case, named: Callable[[int], str]) -> None:
    for time, ours, theirs in ((TIME + 100, X, A), (TIME + 9, Y, B), (TIME, Z, C)):
        case.add(case.target, named(time), standard_dump(EncodedDump(outputs=(tensor(ours),))))
        case.npy("a", theirs, time=time)
    outcome = case.run("-fr", case.rules(rule("a")))
    (path,) = case.results()
    assert_measured(read_result(path).row("a:output:0"), X, A)
    printed = " ".join(outcome.out.split())
    for side, oldest, newest in (
        ("target", case.target / named(TIME), named(TIME + 100)),
        ("golden", case.golden / golden_name("a", 0, TIME), golden_name("a", 0, TIME + 100)),
    ):
        note = (
            f"not used: 2 files of the {side}, such as {oldest}: the operator has several dumps, and {newest} is used"
        )
        assert note in printed
        (saved_file,) = case.results("*.json")
        comparison = load(str(saved_file))
        assert any(note == str(each) for each in comparison.notes)
        document = raw_document(pack(comparison, lambda _block: None))
        assert note in sentences(document["notes"], document)


def test_inputs_and_outputs_in_two_files_are_compared(case: Case) -> None:
    case.npu_golden("a", A, inputs=(B,))
    for time, part in ((TIME, EncodedDump(inputs=(tensor(Y),))), (TIME + 9, EncodedDump(outputs=(tensor(X),)))):
        case.add(case.target, short(time), standard_dump(part))
    result = case.compared()
    assert_measured(result.row("a:input:0"), Y, B)
    assert_measured(result.row("a:output:0"), X, A)


def test_operators_with_unreadable_files_are_named(case: Case) -> None:
    case.npy("a", A)
    case.npu("a", X)
    case.add(case.golden, golden_name("b", 0, TIME), b"")
    outcome = case.run("-fr", case.rules(rule("a")))
    why = f"{golden_name('b', 0, TIME)}: the file is empty"
    assert f"files of 1 operator of the golden cannot be read, such as b: {why}" in " ".join(outcome.out.split())
