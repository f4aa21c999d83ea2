"""Selection of files to convert, and folders of the results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from dump_files import TIME, add, dump, tensor
from opdiff.sample.container import Overflow, overflow_dump, overflow_record, standard_dump

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Outcome

FILE = f"Add.add.5.7.{TIME}"
RESULT = f"{FILE}.output.0.npy"


def tree(folder: Path) -> list[str]:
    """Return every file below a folder."""
    return sorted(
        os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names
    )


def convert(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: object) -> Outcome:
    return run(capsys, "convert", *arguments, "-out", tmp_path / "out")


def reasons(outcome: Outcome) -> dict[str, str]:
    return {os.path.basename(item["path"]): item["reason"] for item in outcome.json["skipped"]}


# Files, lists and trees


@pytest.mark.parametrize("name", [FILE, "anything", "[red]x", "a b ü 算", "-", "name.bin", "1234"])
def test_one_file_of_any_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = add(tmp_path / "in", name)
    assert convert(capsys, tmp_path, path).code == 0
    assert tree(tmp_path / "out") == [f"{name}.output.0.npy"]


@pytest.mark.parametrize("listed", ["positional", "commas", "both", "long_option"])
def test_a_list_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], listed: str) -> None:
    first, second = (add(tmp_path / "in", name) for name in "ab")
    arguments = {
        "positional": [first, second],
        "commas": ["-d", f"{first},{second}"],
        "both": [first, "-d", second],
        "long_option": ["--dump_file", f"{first},,{second},"],
    }
    outcome = convert(capsys, tmp_path, *arguments[listed])
    assert (outcome.code, outcome.out.split(" in ")[0]) == (0, "2 of 2 files converted: 2 results from 86 B")
    assert tree(tmp_path / "out") == ["a.output.0.npy", "b.output.0.npy"]


def test_comma_in_an_existing_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(capsys, tmp_path, "-d", add(tmp_path / "a,b", FILE)).code == 0
    assert tree(tmp_path / "out") == [RESULT]


def test_a_tree_keeps_its_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ["", "0", "0/net name/1/0", "0/net name/1/10", "ü"]
    for folder in folders:
        add(tmp_path / "in" / folder, FILE)
    assert convert(capsys, tmp_path, tmp_path / "in").code == 0
    assert tree(tmp_path / "out") == sorted(os.path.join(folder, RESULT) for folder in folders)


def test_default_output_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path / "in" / "sub", FILE)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert run(capsys, "convert", "../in").code == 0
    assert tree(tmp_path / "work") == [f"sub/{RESULT}"]


def test_an_output_folder_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(tmp_path / "in", FILE)
    assert run(capsys, "convert", path, "--output-dir", tmp_path / "a b" / "c" / "").code == 0
    assert tree(tmp_path / "a b") == [f"c/{RESULT}"]


def test_file_given_twice_is_converted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(tmp_path / "in", FILE)
    outcome = convert(capsys, tmp_path, path, str(tmp_path / "in"), "-d", path)
    assert (outcome.code, outcome.out.split(":")[0]) == (0, "1 of 1 file converted")


def test_folder_and_its_subfolder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file, two results; both are counted."""
    add(tmp_path / "in" / "sub", FILE)
    outcome = convert(capsys, tmp_path, tmp_path / "in", tmp_path / "in" / "sub")
    assert (outcome.code, outcome.out.split(" in ")[0]) == (0, "2 of 2 files converted: 2 results from 86 B")
    assert tree(tmp_path / "out") == [RESULT, f"sub/{RESULT}"]


@pytest.mark.parametrize("ending", ["", "/", "/."], ids=["plain", "slash", "dot"])
def test_results_never_overwrite_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    first, second = (add(tmp_path / folder, FILE) for folder in ("a", "b"))
    outcome = run(capsys, "convert", first, tmp_path / "b", "-out", f"{tmp_path}/out{ending}")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"opdiff: {first} and {second} would have the same results; convert them into different folders\n"
    )
    assert not (tmp_path / "out").exists()


