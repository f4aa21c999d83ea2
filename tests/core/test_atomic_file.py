"""Atomic writing of files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opdiff.core.atomic_file import fill_folder, open_atomic


def write(path: Path, content: bytes) -> None:
    with open_atomic(str(path)) as file:
        file.write(content)


def fail_halfway(path: Path, error: BaseException) -> None:
    with open_atomic(str(path)) as file:
        file.write(b"half of")
        raise error


def listing(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_file_is_renamed_at_the_end(tmp_path: Path) -> None:
    with open_atomic(str(tmp_path / "result")) as file:
        file.write(b"all of it")
        file.flush()
        assert "result" not in listing(tmp_path)
    assert (tmp_path / "result").read_bytes() == b"all of it"
    assert listing(tmp_path) == ["result"]


@pytest.mark.parametrize("error", [ValueError("a bad number"), OSError(28, "disk full"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("before", [None, b"what was there"], ids=["new", "old"])
def test_failure_keeps_the_existing_file(tmp_path: Path, error: BaseException, before: bytes | None) -> None:
    path = tmp_path / "result"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(type(error)):
        fail_halfway(path, error)
    assert listing(tmp_path) == ([] if before is None else ["result"])
    assert before is None or path.read_bytes() == before


def test_symbolic_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "result").symlink_to(tmp_path / "precious")
    write(tmp_path / "result", b"new")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert not (tmp_path / "result").is_symlink()


def test_temporary_file_of_a_killed_run_is_replaced(tmp_path: Path) -> None:
    with open_atomic(str(tmp_path / "result")):
        (draft,) = listing(tmp_path)
    (tmp_path / draft).write_bytes(b"left behind")
    write(tmp_path / "result", b"new")
    assert (tmp_path / "result").read_bytes() == b"new"
    assert listing(tmp_path) == ["result"]


def test_name_of_maximum_length(tmp_path: Path) -> None:
    write(tmp_path / ("n" * 255), b"x")
    assert listing(tmp_path) == ["n" * 255]


def test_two_open_files(tmp_path: Path) -> None:
    with open_atomic(str(tmp_path / "a")) as first, open_atomic(str(tmp_path / "b")) as second:
        second.write(b"2")
        first.write(b"1")
    assert [(tmp_path / name).read_bytes() for name in ("a", "b")] == [b"1", b"2"]


def test_relative_path_without_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_atomic("result") as file:
        file.write(b"x")
    assert listing(tmp_path) == ["result"]


@pytest.mark.parametrize(
    "where", ["missing/result", "file/result", "folder"], ids=["no_folder", "in_a_file", "a_folder"]
)
def test_unwritable_path_raises_os_error(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"\[Errno ") as caught:
        write(tmp_path / where, b"x")
    assert caught.value.filename == str(tmp_path / where)
    assert listing(tmp_path) == ["file", "folder"]


def test_errors_without_a_path_name_the_final_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="result") as caught:
        fail_halfway(tmp_path / "result", OSError(28, "disk full"))
    assert caught.value.filename == str(tmp_path / "result")


def test_errors_of_other_files_keep_their_path(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        fail_halfway(tmp_path / "result", FileNotFoundError(2, "No such file", "another"))
    assert caught.value.filename == "another"


# Whole folders


def test_a_folder_is_filled_when_everything_is_written(tmp_path: Path) -> None:
    with fill_folder(str(tmp_path / "new")) as draft:
        (Path(draft) / "a").write_bytes(b"a")
        (Path(draft) / "below").mkdir()
        assert listing(tmp_path / "new") == [Path(draft).name]
    assert listing(tmp_path / "new") == ["a", "below"]


def test_drafts_of_a_killed_run_do_not_count_as_files(tmp_path: Path) -> None:
    # The largest number of a process is far below this one.
    killed = tmp_path / ".2000000000.part"
    killed.mkdir()
    (killed / "a").write_bytes(b"half")
    with fill_folder(str(tmp_path)) as draft:
        (Path(draft) / "a").write_bytes(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert killed.exists()
    for path in (killed / "a", killed):
        os.utime(path, (0, 0))
    (tmp_path / "a").unlink()
    with fill_folder(str(tmp_path)):
        assert not killed.exists()


@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_leaves_the_folder_as_it_was(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "new"
    if exists:
        folder.mkdir()

    def fill() -> None:
        with fill_folder(str(folder)) as draft:
            (Path(draft) / "a").write_bytes(b"a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill()
    assert folder.exists() == exists
    assert not exists or listing(folder) == []


def test_an_interrupt_while_files_move_takes_them_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = os.rename

    def interrupted(source: str, target: str) -> None:
        if target.endswith("b"):
            raise KeyboardInterrupt
        rename(source, target)

    def fill() -> None:
        with fill_folder(str(tmp_path / "new")) as draft:
            for name in "ab":
                (Path(draft) / name).write_bytes(b"")

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fill()
    assert listing(tmp_path) == []
