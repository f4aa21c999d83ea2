"""`opdiff inspect DIRECTORY`: kinds and amounts of data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, add, dump, tensor
from graph_dumps import saved
from opdiff.core import dtypes
from opdiff.sample.container import Overflow, overflow_dump, overflow_record, standard_dump
from opdiff.workflows.inspect.report import inspect_tree

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Command

VALID_DUMP = dump(
    tensor([1.0, 2.0], dtypes.FLOAT16), inputs=(tensor(np.arange(12.0).reshape(1, 3, 2, 2), layout="NC1HWC0"),)
)
ADD = f"Add.a.1.2.{TIME}"


ARRAY = saved(np.arange(3))
GOLDEN = {f"{name}.0.{TIME}.npy": ARRAY for name in "ab"}
DEBUG = standard_dump(overflow_dump(overflow_record(Overflow())))
KINDS = {
    "NPU dumps": {ADD: VALID_DUMP},
    "golden tensors": GOLDEN,
    "FX tensors": {f"mm_1-aten.mm.default.OUTPUT.0.{TIME}.npy": ARRAY},
    "converted NPU tensors": {f"{ADD}.output.0.npy": ARRAY},
    "NPU statistics files": {f"{ADD}.csv": b"Input/Output,Index\nOutput,0\n"},
    "overflow debug records": {f"Opdebug.Node_OpDebug.1.2.{TIME}": DEBUG},
    "2 golden tensors, 1 NPU dump": {ADD: VALID_DUMP} | GOLDEN,
}


@pytest.mark.parametrize(("kind", "files"), KINDS.items(), ids=KINDS)
def test_kinds(tmp_path: Path, opdiff: Command, kind: str, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        add(tmp_path, name, content)
    outcome = opdiff("inspect", tmp_path)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == f"{tmp_path}: {kind}"


def test_a_tree_is_described(tmp_path: Path, opdiff: Command) -> None:
    for rank in (0, 1):
        for step in (0, 1, 2, 10):
            add(tmp_path / f"worldsize2_global_rank{rank}/20240115103052/{rank}/net/1/{step}", ADD, VALID_DUMP)
    add(tmp_path, "dynamo_original_graph.txt", b"graph")
    outcome = opdiff("inspect", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[:9] == [
        f"{tmp_path}: NPU dumps",
        f"  8 files, {8 * len(VALID_DUMP) / 1024:.1f} KiB, 1 operator, 16 tensors",
        "  steps: 0-2, 10",
        "  ranks: 0-1",
        "  devices: 0-1",
        "  models: net",
        "  graph texts: 1",
        "  types: float32 8, float16 8",
        "  layouts: NC1HWC0 8, ND 8",
    ]
    assert lines[9] == "  operators by type: Add 1"
    table = [line.split() for line in lines if "worldsize" in line]
    location = "worldsize2_global_rank0/20240115103052/0/net/1"
    assert table[0][:6] == [location, "0-2,", "10", "1", "4", f"{4 * len(VALID_DUMP) / 1024:.1f}"]
    assert len([line for line in table if line[0].startswith("worldsize")]) == 2
    assert "  warning: gaps in the step numbers (2)  [missing-steps]" in lines


def test_one_folder_has_no_table_of_runs(tmp_path: Path, opdiff: Command) -> None:
    add(tmp_path, ADD, VALID_DUMP)
    out = opdiff("inspect", tmp_path).out
    assert out.splitlines()[-1] == "checks: no findings"
    assert "runs" not in out


def test_long_lists_of_types_and_folders_are_shortened(tmp_path: Path, opdiff: Command) -> None:
    for number in range(25):
        add(tmp_path / f"f{number}", f"Type{number}.a{number}.1.2.{TIME}", VALID_DUMP)
    out = opdiff("inspect", tmp_path).out
    assert "Type11 1 and 13 more\n" in out
    assert "… and 5 more folders; --json lists them all\n" in out


def test_long_lists_of_locations_are_shortened(tmp_path: Path, opdiff: Command) -> None:
    for number in range(9):
        add(tmp_path, f"Add.a{number}.1.2.{TIME}", b"")
    brief = opdiff("inspect", tmp_path).out.splitlines()
    assert brief[-7] == "  error: files that cannot be read (9)  [unreadable]"
    assert brief[-1] == "      … and 4 more; --all lists them"
    full = opdiff("inspect", tmp_path, "--all").out.splitlines()
    assert [line.split(":")[0].strip() for line in full[-9:]] == [f"{tmp_path}/Add.a{n}.1.2.{TIME}" for n in range(9)]


def test_no_data_reads_headers_only(tmp_path: Path, opdiff: Command) -> None:
    add(tmp_path, ADD, dump(tensor([0.0, 0.0]), inputs=(tensor([1.0, 2.0]),)))
    assert "[all-zero]" in opdiff("inspect", tmp_path).out
    assert opdiff("inspect", tmp_path, "--no-data").out.endswith("checks: no findings\n")


TREE_FIELDS = {
    "path", "kind", "files", "nbytes", "operators", "tensors", "folders", "steps", "ranks", "devices", "models",
    "graphs", "graph_texts", "dtypes", "layouts", "op_types", "runs", "findings",
}  # fmt: skip


def test_json_is_complete(tmp_path: Path, opdiff: Command) -> None:
    add(tmp_path / "20240115103052/0/net/1/3", ADD, VALID_DUMP)
    add(tmp_path / "20240115103052/0/net/1/3", f"Sub.b.1.2.{TIME}", b"")
    found = opdiff("inspect", tmp_path, "--json").json
    assert set(found) == TREE_FIELDS
    assert (found["path"], found["kind"], found["files"], found["operators"]) == (str(tmp_path), "NPU dumps", 2, 1)
    assert (found["steps"], found["devices"], found["models"], found["ranks"]) == ([3], [0], ["net"], [])
    assert found["dtypes"] == [["float32", 1], ["float16", 1]]
    assert found["runs"] == [
        {"place": "20240115103052/0/net/1", "steps": [3], "operators": 1, "files": 2, "nbytes": len(VALID_DUMP)}
    ]
    (finding,) = found["findings"]
    assert set(finding) == {"severity", "code", "what", "where"}
    assert (finding["severity"], finding["code"]) == ("error", "unreadable")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("names", [[], ["readme.md", "core"]], ids=["empty", "no_dumps"])
def test_a_directory_without_dumps(tmp_path: Path, opdiff: Command, names: list[str], options: list[str]) -> None:
    for name in names:
        add(tmp_path, name, b"x")
    outcome = opdiff("inspect", tmp_path, *options)
    assert (outcome.code, outcome.err) == (3, f"opdiff: {tmp_path}: no dump files here\n")
    if options:
        assert outcome.json["files"] == 0
    else:
        assert outcome.out.splitlines()[0] == f"{tmp_path}: no dump files"
        assert ("[unreadable-name]" in outcome.out) is bool(names)


def test_statistics_of_a_directory_read_every_value(tmp_path: Path, opdiff: Command) -> None:
    add(tmp_path, f"Add.a.1.2.{TIME}", dump(tensor([1.0, float("inf")]), inputs=(tensor([3.0, 4.0]),)))
    assert "[not-finite]" in opdiff("inspect", tmp_path, "--stats").out
    assert "[not-finite]" not in opdiff("inspect", tmp_path).out
    assert opdiff("inspect", tmp_path, "--stats", "--no-data").code == 2


def test_progress_is_reported(tmp_path: Path) -> None:
    for folder in "ab":
        for number in range(3):
            add(tmp_path / folder, f"Add.a{number}.1.2.{TIME}", VALID_DUMP)
    reported: list[tuple[int, int]] = []
    inspect_tree(str(tmp_path), progress=lambda done, total: reported.append((done, total)))
    assert reported == [(3, 6), (6, 6)]