# Files of a tree that are skipped


def test_other_files_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a.json", "model.om", "x.onnx", "readme.md", "run.sh", f"{FILE}.csv", "log.txt"]
    for name in [FILE, *names]:
        add(tmp_path / "in", name)
    for name in ("mapping.csv", "convert_failed_file_list.txt", ".hidden"):
        add(tmp_path / "in", name, b"1,2\n")
    outcome = convert(capsys, tmp_path, tmp_path / "in", "--json")
    assert reasons(outcome) == dict.fromkeys(names, "not a dump file")
    assert tree(tmp_path / "out") == [RESULT]


def test_first_skipped_file_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (FILE, "a.json", "b.json"):
        add(tmp_path / "in", name)
    outcome = convert(capsys, tmp_path, tmp_path / "in")
    assert f"2 files skipped, such as {tmp_path}/in/a.json: not a dump file\n" in outcome.out


@pytest.mark.parametrize(
    ("options", "taken"),
    [("", False), ("-t npz", True), ("-t bin", True), ("-f ND", True)],
    ids=["npy", "npz", "bin", "layout"],
)
def test_numpy_files_are_converted_if_they_would_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, *, taken: bool
) -> None:
    add(tmp_path / "in", FILE)
    np.save(tmp_path / "in" / f"gold.0.{TIME}.npy", np.eye(2))
    outcome = convert(capsys, tmp_path, tmp_path / "in", "--json", *options.split())
    assert len(outcome.json["files"]) == 1 + taken
    assert reasons(outcome) == ({} if taken else {f"gold.0.{TIME}.npy": "already a NumPy file"})


