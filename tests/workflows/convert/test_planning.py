"""Selection of files to convert, and folders of the results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from conversions import FILE, Convert
from dump_files import TIME, add, dump, tensor
from opdiff.sample.container import Overflow, overflow_dump, overflow_record, standard_dump

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Outcome

RESULT = f"{FILE}.output.0.npy"
OTHER = f"Sub.sub.1.2.{TIME}"


def reasons(outcome: Outcome) -> dict[str, str]:
    return {os.path.basename(item["path"]): item["reason"] for item in outcome.json["skipped"]}


# Files, lists and trees


@pytest.mark.parametrize("name", [FILE, "anything", "[red]x", "a b ü 算", "-", "name.bin", "1234"])
def test_one_file_of_any_name(convert: Convert, name: str) -> None:
    assert convert.converted(None, name=name) == [f"{name}.output.0.npy"]


@pytest.mark.parametrize("listed", ["positional", "commas", "both", "long_option"])
def test_a_list_of_files(convert: Convert, listed: str) -> None:
    first, second = (convert.add(name=name) for name in "ab")
    arguments = {
        "positional": [first, second],
        "commas": ["-d", f"{first},{second}"],
        "both": [first, "-d", second],
        "long_option": ["--dump_file", f"{first},,{second},"],
    }
    outcome = convert(*arguments[listed])
    assert (outcome.code, outcome.out.split(" in ")[0]) == (0, "2 of 2 files converted: 2 results from 86 B")
    assert convert.results() == ["a.output.0.npy", "b.output.0.npy"]


def test_comma_in_an_existing_path(convert: Convert) -> None:
    assert convert("-d", convert.add(folder="a,b")).code == 0
    assert convert.results() == [RESULT]


def test_a_tree_keeps_its_folders(convert: Convert) -> None:
    folders = ["", "0", "0/net name/1/0", "0/net name/1/10", "ü"]
    for folder in folders:
        convert.add(folder=folder)
    assert convert(convert.source).code == 0
    assert convert.results() == sorted(os.path.join(folder, RESULT) for folder in folders)


def test_default_output_directory(convert: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    convert.add(folder="sub")
    convert.out.mkdir()
    monkeypatch.chdir(convert.out)
    assert run(convert.capsys, "convert", "../in").code == 0
    assert convert.results() == [f"sub/{RESULT}"]


def test_an_output_folder_is_made(convert: Convert) -> None:
    folder = convert.out / "a b" / "c" / ""
    assert run(convert.capsys, "convert", convert.add(), "--output-dir", folder).code == 0
    assert convert.results() == [f"a b/c/{RESULT}"]


def test_file_given_twice_is_converted_once(convert: Convert) -> None:
    path = convert.add()
    outcome = convert(path, convert.source, "-d", path)
    assert (outcome.code, outcome.out.split(":")[0]) == (0, "1 of 1 file converted")


def test_folder_and_its_subfolder(convert: Convert) -> None:
    """One file, two results; both are counted."""
    convert.add(folder="sub")
    outcome = convert(convert.source, convert.source / "sub")
    assert (outcome.code, outcome.out.split(" in ")[0]) == (0, "2 of 2 files converted: 2 results from 86 B")
    assert convert.results() == [RESULT, f"sub/{RESULT}"]


@pytest.mark.parametrize("ending", ["", "/", "/."], ids=["plain", "slash", "dot"])
def test_results_never_overwrite_each_other(convert: Convert, ending: str) -> None:
    first, second = (convert.add(folder=folder) for folder in "ab")
    words = first, convert.source / "b", "-out", f"{convert.out}{ending}"
    outcome = run(convert.capsys, "convert", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"opdiff: {first} and {second} would have the same results; convert them into different folders\n"
    )
    assert not convert.out.exists()


# Files of a tree that are skipped


def test_other_files_are_skipped(convert: Convert) -> None:
    names = ["a.json", "log.txt", "model.om", "readme.md", "run.sh", "x.onnx", f"{FILE}.csv"]
    for name in [FILE, *names]:
        convert.add(name=name)
    for name in ("mapping.csv", "convert_failed_file_list.txt", ".hidden"):
        convert.add(b"1,2\n", name)
    assert reasons(convert(convert.source, "--json")) == dict.fromkeys(names, "not a dump file")
    assert convert.results() == [RESULT]
    assert f"7 files skipped, such as {convert.source}/{FILE}.csv: not a dump file\n" in convert(convert.source).out


@pytest.mark.parametrize(
    ("options", "taken"),
    [("", False), ("-t npz", True), ("-t bin", True), ("-f ND", True)],
    ids=["npy", "npz", "bin", "layout"],
)
def test_numpy_files_are_converted_if_they_would_change(convert: Convert, options: str, *, taken: bool) -> None:
    convert.add()
    np.save(convert.source / f"gold.0.{TIME}.npy", np.eye(2))
    outcome = convert(convert.source, "--json", *options.split())
    assert len(outcome.json["files"]) == 1 + taken
    assert reasons(outcome) == ({} if taken else {f"gold.0.{TIME}.npy": "already a NumPy file"})


def test_earlier_results_are_not_converted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results of every form next to their dumps are skipped in later runs; golden data there is converted."""
    convert = Convert(tmp_path, tmp_path, capsys)
    convert.add(dump(tensor([1.0])))
    np.save(tmp_path / "gold.0.npy", np.eye(2))
    for options in ("-t npy", "-t npz", "-t msnpy", "-t npy -f ND", "-t bin"):
        assert convert(tmp_path, *options.split()).code == 0
    endings = ["npz", "output.0.1.float32.ND.bin", "output.0.1.npy", "output.0.ND.npy", "output.0.npy"]
    gold = ["", ".npz", ".output.0.2x2.npy", ".output.0.4.float64.ND.bin"]
    assert convert.results() == [FILE, *(f"{FILE}.{end}" for end in endings), *(f"gold.0.npy{end}" for end in gold)]


