"""Directory trees: locations of folders, real names, and skipped files."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

import dump_files
from dump_files import hashed_name, mapping_csv, numbered
from opdiff.core.dump import SkippedPath
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read import directory
from opdiff.read.directory import Location, locate, scan
from opdiff.read.folder import read_folder
from opdiff.run import map_jobs
from opdiff.sample.names import DumpName

if TYPE_CHECKING:
    from pathlib import Path

T = dump_files.TIME


def add(folder: Path, *names: str) -> None:
    for name in names:
        dump_files.add(folder, name, numbered(2))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/d/flat", Location()),
        (
            "/d/20240115103052/0/ge_default_20240115103046_71/1/12",
            Location(time="20240115103052", device=0, model="ge_default_20240115103046_71", model_id=1, step=12),
        ),
        ("/d/1/resnet/3/0", Location(device=1, model="resnet", model_id=3, step=0)),
        (
            "/d/worldsize8_global_rank3/20240130064151/3/graph_1_0/1/5",
            Location(rank=3, time="20240130064151", device=3, model="graph_1_0", model_id=1, step=5),
        ),
        ("/d/worldsize8_rank3/graph_2/7", Location(rank=3, graph=2, step=7)),
        ("/d/data_dump/4/gm_20240101_dump", Location(step=3)),
        ("/d/20240115103052/7", Location(time="20240115103052", device=7)),
        ("/d/1/2/3/4", Location()),
    ],
)
def test_locations_of_folders(path: str, expected: Location) -> None:
    assert locate(path) == expected


def test_steps_are_sorted_by_number(tmp_path: Path) -> None:
    for step in (10, 9, 0):
        add(tmp_path / "20240115103052" / "0" / "net" / "1" / str(step), f"Add.a.1.2.{T}")
    folders = scan(str(tmp_path)).folders
    assert [folder.location.step for folder in folders] == [0, 9, 10]
    # The place is found from any level down.
    below = tmp_path / "20240115103052" / "0" / "net"
    assert [folder.location for folder in scan(str(below)).folders] == [folder.location for folder in folders]


def test_files_are_sorted_by_timestamp(tmp_path: Path) -> None:
    add(tmp_path, f"Add.b.1.2.{T}", f"Add.a.1.2.{T + 1}", "x.0.npy", f"Add.c.1.2.{T - 1}")
    (folder,) = scan(str(tmp_path)).folders
    assert [entry.parsed.op_name for entry in folder.entries] == ["x", "c", "b", "a"]


def test_hashed_names_are_mapped(tmp_path: Path) -> None:
    long = str(DumpName("Add", "a" * 300, 1, 2, T))
    hashed = hashed_name("d", long)
    lost = "123456789"
    add(tmp_path, hashed, lost, "5.npy")
    (tmp_path / "mapping.csv").write_text(mapping_csv([(hashed, long)]) + "a,b,c\n7,../x\n\n")
    tree = scan(str(tmp_path))
    ((entry,),) = [folder.entries for folder in tree.folders]
    assert (entry.name, entry.path) == (long, str(tmp_path / hashed))
    unmapped = because("read.hash_not_mapped")
    mapping = str(tmp_path / "mapping.csv")
    assert set(tree.problems) == {
        SkippedPath(mapping, because("read.mapping_lines", count=2, line=2)),
        SkippedPath(str(tmp_path / lost), unmapped, is_hash=True),
        SkippedPath(str(tmp_path / "5.npy"), unmapped, is_hash=True),
    }


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_mapping_outside_of_the_directory_is_ignored(kind: str, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    add(inside, "123")
    (tmp_path / "outside.csv").write_text(f"123,Add.a.1.2.{T}\n")
    if kind == "link":
        (inside / "mapping.csv").symlink_to(tmp_path / "outside.csv")
    else:
        os.mkfifo(inside / "mapping.csv")
    tree = scan(str(inside))
    assert tree.folders == ()
    reason = because("read.link_outside") if kind == "link" else because("core.not_regular_file")
    assert SkippedPath(str(inside / "mapping.csv"), reason) in tree.problems


def test_a_mapped_name_of_thousands_of_digits_costs_its_file(tmp_path: Path) -> None:
    add(tmp_path, "123", "124", "125")
    long = "7" * 4300
    (tmp_path / "mapping.csv").write_text(f"123,Add.a.1.2.{T}\n124,Add.b.1.2.{long}\n125,Add.{long}.1.2.{T}\n")
    tree = scan(str(tmp_path))
    assert [entry.name for entry in tree.entries()] == [f"Add.a.1.2.{T}"]
    assert SkippedPath(str(tmp_path / "mapping.csv"), because("read.mapping_lines", count=2, line=2)) in tree.problems


def test_empty_mapping(tmp_path: Path) -> None:
    add(tmp_path, f"Add.a.1.2.{T}")
    (tmp_path / "mapping.csv").touch()
    assert len(scan(str(tmp_path)).folders) == 1


def test_links_outside_of_the_directory_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    add(inside, f"Add.a.1.2.{T}")
    add(outside, f"Add.secret.1.2.{T}")
    (inside / f"Add.b.1.2.{T}").symlink_to(outside / f"Add.secret.1.2.{T}")
    (inside / f"Add.c.1.2.{T}").symlink_to(inside / f"Add.a.1.2.{T}")
    (inside / f"Add.d.1.2.{T}").symlink_to("nowhere")
    (inside / "folder").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    tree = scan(str(inside))
    assert [entry.parsed.op_name for entry in tree.entries()] == ["a", "c"]
    assert {os.path.basename(problem.path): problem.reason.code for problem in tree.problems} == {
        f"Add.b.1.2.{T}": "read.link_outside",
        f"Add.d.1.2.{T}": "read.broken_link",
        "folder": "read.link_outside",
        "loop": "read.link_outside",
    }


def test_linked_folder_is_scanned_once(tmp_path: Path) -> None:
    add(tmp_path / "real", f"Add.a.1.2.{T}")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    tree = scan(str(tmp_path))
    assert len(list(tree.entries())) == 1
    assert tree.problems[0].reason == because("read.link_to_folder")


def test_other_files_are_unrecognized(tmp_path: Path) -> None:
    add(tmp_path, "README.md", "dynamo_original_graph_1_rank_0.txt", "convert_failed_file_list.txt", ".hidden")
    os.mkfifo(tmp_path / f"Add.p.1.2.{T}")
    tree = scan(str(tmp_path))
    assert tree.folders == ()
    assert [os.path.basename(path) for path in tree.unrecognized] == ["README.md"]
    assert [os.path.basename(path) for path in tree.graphs] == ["dynamo_original_graph_1_rank_0.txt"]
    assert [problem.reason for problem in tree.problems] == [because("core.not_regular_file")]


def test_depth_of_trees_is_limited(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(70):
        deep = deep / "d"
    add(deep, f"Add.a.1.2.{T}")
    tree = scan(str(tmp_path))
    assert tree.folders == ()
    assert tree.problems[0].reason == because("read.too_deep", limit=64)


def test_missing_root_raises(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        scan(str(tmp_path / "nothing"))


def test_newest_dump_of_an_operator_is_used(tmp_path: Path) -> None:
    add(tmp_path, f"Add.a.1.2.{T + 2}", f"Add.a.1.2.{T}", f"Add.a.9.2.{T + 1}", f"Add.b.1.2.{T}")
    (folder,) = scan(str(tmp_path)).folders
    operators, problems = read_folder(folder)
    assert problems == ()
    assert {operator.name: len(operator.files) for operator in operators} == {"a": 3, "b": 1}
    (newest,) = [operator.dump.path for operator in operators if operator.name == "a"]
    assert newest.endswith(str(T + 2))


def test_timestamp_of_names_with_nine_fields(tmp_path: Path) -> None:
    add(tmp_path, f"Add.a.1.2.{T + 1}.0.0.0.0", f"Add.a.1.2.{T}.0.0.0.1")
    (folder,) = scan(str(tmp_path)).folders
    (operator,), _ = read_folder(folder)
    assert operator.dump.path.endswith(f"{T + 1}.0.0.0.0")


def test_unreadable_file_affects_one_operator(tmp_path: Path) -> None:
    add(tmp_path, *(f"Add.op{i}.1.2.{T + i}" for i in range(20)))
    (tmp_path / f"Add.op7.1.2.{T + 7}").write_bytes(numbered(2)[:-1])
    (folder,) = scan(str(tmp_path)).folders
    operators, (problem,) = read_folder(folder)
    assert len(operators) == 19
    assert problem.path.endswith(f"op7.1.2.{T + 7}")
    assert str(problem.reason) == "8 bytes of data start here, but the file ends at 38: it is truncated (byte 31)"


@pytest.mark.parametrize("workers", [1, 2])
def test_large_trees_are_listed_by_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    for number in range(6):
        names = f"Add.add.{number}.1.{number}00", f"Add.add_1.{number}.2.{number}01", "notes.txt", "1234567890"
        add(tmp_path / f"rank{number % 2}" / str(number), *names)
    whole = scan(str(tmp_path))
    monkeypatch.setattr(directory, "_MAX_ENTRIES_IN_MEMORY", 3)
    parts = scan(str(tmp_path), partial(map_jobs, workers=workers))
    assert parts.problems == whole.problems
    assert parts.unrecognized == whole.unrecognized
    assert [folder.path for folder in parts.folders] == [folder.path for folder in whole.folders]
    assert list(parts.entries()) == list(whole.entries())
    assert len(whole.problems) == 6


def test_tensors_that_fx_dumped_again_are_counted(tmp_path: Path) -> None:
    names = [f"add-aten.OUTPUT.0.{time}.npy" for time in (30, 10, 30, 20)]
    add(tmp_path / "1", *names, "add-aten.OUTPUT.1.40.npy", "mul-aten.OUTPUT.0.40.npy")
    add(tmp_path / "2", names[0], "Add.add.1.1.100")
    assert [folder.repeated_count for folder in scan(str(tmp_path)).folders] == [2, 0]