def test_earlier_results_are_not_converted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results of every form next to their dumps are skipped in later runs; golden data there is converted."""
    add(tmp_path, FILE, dump(tensor([1.0])))
    np.save(tmp_path / "gold.0.npy", np.eye(2))
    for options in ("-t npy", "-t npz", "-t msnpy", "-t npy -f ND", "-t bin"):
        assert run(capsys, "convert", tmp_path, "-out", tmp_path, *options.split()).code == 0
    endings = ["npz", "output.0.1.float32.ND.bin", "output.0.1.npy", "output.0.ND.npy", "output.0.npy"]
    gold = ["", ".npz", ".output.0.2x2.npy", ".output.0.4.float64.ND.bin"]
    assert tree(tmp_path) == [FILE, *(f"{FILE}.{end}" for end in endings), *(f"gold.0.npy{end}" for end in gold)]


def test_results_inside_the_tree_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tmp_path, FILE, dump(tensor([1.0])))
    for _ in range(3):
        assert run(capsys, "convert", tmp_path, "-out", tmp_path / "npy", "-f", "ND").code == 0
    assert tree(tmp_path) == [FILE, f"npy/{FILE}.output.0.1.npy"]


def test_arrays_that_lost_their_type_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "gold.0.npy", np.array([0x3F80], np.uint16).view("V2"))
    assert convert(capsys, tmp_path, tmp_path / "in").code == 0
    assert np.load(tmp_path / "out" / "gold.0.npy.output.0.npy").tolist() == [1.0]


def test_a_hashed_file_is_read_by_its_real_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = add(tmp_path, "123456789", standard_dump(overflow_dump(overflow_record(Overflow()))))
    (tmp_path / "mapping.csv").write_text(f"123456789,Opdebug.Node_OpDebug.1.2.{TIME}\n")
    assert run(capsys, "convert", path, "-out", tmp_path / "out").code == 0
    assert tree(tmp_path / "out") == ["123456789.output.0.json"]


def test_converted_files_without_their_dumps_are_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / RESULT, np.eye(2))
    assert convert(capsys, tmp_path, tmp_path / "in", "-t", "bin").code == 0
    assert tree(tmp_path / "out") == [f"{RESULT}.output.0.4.float64.ND.bin"]


def test_a_link_that_leaves_the_tree_is_not_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = add(tmp_path / "outside", f"Sub.sub.1.2.{TIME}")
    add(tmp_path / "in", FILE)
    (tmp_path / "in" / f"Sub.sub.1.2.{TIME}").symlink_to(outside)
    (tmp_path / "in" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "1234567890").symlink_to(outside)
    outcome = convert(capsys, tmp_path, tmp_path / "in", "--json")
    left = "a link that leaves the directory; not followed"
    assert reasons(outcome) == {f"Sub.sub.1.2.{TIME}": left, "folder": left, "1234567890": left}
    assert tree(tmp_path / "out") == [RESULT]


def test_pipe_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tmp_path / "in", FILE)
    os.mkfifo(tmp_path / "in" / f"Sub.sub.1.2.{TIME}")
    outcome = convert(capsys, tmp_path, tmp_path / "in", "--json")
    assert reasons(outcome) == {f"Sub.sub.1.2.{TIME}": "not a regular file"}
    alone = convert(capsys, tmp_path, tmp_path / "in" / f"Sub.sub.1.2.{TIME}")
    assert alone.code == 3
    assert "not a regular file" in alone.err


def test_a_hash_without_its_real_name_is_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tmp_path / "in", "12345678901234567890")
    outcome = convert(capsys, tmp_path, tmp_path / "in", "--json")
    assert (outcome.code, reasons(outcome)) == (0, {})
    assert tree(tmp_path / "out") == ["12345678901234567890.output.0.npy"]


# Nothing to convert


@pytest.mark.parametrize(
    ("names", "message"),
    [([], "no dump files here (0 other files)"), (["a.txt", "b.json"], "no dump files here (2 other files)")],
    ids=["empty", "no_dumps"],
)
def test_a_directory_without_dumps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: list[str], message: str
) -> None:
    (tmp_path / "in").mkdir()
    for name in names:
        add(tmp_path / "in", name)
    outcome = convert(capsys, tmp_path, tmp_path / "in")
    assert (outcome.code, outcome.out, outcome.err) == (3, "", f"opdiff: {tmp_path}/in: {message}\n")
    assert not (tmp_path / "out").exists()


def test_a_path_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = convert(capsys, tmp_path, add(tmp_path / "in", FILE), tmp_path / "nothing")
    assert (outcome.code, outcome.err) == (3, f"opdiff: {tmp_path}/nothing: no such file or directory\n")
    assert not (tmp_path / "out").exists()


def test_dump_without_tensors_is_not_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("npy", "npz"):
        outcome = convert(capsys, tmp_path, add(tmp_path / "in", FILE, dump()), "--strict", "-t", form)
        assert (outcome.code, outcome.err) == (0, "")
        assert f"1 file with nothing to convert, such as {tmp_path}/in/{FILE}\n" in outcome.out
    assert tree(tmp_path / "out") == []


# Which tensors


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["-o", "1"], ["output.1"]),
        (["--output", "0"], ["output.0"]),
        (["--output_tensor=1"], ["output.1"]),
        (["-i", "0"], ["input.0"]),
        (["--input_tensor", "0"], ["input.0"]),
    ],
    ids="_".join,
)
def test_one_tensor(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], names: list[str]) -> None:
    path = add(tmp_path / "in", FILE, dump(tensor([1.0]), tensor([2.0]), inputs=(tensor([3.0]),)))
    assert convert(capsys, tmp_path, path, *options).code == 0
    assert tree(tmp_path / "out") == [f"{FILE}.{name}.npy" for name in names]


def test_one_tensor_of_every_file_of_a_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tmp_path / "in", "two", dump(tensor([1.0]), tensor([2.0])))
    add(tmp_path / "in", "one", dump(tensor([1.0])))
    outcome = convert(capsys, tmp_path, tmp_path / "in", "-o", "1")
    assert outcome.code == 0
    assert f"failed: {tmp_path}/in/one: there is no output 1; the file has 1\n" in outcome.err
    assert tree(tmp_path / "out") == ["convert_failed_file_list.txt", "two.output.1.npy"]
