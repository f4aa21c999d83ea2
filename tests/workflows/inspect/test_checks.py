"""Every check, provoked by files: codes and locations of the findings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, add, dump, numbered, tensor, with_header_field
from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, EncodedTensor, Overflow, overflow_dump, overflow_record, standard_dump
from opdiff.sample.names import DumpName
from opdiff.workflows.inspect.checks import Severity
from opdiff.workflows.inspect.contents import Depth
from opdiff.workflows.inspect.report import inspect_tree
from sliced_dumps import Cuts, automatic_slices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Locations = dict[str, list[str]]

ADD = f"Add.a.1.2.{TIME}"
SUB = f"Sub.b.3.2.{TIME + 1}"
VALID_DUMP = dump(tensor([1.0, 2.0]), inputs=(tensor([3.0, 4.0]),))
RECORD = overflow_record(Overflow())


def step(root: Path, number: int) -> Path:
    return root / "20240115103052" / "0" / "net" / "1" / str(number)


def examine(root: Path, depth: Depth = Depth.SAMPLES) -> Locations:
    """Return the locations of the findings, relative to the directory, by code."""
    report = inspect_tree(str(root), depth=depth)
    return {
        found.code: [str(location).replace(str(root), ".") for location in found.where] for found in report.findings
    }


def test_not_finite_values_are_found_when_all_are_read(tmp_path: Path) -> None:
    add(tmp_path, ADD, dump(tensor([1.0, float("nan"), float("-inf"), 2.0]), inputs=(tensor([3.0, 4.0]),)))
    assert examine(tmp_path) == {}
    assert examine(tmp_path, Depth.VALUES) == {"not-finite": [".: a:output:0: 1 NaN and 1 infinite of 4"]}


def test_a_sound_directory(tmp_path: Path) -> None:
    for name in (ADD, SUB):
        add(tmp_path, name, VALID_DUMP)
    assert examine(tmp_path) == {}


# Each adds files to a directory with a sound dump, and returns the expected findings.


def _unknown_field(root: Path) -> Locations:
    add(root, SUB, with_header_field(VALID_DUMP, b"\x50\x07"))
    about = "the header has a field of unknown number 10: it is damaged, or of a newer version (byte 49)"
    return {"doubtful": [f"./{SUB}: {about}"]}


def _bytes_left(root: Path) -> Locations:
    add(root, SUB, VALID_DUMP + b"more")
    size = len(VALID_DUMP)
    about = f"header and tensors take {size} bytes, but the file has {size + 4} (byte {size})"
    return {"unreadable": [f"./{SUB}: {about}"]}


def _empty(root: Path) -> Locations:
    add(root, SUB, b"")
    return {"unreadable": [f"./{SUB}: the file is empty; the dump was interrupted or the disk was full"]}


def _cut_off(root: Path) -> Locations:
    add(root, SUB, VALID_DUMP[:-1])
    size = len(VALID_DUMP)
    problem = f"8 bytes of data start here, but the file ends at {size - 1}: it is truncated (byte {size - 8})"
    return {"unreadable": [f"./{SUB}: {problem}"]}


def _cut_off_behind_a_newer_one(root: Path) -> Locations:
    """An older dump of an operator is not needed, but its loss is reported."""
    older = f"Sub.b.3.2.{TIME - 5}"
    add(root, older, b"123")
    add(root, SUB, VALID_DUMP)
    return {
        "unreadable": [f"./{older}: 3 bytes are too few for a dump; the file is truncated or was never written"],
        "several-dumps": [".: b: 2 files"],
    }


def _cut_off_record(root: Path) -> Locations:
    name = f"Opdebug.Node_OpDebug.1.2.{TIME}"
    add(root, name, standard_dump(overflow_dump(RECORD[:20])))
    return {
        "unreadable": [f"./{name}: field data_len should have 4 bytes, but 0 are left (byte 60)"],
        "overflow-records": [f"./{name}"],
    }


def _damaged_statistics(root: Path) -> Locations:
    add(root, f"{SUB}.csv", b"Input/Output,Index\nsideways,0\n")
    problem = "not a row of tensor statistics: 'sideways' is not a valid Slot"
    return {"unreadable": [f"./{SUB}.csv: {problem}"], "statistics": [f"./{SUB}.csv"]}


def _missing_slice(root: Path) -> Locations:
    whole = EncodedDump(inputs=(tensor([1.0, 2.0]),), outputs=(tensor(np.arange(6.0)),))
    first, _ = automatic_slices(DumpName("Sub", "b", 3, 2, TIME), whole, Cuts(((2,),)))
    add(root, first.name, first.content)
    other = first.name.replace(f".{TIME}.4.0.0.0", f".{TIME + 9}.4.0.0.0")
    add(root, other, first.content)
    return {"unreadable": [f"./{other}: only 1 of 2 slices are present; they cannot be joined"]}


def _too_short(root: Path) -> Locations:
    add(root, SUB, dump(EncodedTensor(dtypes.FLOAT16, (3, 5), "ND", bytes(range(1, 21))), inputs=(tensor([1.0]),)))
    return {"too-short": [".: b:output:0: shape [3, 5] needs 30 bytes, 20 are stored"]}


def _undecodable(root: Path) -> Locations:
    odd = EncodedTensor(dtypes.HIFLOAT4, (4,), "ND", b"ab"), EncodedTensor(99, (4,), "ND", b"ab")
    add(root, SUB, dump(*odd, inputs=(tensor([1.0]),)))
    return {
        "undecodable": [
            ".: b:output:0: hifloat4: its encoding is not published",
            ".: b:output:1: type_99: number 99 is not a known element type",
        ]
    }


def _link(root: Path) -> Locations:
    (root / SUB).symlink_to("/etc/hostname")
    (root / "folder").mkdir()
    (root / "link").symlink_to(root / "folder")
    (root / f"Sub.c.3.2.{TIME}").symlink_to(root / "nothing")
    return {
        "not-taken": [
            f"./{SUB}: a link that leaves the directory; not followed",
            f"./Sub.c.3.2.{TIME}: a broken link",
            "./link: a link to a folder that is read in its own place",
        ]
    }


def _hash(root: Path) -> Locations:
    add(root, "1234567890", VALID_DUMP)
    (root / "mapping.csv").write_text("no comma\n")
    return {
        "not-taken": [
            "./mapping.csv: ignored 1 line not of the form `digits,name`, the first is line 1",
            "./1234567890: the name is a hash, but no mapping.csv in its folder gives the real name",
        ]
    }


def _pipe(root: Path) -> Locations:
    os.mkfifo(root / SUB)
    return {"not-taken": [f"./{SUB}: not a regular file"]}


def _unrecognized(root: Path) -> Locations:
    add(root, "core.dump", b"x")
    add(root, "graph.json", b"{}")
    return {"unreadable-name": ["./core.dump"]}


def _lost_type(root: Path) -> Locations:
    np.save(root / f"gold.0.{TIME}.npy", np.arange(3, dtype="<u2").view("V2"))
    return {"lost-type": [".: gold:output:0"]}


def _constant_golden(root: Path) -> Locations:
    """The index of the output is in the file name."""
    np.save(root / f"gold.3.{TIME}.npy", np.zeros(5))
    np.save(root / f"mm_1-aten.mm.default.INPUT.2.{TIME}.npy", np.zeros(5))
    np.save(root / f"{SUB}.input.1.npy", np.zeros(5))
    return {"all-zero": [".: gold:output:3", ".: mm_1-aten.mm.default:input:2", ".: b:input:1"]}


def _constants(root: Path) -> Locations:
    tensors = (
        tensor(np.zeros((2, 20, 3, 3)), dtypes.FLOAT16, "NC1HWC0"),
        tensor(np.full(100_000, 7), dtypes.INT32),
        tensor(np.full(5, np.nan), dtypes.BFLOAT16),
        tensor(np.zeros(1)),
        tensor(np.zeros((0, 3))),
        tensor([0.0, 1e-30]),
    )
    add(root, SUB, dump(*tensors, inputs=(tensor([-0.0, 0.0], dtypes.BFLOAT16),)))
    return {
        "all-zero": [".: b:input:0", ".: b:output:0"],
        "constant": [".: b:output:1: 7", ".: b:output:2: nan"],
    }


def _several(root: Path) -> Locations:
    add(root, f"Sub.b.3.2.{TIME}", VALID_DUMP)
    add(root, SUB, VALID_DUMP)
    return {"several-dumps": [".: b: 2 files"]}


def _same_time(root: Path) -> Locations:
    add(root, f"Sub.b.3.2.{TIME}", VALID_DUMP)
    add(root, f"Sub.b.4.2.{TIME}", VALID_DUMP)
    return {"several-dumps": [".: b: 2 files"], "same-timestamp": [".: b: 2 files"]}


def _slices(root: Path) -> Locations:
    """Slices of one operator are no finding. Their reader has the same address."""
    output = tensor(np.arange(6.0), dtypes.BFLOAT16, address=0x10)
    whole = EncodedDump(inputs=(tensor([1.0, 2.0]),), outputs=(output,))
    for file in automatic_slices(DumpName("Sub", "b", 3, 2, TIME), whole, Cuts(((2,),))):
        add(root, file.name, file.content)
    add(root, f"Mul.c.4.2.{TIME}", dump(tensor([1.0, 2.0]), inputs=(output,)))
    return {}


def _no_inputs(root: Path) -> Locations:
    add(root, SUB, dump(tensor([1.0, 2.0])))
    add(root, f"Data.images.4.2.{TIME}", dump(tensor([1.0, 2.0])))
    return {"no-inputs": [".: b"]}


def _no_outputs(root: Path) -> Locations:
    add(root, SUB, dump(inputs=(tensor([1.0, 2.0]),)))
    return {"no-outputs": [".: b"]}


def _overflow(root: Path) -> Locations:
    name = f"Opdebug.Node_OpDebug.1.2.{TIME}"
    add(root, name, standard_dump(overflow_dump(RECORD)))
    return {"overflow-records": [f"./{name}"]}


def _statistics(root: Path) -> Locations:
    add(root, f"{SUB}.csv", b"Input/Output,Index,Max Value\nOutput,0,1.5\n")
    return {"statistics": [f"./{SUB}.csv"]}


def _shared_address(root: Path) -> Locations:
    mine, yours = tensor([1.0, 2.0], address=0x1000), tensor([1.0, 3.0], address=0x1000)
    add(root, SUB, dump(mine, inputs=(tensor([5.0, 6.0], address=0x2000),)))
    add(root, f"Mul.c.4.2.{TIME}", dump(yours, inputs=(tensor([5.0, 6.0], address=0x2000),)))
    return {"shared-address": [".: 0x1000: c:output:0, b:output:0"]}


def _in_place(root: Path) -> Locations:
    """An operator that writes in place is no finding."""
    add(root, SUB, dump(tensor([5.0, 6.0], address=0x1000), inputs=(tensor([1.0, 2.0], address=0x1000),)))
    return {}


def _shared_address_of_many(root: Path) -> Locations:
    for number in range(8):
        content = dump(tensor([number, 9.0], address=0x1000), inputs=(tensor([1.0, 2.0]),))
        add(root, f"Mul.m{number}.4.2.{TIME + number}", content)
    named = ", ".join(f"m{number}:output:0" for number in range(5))
    return {"shared-address": [f".: 0x1000: {named} and 3 more"]}


def _missing_steps(root: Path) -> Locations:
    for number in (0, 1, 4, 12):
        add(step(root, number), ADD, VALID_DUMP)
    return {"missing-steps": ["./20240115103052/0/net/1: no step 2, 3, 5, 6, 7 and 4 more"]}


def _uneven_steps_of_golden(root: Path) -> Locations:
    """Operators with several files in a step count once."""
    for number, outputs in ((0, 3), (1, 0), (2, 1)):
        add(step(root, number), ADD, VALID_DUMP)
        for index in range(outputs):
            np.save(step(root, number) / f"gold.{index}.{TIME}.npy", np.arange(3))
    return {"uneven-steps": ["./20240115103052/0/net/1: gold: in 2 of 3 steps"]}


def _uneven_steps(root: Path) -> Locations:
    for number in (0, 1, 2):
        add(step(root, number), ADD, VALID_DUMP)
    add(step(root, 1), SUB, VALID_DUMP)
    return {"uneven-steps": ["./20240115103052/0/net/1: b: in 1 of 3 steps"]}


CASES = (
    _unknown_field,
    _bytes_left,
    _empty, _cut_off, _cut_off_behind_a_newer_one, _cut_off_record, _damaged_statistics, _missing_slice, _too_short,
    _undecodable, _link, _hash, _pipe, _unrecognized, _lost_type, _constant_golden, _constants, _several, _same_time,
    _slices, _no_inputs, _no_outputs, _overflow, _statistics, _shared_address, _in_place, _shared_address_of_many,
    _missing_steps, _uneven_steps, _uneven_steps_of_golden,
)  # fmt: skip


@pytest.mark.parametrize("provoke", CASES, ids=lambda case: case.__name__.strip("_"))
def test_findings(tmp_path: Path, provoke: Callable[[Path], Locations]) -> None:
    add(tmp_path, ADD, VALID_DUMP)
    expected = provoke(tmp_path)
    assert examine(tmp_path) == expected


@pytest.mark.parametrize("slot", ["inputs", "outputs"])
def test_slot_missing_in_all_operators_is_one_finding(tmp_path: Path, slot: str) -> None:
    """Inputs are often not dumped at all: one finding, not one per operator."""
    content = dump(tensor([1.0, 2.0])) if slot == "inputs" else dump(inputs=(tensor([1.0, 2.0]),))
    for folder in ("x", "y"):
        for number in range(3):
            add(tmp_path / folder, f"Add.a{number}.1.2.{TIME}", content)
    assert examine(tmp_path) == {f"no-{slot}": ["./x", "./y"]}


def test_most_severe_findings_come_first(tmp_path: Path) -> None:
    add(tmp_path, ADD, dump(tensor([1.0, 1.0])))
    add(tmp_path, SUB, b"")
    add(tmp_path, "core", b"")
    found = inspect_tree(str(tmp_path)).findings
    assert [finding.severity for finding in found] == [Severity.ERROR, Severity.WARNING, Severity.NOTE, Severity.NOTE]
    assert [finding.code for finding in found] == ["unreadable", "unreadable-name", "constant", "no-inputs"]
    assert all(finding.what for finding in found)


@pytest.mark.parametrize("provoke", [_constants, _shared_address], ids=["constants", "addresses"])
def test_depth_of_headers_reads_no_data(tmp_path: Path, provoke: Callable[[Path], Locations]) -> None:
    provoke(tmp_path)
    assert examine(tmp_path, Depth.HEADERS) == {}


def test_headers_are_enough_for_truncation(tmp_path: Path) -> None:
    add(tmp_path, ADD, VALID_DUMP)
    expected = _cut_off(tmp_path)
    assert examine(tmp_path, Depth.HEADERS) == expected


def test_steps_of_other_runs_are_not_missing(tmp_path: Path) -> None:
    for run, number in ((1, 0), (1, 1), (2, 7), (2, 8)):
        add(tmp_path / "20240115103052" / "0" / "net" / str(run) / str(number), ADD, VALID_DUMP)
    assert examine(tmp_path) == {}


def test_far_apart_steps_are_not_counted_one_by_one(tmp_path: Path) -> None:
    for number in (0, 10**17):
        add(step(tmp_path, number), ADD, VALID_DUMP)
    assert examine(tmp_path) == {}


def test_shape_of_absurd_rank(tmp_path: Path) -> None:
    shape = ((1 << 63) - 1,) * 60_000
    add(tmp_path, ADD, dump(EncodedTensor(dtypes.INT8, shape, "ND", b"1"), inputs=(tensor([1.0, 2.0]),)))
    assert examine(tmp_path) == {"too-short": [".: a:output:0: 60000 axes"]}


def test_content_is_compared_at_three_positions(tmp_path: Path) -> None:
    """Tensors of one address that differ in the middle only, far from both ends."""
    values = np.random.default_rng(0).normal(size=100_000)
    other = values.copy()
    other[50_000] += 1
    for number, content in enumerate((values, other)):
        output = tensor(content, dtypes.FLOAT32, address=0x10)
        add(tmp_path, f"Mul.m{number}.4.2.{TIME}", dump(output, inputs=(tensor([1.0, 2.0]),)))
    assert list(examine(tmp_path)) == ["shared-address"]


def test_deleted_file_is_reported(tmp_path: Path) -> None:
    """Dumps may still be written, moved and deleted while they are inspected."""
    add(tmp_path, ADD, VALID_DUMP)
    # More than what is kept when headers are read.
    gone = add(tmp_path, SUB, numbered(1000))
    report = inspect_tree(str(tmp_path), progress=lambda _done, _all: os.unlink(gone))
    assert report.files == 2
    (found,) = [finding for finding in report.findings if finding.code == "not-checked"]
    assert "b:output:0" in str(found.where[0])


def test_records_without_overflow_are_notes(tmp_path: Path) -> None:
    add(tmp_path, ADD, VALID_DUMP)
    name = f"Opdebug.Node_OpDebug.1.2.{TIME}"
    add(tmp_path, name, standard_dump(overflow_dump(overflow_record(Overflow(status=(0,))))))
    assert examine(tmp_path) == {"no-overflow": [f"./{name}"]}


def test_runs_in_different_folders_are_different_runs(tmp_path: Path) -> None:
    for folder, number in (("a", 0), ("b", 2)):
        add(step(tmp_path / folder, number), ADD, VALID_DUMP)
    assert examine(tmp_path) == {}