def test_results_inside_the_tree_are_skipped(tmp_path: Path, convert: Convert) -> None:
    add(tmp_path, FILE, dump(tensor([1.0])))
    for _ in range(3):
        assert convert(tmp_path, "-f", "ND").code == 0
    assert convert.results() == [f"{FILE}.output.0.1.npy"]


def test_arrays_that_lost_their_type_are_decoded(convert: Convert) -> None:
    convert.source.mkdir()
    np.save(convert.source / "gold.0.npy", np.array([0x3F80], np.uint16).view("V2"))
    assert convert(convert.source).code == 0
    assert convert.load("gold.0.npy.output.0.npy").tolist() == [1.0]


def test_a_hashed_file_is_read_by_its_real_name(convert: Convert) -> None:
    path = convert.add(standard_dump(overflow_dump(overflow_record(Overflow()))), "123456789")
    (convert.source / "mapping.csv").write_text(f"123456789,Opdebug.Node_OpDebug.1.2.{TIME}\n")
    assert convert(path).code == 0
    assert convert.results() == ["123456789.output.0.json"]


def test_converted_files_without_their_dumps_are_converted(convert: Convert) -> None:
    convert.source.mkdir()
    np.save(convert.source / RESULT, np.eye(2))
    assert convert(convert.source, "-t", "bin").code == 0
    assert convert.results() == [f"{RESULT}.output.0.4.float64.ND.bin"]


def test_a_link_that_leaves_the_tree_is_not_followed(tmp_path: Path, convert: Convert) -> None:
    outside = add(tmp_path / "outside", OTHER)
    convert.add()
    (convert.source / OTHER).symlink_to(outside)
    (convert.source / "folder").symlink_to(tmp_path / "outside")
    (convert.source / "1234567890").symlink_to(outside)
    found = reasons(convert(convert.source, "--json"))
    assert found == dict.fromkeys([OTHER, "folder", "1234567890"], "a link that leaves the directory; not followed")
    assert convert.results() == [RESULT]


def test_pipe_is_skipped(convert: Convert) -> None:
    convert.add()
    os.mkfifo(convert.source / OTHER)
    assert reasons(convert(convert.source, "--json")) == {OTHER: "not a regular file"}
    alone = convert(convert.source / OTHER)
    assert alone.code == 3
    assert "not a regular file" in alone.err


def test_a_hash_without_its_real_name_is_converted(convert: Convert) -> None:
    convert.add(name="12345678901234567890")
    outcome = convert(convert.source, "--json")
    assert (outcome.code, reasons(outcome)) == (0, {})
    assert convert.results() == ["12345678901234567890.output.0.npy"]


# Nothing to convert


@pytest.mark.parametrize("names", [[], ["a.txt", "b.json"]], ids=["empty", "no_dumps"])
def test_a_directory_without_dumps(convert: Convert, names: list[str]) -> None:
    convert.source.mkdir()
    for name in names:
        convert.add(name=name)
    outcome = convert(convert.source)
    message = f"opdiff: {convert.source}: no dump files here ({len(names)} other files)\n"
    assert (outcome.code, outcome.out, outcome.err) == (3, "", message)
    assert not convert.out.exists()


def test_a_path_that_does_not_exist(tmp_path: Path, convert: Convert) -> None:
    outcome = convert(convert.add(), tmp_path / "nothing")
    assert (outcome.code, outcome.err) == (3, f"opdiff: {tmp_path}/nothing: no such file or directory\n")
    assert not convert.out.exists()


def test_dump_without_tensors_is_not_a_failure(convert: Convert) -> None:
    path = convert.add(dump())
    for form in ("npy", "npz"):
        outcome = convert(path, "--strict", "-t", form)
        assert (outcome.code, outcome.err) == (0, "")
        assert f"1 file with nothing to convert, such as {path}\n" in outcome.out
    assert convert.results() == []


# Which tensors


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("-o 1", "output.1"),
        ("--output 0", "output.0"),
        ("--output_tensor=1", "output.1"),
        ("-i 0", "input.0"),
        ("--input_tensor 0", "input.0"),
    ],
)
def test_one_tensor(convert: Convert, options: str, name: str) -> None:
    path = convert.add(dump(tensor([1.0]), tensor([2.0]), inputs=(tensor([3.0]),)))
    assert convert(path, *options.split()).code == 0
    assert convert.results() == [f"{FILE}.{name}.npy"]


def test_one_tensor_of_every_file_of_a_tree(convert: Convert) -> None:
    convert.add(dump(tensor([1.0]), tensor([2.0])), "two")
    convert.add(dump(tensor([1.0])), "one")
    outcome = convert(convert.source, "-o", "1")
    assert outcome.code == 0
    assert f"failed: {convert.source}/one: there is no output 1; the file has 1\n" in outcome.err
    assert convert.results() == ["convert_failed_file_list.txt", "two.output.1.npy"]
