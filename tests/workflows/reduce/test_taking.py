"""Offline dumps are refused, taken files are put back, and two processes do not reduce one file."""

from __future__ import annotations

import fcntl
import os
from typing import IO, TYPE_CHECKING

import numpy as np
import pytest

from graph_dumps import GraphCase, floats
from opdiff.read.directory import TAKEN_FOLDER
from opdiff.sample.graph_mode import ge_dump
from opdiff.workflows.reduce.taken import locked

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Command

GE = "Add.Add.1.6.1706596911000001"
TEXT = "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt"
CONTENT, NEWER = (ge_dump([values], [values]) for values in (np.zeros(500, np.float32), np.ones(500, np.float32)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dump of graph mode with one file."""
    made = tmp_path / "dump"
    write(made / TEXT, b"")
    write(made / GE, CONTENT)
    return made


@pytest.fixture
def killed(folder: Path) -> Path:
    """The same after a process was killed that had taken the file."""
    (folder / TAKEN_FOLDER).mkdir()
    (folder / GE).rename(folder / TAKEN_FOLDER / GE)
    write(folder / TAKEN_FOLDER / ".0123abcd.lock", b"")
    return folder


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (1e9, 1e9))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != TEXT)


# Offline dumps


@pytest.mark.parametrize("options", [(), ("--keep",), ("--watch",)])
def test_offline_dumps_are_refused(folder: Path, opdiff: Command, options: tuple[str, ...]) -> None:
    (folder / TEXT).unlink()
    outcome = opdiff("reduce", folder, *options)
    assert outcome.code == 3
    assert "nothing can compare offline dumps once they are reduced. Compare them as they are" in outcome.err
    assert "give the directory that has its graph texts" in outcome.err
    assert names_in(folder) == [GE]


def test_offline_dumps_beside_a_dump_of_graph_mode_are_kept(folder: Path, opdiff: Command) -> None:
    write(folder.parent / "npu" / GE, CONTENT)
    outcome = opdiff("reduce", folder.parent)
    assert outcome.code == 0
    assert "reduced: 1 file," in outcome.out
    assert f"kept: 1 folder, such as {folder.parent / 'npu'}\n" in outcome.out
    assert names_in(folder) == [f"{GE}_min_max.npz"]
    assert names_in(folder.parent / "npu") == [GE]
    assert opdiff("reduce", folder.parent).code == 3  # no others are left


# Recovery


def test_recovery_puts_taken_files_back(killed: Path, opdiff: Command) -> None:
    outcome = opdiff("reduce", killed, "--recover")
    assert (outcome.code, outcome.out) == (0, "put back after a killed run: 1 file\n")
    assert names_in(killed) == [GE]
    assert (killed / GE).read_bytes() == CONTENT
    assert opdiff("reduce", killed, "--recover", "--json").json == {"files": 0, "superseded": 0, "problems": {}}


def test_the_next_run_puts_taken_files_back(killed: Path, opdiff: Command) -> None:
    outcome = opdiff("reduce", killed)
    assert outcome.out.startswith("put back after a killed run: 1 file\nreduced: 1 file, ")
    assert names_in(killed) == [f"{GE}_min_max.npz"]


def test_a_newer_file_supersedes_the_taken_one(killed: Path, opdiff: Command) -> None:
    write(killed / GE, NEWER)
    outcome = opdiff("reduce", killed, "--recover")
    assert "dumped again meanwhile, older version removed: 1 file\n" in outcome.out
    assert names_in(killed) == [GE]
    assert (killed / GE).read_bytes() == NEWER


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_only_a_file_supersedes_the_taken_one(killed: Path, opdiff: Command, kind: str) -> None:
    if kind == "folder":
        (killed / GE).mkdir()
    else:
        (killed / GE).symlink_to("elsewhere")
    for options in (("--recover",), ()):
        assert "cannot be put back: 1 file\n" in opdiff("reduce", killed, *options).out
        assert (killed / TAKEN_FOLDER / GE).read_bytes() == CONTENT


def test_one_file_that_cannot_be_put_back_holds_up_no_other(killed: Path, opdiff: Command) -> None:
    (killed / TAKEN_FOLDER / ".00000000.lock").mkdir()
    outcome = opdiff("reduce", killed, "--recover")
    assert (outcome.code, "cannot be put back: 1 file\n" in outcome.out) == (3, True)
    assert (killed / GE).read_bytes() == CONTENT


def test_recovery_leaves_files_alone_that_are_being_reduced(killed: Path, opdiff: Command) -> None:
    with locked(str(killed / GE)):
        assert opdiff("reduce", killed, "--recover").out == "put back after a killed run: 0 files\n"
        assert (killed / TAKEN_FOLDER / GE).exists()
    assert opdiff("reduce", killed, "--recover").out == "put back after a killed run: 1 file\n"


def test_a_link_in_place_of_the_folder_is_not_followed(folder: Path, tmp_path: Path, opdiff: Command) -> None:
    write(tmp_path / "other" / "private", CONTENT)
    (folder / TAKEN_FOLDER).symlink_to(tmp_path / "other")
    outcome = opdiff("reduce", folder, "--recover")
    assert (outcome.code, "Not a directory" in outcome.out) == (3, True)
    assert "cannot be reduced, kept: 1 file\n" in opdiff("reduce", folder).out
    assert (names_in(tmp_path / "other"), names_in(folder)) == (["private"], [TAKEN_FOLDER, GE])


def test_what_is_not_a_file_is_not_put_back(killed: Path, opdiff: Command) -> None:
    (killed / TAKEN_FOLDER / "folder").mkdir()
    outcome = opdiff("reduce", killed, "--recover")
    assert (outcome.code, "cannot be put back: 1 file\n" in outcome.out) == (3, True)
    assert names_in(killed) == [TAKEN_FOLDER, GE]


@pytest.mark.parametrize("option", ["--watch", "--keep"])
def test_recovery_reduces_nothing(folder: Path, opdiff: Command, option: str) -> None:
    outcome = opdiff("reduce", folder, "--recover", option)
    assert (outcome.code, "--recover cannot be combined with" in outcome.err) == (2, True)


# Several processes


def test_two_processes_do_not_reduce_one_file(folder: Path, opdiff: Command) -> None:
    with locked(str(folder / GE)):
        outcome = opdiff("reduce", folder, "--settle", 0)
        assert "reduced by another process, kept: 1 file\n" in outcome.out
        assert (folder / GE).exists()
    assert "reduced: 1 file, " in opdiff("reduce", folder, "--settle", 0).out


def test_a_lock_file_that_has_lost_its_name_is_no_lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder removes it after another process has opened it; a third one holds the next lock file."""
    real = fcntl.flock
    third: list[IO[bytes]] = []

    def flock(descriptor: int, operation: int) -> None:
        if not third:
            (path,) = (folder / TAKEN_FOLDER).iterdir()
            path.unlink()
            third.append(path.open("wb"))
            real(third[0], fcntl.LOCK_EX)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(str(folder / GE)) as taken:
        assert taken is None
    third[0].close()


def test_a_file_that_could_not_be_put_back_is_not_taken(
    folder: Path, opdiff: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, *_others: str, **_options: bool) -> None:
        raise PermissionError(1, "Operation not permitted", source)

    monkeypatch.setattr(os, "link", link)
    assert f"{folder / GE}: Operation not permitted\n" in opdiff("reduce", folder).out
    assert names_in(folder) == [GE]


# Other commands


def test_other_commands_leave_taken_files_out_and_say_so(killed: Path, opdiff: Command, tmp_path: Path) -> None:
    write(killed / "Mul.Mul.1.6.1706596911000002", CONTENT)
    for arguments in (("inspect", killed), ("convert", killed, "-out", tmp_path / "out")):
        outcome = opdiff(*arguments)
        assert outcome.code == 0
        assert "`opdiff reduce --recover` puts taken files back" in outcome.out + outcome.err
        assert GE not in outcome.out
    assert names_in(killed) == [TAKEN_FOLDER, "Mul.Mul.1.6.1706596911000002"]


def test_a_comparison_notes_taken_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = GraphCase(tmp_path, capsys)
    case.one(floats([1, 2]), floats([1, 2]))
    path = case.ge("Mul", (), (floats([1]),))
    (path.parent / TAKEN_FOLDER).mkdir()
    path.rename(path.parent / TAKEN_FOLDER / path.name)
    outcome = case.run()
    assert f"{path.parent / TAKEN_FOLDER}: left out 1 file taken by `opdiff reduce`" in outcome.out
