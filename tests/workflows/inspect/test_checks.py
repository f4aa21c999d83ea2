"""Every check, provoked by files: codes and locations of the findings."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, add, dump, numbered, tensor, with_header_field
from graph_dumps import saved
from opdiff.core import dtypes
from opdiff.sample.container import EncodedDump, EncodedTensor, Overflow, overflow_dump, overflow_record, standard_dump
from opdiff.sample.names import DumpName
from opdiff.workflows.inspect.checks import Severity
from opdiff.workflows.inspect.contents import Depth
from opdiff.workflows.inspect.report import inspect_tree
from sliced_dumps import Cuts, automatic_slices

if TYPE_CHECKING:
    from pathlib import Path

Files = dict[str, bytes]
Locations = dict[str, list[str]]

ADD = f"Add.a.1.2.{TIME}"
SUB = f"Sub.b.3.2.{TIME + 1}"
VALID_DUMP = dump(tensor([1.0, 2.0]), inputs=(tensor([3.0, 4.0]),))
RECORD = overflow_record(Overflow())


DEBUG = f"Opdebug.Node_OpDebug.1.2.{TIME}"
INPUT = (tensor([1.0, 2.0]),)
RUN = "20240115103052/0/net/1"


def add_all(root: Path, files: Files) -> None:
    for name, content in files.items():
        add((root / name).parent, (root / name).name, content)


def examine(root: Path, depth: Depth = Depth.SAMPLES) -> Locations:
    """Return the locations of the findings, relative to the directory, by code."""
    report = inspect_tree(str(root), depth=depth)
    return {
        found.code: [str(location).replace(str(root), ".") for location in found.where] for found in report.findings
    }


def slices(name: str, output: EncodedTensor) -> Files:
    """Return the files of an operator that was dumped in two slices."""
    made = automatic_slices(
        DumpName("Sub", name, 3, 2, TIME), EncodedDump(inputs=INPUT, outputs=(output,)), Cuts(((2,),))
    )
    return {file.name: file.content for file in made}


def missing_slice() -> tuple[Files, Locations]:
    name, content = next(iter(slices("b", tensor(np.arange(6.0))).items()))
    other = name.replace(f".{TIME}.4.0.0.0", f".{TIME + 9}.4.0.0.0")
    about = "only 1 of 2 slices are present; they cannot be joined"
    return {name: content, other: content}, {"unreadable": [f"./{other}: {about}"]}


SIZE = len(VALID_DUMP)
CUT_OFF = f"{SIZE - 1}: it is truncated (byte {SIZE - 8})"
NEWER = "damaged, or of a newer version"
OLDER = f"Sub.b.3.2.{TIME - 5}"
SHARED = tensor(np.arange(6.0), dtypes.BFLOAT16, address=0x10)
CONSTANTS = dump(
    tensor(np.zeros((2, 20, 3, 3)), dtypes.FLOAT16, "NC1HWC0"),
    tensor(np.full(100_000, 7), dtypes.INT32),
    tensor(np.full(5, np.nan), dtypes.BFLOAT16),
    tensor(np.zeros(1)),
    tensor(np.zeros((0, 3))),
    tensor([0.0, 1e-30]),
    inputs=(tensor([-0.0, 0.0], dtypes.BFLOAT16),),
)
# Files that are added to a directory with a sound dump, and the expected findings.
CASES: dict[str, tuple[Files, Locations]] = {
    "unknown field": (
        {SUB: with_header_field(VALID_DUMP, b"\x50\x07")},
        {"doubtful": [f"./{SUB}: the header has a field of unknown number 10: it is {NEWER} (byte 49)"]},
    ),
    "bytes left": (
        {SUB: VALID_DUMP + b"more"},
        {"unreadable": [f"./{SUB}: header and tensors take {SIZE} bytes, but the file has {SIZE + 4} (byte {SIZE})"]},
    ),
    "empty": (
        {SUB: b""},
        {"unreadable": [f"./{SUB}: the file is empty; the dump was interrupted or the disk was full"]},
    ),
    "cut off": (
        {SUB: VALID_DUMP[:-1]},
        {"unreadable": [f"./{SUB}: 8 bytes of data start here, but the file ends at {CUT_OFF}"]},
    ),
    # An older dump of an operator is not needed, but its loss is reported.
    "cut off behind a newer one": (
        {OLDER: b"123", SUB: VALID_DUMP},
        {
            "unreadable": [f"./{OLDER}: 3 bytes are too few for a dump; the file is truncated or was never written"],
            "several-dumps": [".: b: 2 files"],
        },
    ),
    "cut-off record": (
        {DEBUG: standard_dump(overflow_dump(RECORD[:20]))},
        {
            "unreadable": [f"./{DEBUG}: field data_len should have 4 bytes, but 0 are left (byte 60)"],
            "overflow-records": [f"./{DEBUG}"],
        },
    ),
    "damaged statistics": (
        {f"{SUB}.csv": b"Input/Output,Index\nsideways,0\n"},
        {
            "unreadable": [f"./{SUB}.csv: not a row of tensor statistics: 'sideways' is not a valid Slot"],
            "statistics": [f"./{SUB}.csv"],
        },
    ),
    "missing slice": missing_slice(),
    "too short": (
        {SUB: dump(EncodedTensor(dtypes.FLOAT16, (3, 5), "ND", bytes(range(1, 21))), inputs=INPUT)},
        {"too-short": [".: b:output:0: shape [3, 5] needs 30 bytes, 20 are stored"]},
    ),
    "undecodable": (
        {
            SUB: dump(
                EncodedTensor(dtypes.HIFLOAT4, (4,), "ND", b"ab"), EncodedTensor(99, (4,), "ND", b"ab"), inputs=INPUT
            )
        },
        {
            "undecodable": [
                ".: b:output:0: hifloat4: its encoding is not published",
                ".: b:output:1: type_99: number 99 is not a known element type",
            ]
        },
    ),
    "hash": (
        {"1234567890": VALID_DUMP, "mapping.csv": b"no comma\n"},
        {
            "not-taken": [
                "./mapping.csv: ignored 1 line not of the form `digits,name`, the first is line 1",
                "./1234567890: the name is a hash, but no mapping.csv in its folder gives the real name",
            ]
        },
    ),
    "unrecognized": ({"core.dump": b"x", "graph.json": b"{}"}, {"unreadable-name": ["./core.dump"]}),
    "lost type": (
        {f"gold.0.{TIME}.npy": saved(np.arange(3, dtype="<u2").view("V2"))},
        {"lost-type": [".: gold:output:0"]},
    ),
    # The index of the output is in the file name.
    "constant golden": (
        dict.fromkeys(
            [f"gold.3.{TIME}.npy", f"mm_1-aten.mm.default.INPUT.2.{TIME}.npy", f"{SUB}.input.1.npy"],
            saved(np.zeros(5)),
        ),
        {"all-zero": [".: gold:output:3", ".: mm_1-aten.mm.default:input:2", ".: b:input:1"]},
    ),
    "constants": (
        {SUB: CONSTANTS},
        {
            "all-zero": [".: b:input:0", ".: b:output:0"],
            "constant": [".: b:output:1: 7", ".: b:output:2: nan"],
        },
    ),
    "several": ({f"Sub.b.3.2.{TIME}": VALID_DUMP, SUB: VALID_DUMP}, {"several-dumps": [".: b: 2 files"]}),
    "same time": (
        {f"Sub.b.3.2.{TIME}": VALID_DUMP, f"Sub.b.4.2.{TIME}": VALID_DUMP},
        {"several-dumps": [".: b: 2 files"], "same-timestamp": [".: b: 2 files"]},
    ),
    # Slices of one operator are no finding. Their reader has the same address.
    "slices": ({**slices("b", SHARED), f"Mul.c.4.2.{TIME}": dump(tensor([1.0, 2.0]), inputs=(SHARED,))}, {}),
    "no inputs": (
        {SUB: dump(tensor([1.0, 2.0])), f"Data.images.4.2.{TIME}": dump(tensor([1.0, 2.0]))},
        {"no-inputs": [".: b"]},
    ),
    "no outputs": ({SUB: dump(inputs=INPUT)}, {"no-outputs": [".: b"]}),
    "overflow": ({DEBUG: standard_dump(overflow_dump(RECORD))}, {"overflow-records": [f"./{DEBUG}"]}),
    "no overflow": (
        {DEBUG: standard_dump(overflow_dump(overflow_record(Overflow(status=(0,)))))},
        {"no-overflow": [f"./{DEBUG}"]},
    ),
    "statistics": (
        {f"{SUB}.csv": b"Input/Output,Index,Max Value\nOutput,0,1.5\n"},
        {"statistics": [f"./{SUB}.csv"]},
    ),
    "shared address": (
        {
            SUB: dump(tensor([1.0, 2.0], address=0x1000), inputs=(tensor([5.0, 6.0], address=0x2000),)),
            f"Mul.c.4.2.{TIME}": dump(tensor([1.0, 3.0], address=0x1000), inputs=(tensor([5.0, 6.0], address=0x2000),)),
        },
        {"shared-address": [".: 0x1000: c:output:0, b:output:0"]},
    ),
    # An operator that writes in place is no finding.
    "in place": (
        {SUB: dump(tensor([5.0, 6.0], address=0x1000), inputs=(tensor([1.0, 2.0], address=0x1000),))},
        {},
    ),
    "shared address of many": (
        {
            f"Mul.m{number}.4.2.{TIME + number}": dump(tensor([number, 9.0], address=0x1000), inputs=INPUT)
            for number in range(8)
        },
        {"shared-address": [f".: 0x1000: {', '.join(f'm{number}:output:0' for number in range(5))} and 3 more"]},
    ),
    "missing steps": (
        dict.fromkeys([f"{RUN}/{number}/{ADD}" for number in (0, 1, 4, 12)], VALID_DUMP),
        {"missing-steps": [f"./{RUN}: no step 2, 3, 5, 6, 7 and 4 more"]},
    ),
    "uneven steps": (
        dict.fromkeys([*(f"{RUN}/{number}/{ADD}" for number in range(3)), f"{RUN}/1/{SUB}"], VALID_DUMP),
        {"uneven-steps": [f"./{RUN}: b: in 1 of 3 steps"]},
    ),
    # Operators with several files in a step count once.
    "uneven steps of golden": (
        dict.fromkeys([f"{RUN}/{number}/{ADD}" for number in range(3)], VALID_DUMP)
        | {
            f"{RUN}/{number}/gold.{index}.{TIME}.npy": saved(np.arange(3))
            for number, outputs in ((0, 3), (2, 1))
            for index in range(outputs)
        },
        {"uneven-steps": [f"./{RUN}: gold: in 2 of 3 steps"]},
    ),
    "steps of other runs": (
        {f"20240115103052/0/net/{run}/{number}/{ADD}": VALID_DUMP for run, number in ((1, 0), (1, 1), (2, 7), (2, 8))},
        {},
    ),
    "runs in different folders": ({f"a/{RUN}/0/{ADD}": VALID_DUMP, f"b/{RUN}/2/{ADD}": VALID_DUMP}, {}),
    "steps far apart": ({f"{RUN}/{number}/{ADD}": VALID_DUMP for number in (0, 10**17)}, {}),
    "absurd rank": (
        {SUB: dump(EncodedTensor(dtypes.INT8, ((1 << 63) - 1,) * 60_000, "ND", b"1"), inputs=INPUT)},
        {"too-short": [".: b:output:0: 60000 axes"]},
    ),
    "sound": ({SUB: VALID_DUMP}, {}),
}


@pytest.mark.parametrize(("files", "expected"), CASES.values(), ids=CASES)
def test_findings(tmp_path: Path, files: Files, expected: Locations) -> None:
    add_all(tmp_path, {ADD: VALID_DUMP, **files})
    assert examine(tmp_path) == expected


def test_links_and_pipes_are_not_taken(tmp_path: Path) -> None:
    broken, pipe = f"Sub.c.3.2.{TIME}", f"Sub.d.3.2.{TIME}"
    add(tmp_path, ADD, VALID_DUMP)
    (tmp_path / SUB).symlink_to("/etc/hostname")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    (tmp_path / broken).symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / pipe)
    assert examine(tmp_path) == {
        "not-taken": [
            f"./{SUB}: a link that leaves the directory; not followed",
            f"./{broken}: a broken link",
            f"./{pipe}: not a regular file",
            "./link: a link to a folder that is read in its own place",
        ]
    }


def test_not_finite_values_are_found_when_all_are_read(tmp_path: Path) -> None:
    add(tmp_path, ADD, dump(tensor([1.0, float("nan"), float("-inf"), 2.0]), inputs=INPUT))
    assert examine(tmp_path) == {}
    assert examine(tmp_path, Depth.VALUES) == {"not-finite": [".: a:output:0: 1 NaN and 1 infinite of 4"]}


@pytest.mark.parametrize("slot", ["inputs", "outputs"])
def test_slot_missing_in_all_operators_is_one_finding(tmp_path: Path, slot: str) -> None:
    """Inputs are often not dumped at all: one finding, not one per operator."""
    content = dump(tensor([1.0, 2.0])) if slot == "inputs" else dump(inputs=INPUT)
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


@pytest.mark.parametrize(("name", "is_found"), [("constants", False), ("shared address", False), ("cut off", True)])
def test_headers_are_enough_for_truncation_only(tmp_path: Path, name: str, *, is_found: bool) -> None:
    files, expected = CASES[name]
    add_all(tmp_path, files)
    assert examine(tmp_path, Depth.HEADERS) == (expected if is_found else {})


def test_content_is_compared_at_three_positions(tmp_path: Path) -> None:
    """Tensors of one address that differ in the middle only, far from both ends."""
    values = np.random.default_rng(0).normal(size=100_000)
    other = values.copy()
    other[50_000] += 1
    for number, content in enumerate((values, other)):
        output = tensor(content, dtypes.FLOAT32, address=0x10)
        add(tmp_path, f"Mul.m{number}.4.2.{TIME}", dump(output, inputs=INPUT))
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
