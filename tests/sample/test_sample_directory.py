from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opdiff.core.errors import UsageError
from opdiff.sample import FAULTS, write_sample
from opdiff.sample.directory import make_sample
from opdiff.sample.faults import choose

if TYPE_CHECKING:
    from pathlib import Path


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_sample_on_disk_equals_sample_in_memory(tmp_path: Path) -> None:
    sample = write_sample(str(tmp_path / "new"))
    files = contents(tmp_path / "new")
    manifest = json.loads(files.pop("sample.json"))
    assert files == make_sample(choose(tuple(FAULTS)))
    assert manifest["files"] == sorted(files)
    assert [fault["name"] for fault in manifest["faults"]] == list(FAULTS)
    assert (sample.target, sample.golden) == (str(tmp_path / "new/npu"), str(tmp_path / "new/golden"))
    assert sample.rules == str(tmp_path / "new/rules/network.json")
    assert sample.faults == tuple(FAULTS.values())


def test_a_sample_is_small_and_always_the_same() -> None:
    first = make_sample(choose({"overflow", "permuted"}))
    assert sum(map(len, first.values())) < 3_000_000
    assert make_sample(choose({"permuted", "overflow"})) == first


def test_another_sample_replaces_the_first(tmp_path: Path) -> None:
    write_sample(str(tmp_path))
    (tmp_path / "npu" / "mine.txt").write_text("mine")
    sample = write_sample(str(tmp_path), faults=["permuted"])
    assert sample.faults == (FAULTS["permuted"],)
    files = contents(tmp_path)
    assert files.pop("npu/mine.txt") == b"mine"
    assert json.loads(files.pop("sample.json"))["files"] == sorted(files)
    assert not [name for name in files if "Opdebug" in name]


@pytest.mark.parametrize("manifest", [None, "", "[]", "{}", '{"made_by": "someone"}', "\ud800"])
def test_directory_with_other_files_is_kept(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    if manifest is not None:
        (tmp_path / "sample.json").write_bytes(manifest.encode("utf-8", "surrogatepass"))
    before = contents(tmp_path)
    with pytest.raises(UsageError, match=r"has files that do not belong to a sample; choose an empty directory"):
        write_sample(str(tmp_path))
    assert contents(tmp_path) == before
    write_sample(str(tmp_path), overwrite=True)
    assert contents(tmp_path)["notes.txt"] == b"notes"


def test_file_instead_of_the_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is not a directory"):
        write_sample(str(tmp_path / "file"), overwrite=True)


def test_forged_manifest_removes_no_files_outside(tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    directory = tmp_path / "sample"
    (directory / "npu").mkdir(parents=True)
    (directory / "other.txt").write_text("other")
    names = ["../victim.txt", "npu/../../victim.txt", str(victim), "other.txt", 5, "npu", "rules/other.json"]
    (directory / "sample.json").write_text(json.dumps({"made_by": "opdiff sample", "files": names}))
    write_sample(str(directory))
    assert victim.read_text() == "precious"
    assert (directory / "other.txt").read_text() == "other"


@pytest.mark.parametrize("names", [None, 5, {"npu/x": 1}])
def test_a_damaged_manifest_is_written_anew(tmp_path: Path, names: object) -> None:
    (tmp_path / "sample.json").write_text(json.dumps({"made_by": "opdiff sample", "files": names}))
    write_sample(str(tmp_path), faults=())
    assert len(json.loads((tmp_path / "sample.json").read_text())["files"]) == len(contents(tmp_path)) - 1


def test_unknown_fault_is_rejected_before_writing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the sample has no fault 'noise'; its faults are overflow, wrong-scale"):
        write_sample(str(tmp_path), faults=["overflow", "noise"])
    assert not contents(tmp_path)


def test_importing_the_sample_does_not_import_numpy() -> None:
    code = "import sys, opdiff.sample; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
