"""Failed conversions: messages, remaining files and exit codes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from conversions import FILE, Convert
from dump_files import TIME, add, dump, numbered, tensor
from opdiff.core import dtypes, wire
from opdiff.read import read_operator
from opdiff.sample.container import EncodedTensor
from opdiff.workflows.convert import array_files, byte_copy

if TYPE_CHECKING:
    from pathlib import Path

LIST = "convert_failed_file_list.txt"
GOOD = numbered(3)


def with_header(header: bytes, payload: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + payload


# Files that cannot be converted as a whole, one for each part that refuses them, and their messages.
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty; the dump was interrupted or the disk was full"),
    "cut_in_the_data": (GOOD[:-1], "the file ends at 42: it is truncated"),
    "damaged_header": (with_header(b"\xff" * 20, bytes(50)), "field tag"),
    "huge_size": (
        with_header(wire.block(3, wire.number(1, 1) + wire.number(6, 1 << 60)), b"1234"),
        "1152921504606846976 bytes of data start here",
    ),
    "shape_beyond_the_data": (
        dump(EncodedTensor(dtypes.FLOAT32, (1 << 62, 1 << 62), "ND", b"1234")),
        "needs 21267647932558653966460912964485513216 elements of float32",
    ),
    "absurd_and_empty": (
        dump(EncodedTensor(dtypes.INT8, (0, 1 << 62, 1 << 62), "ND", b"")),
        "no array can have the shape",
    ),
    "endless_axes": (
        dump(EncodedTensor(dtypes.INT8, ((1 << 63) - 1,) * 60_000, "ND", b"1")),
        "a shape of 60000 axes exceeds the limit of 64",
    ),
}


@pytest.mark.parametrize(("content", "problem"), DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("form", ["npy", "npz"])
def test_damaged_files(convert: Convert, content: bytes, problem: str, form: str) -> None:
    path = convert.add(content)
    outcome = convert(path, "-t", form)
    assert (outcome.code, outcome.out.split(":")[0]) == (3, "0 of 1 file converted")
    assert outcome.err.startswith(f"failed: {path}")
    assert problem in outcome.err
    assert outcome.err.count("\n") == 1
    assert convert.results() == []


def test_one_damaged_file_in_a_thousand(convert: Convert) -> None:
    """The other files are converted by worker processes, and the failed one is named."""
    for number in range(999):
        convert.add(GOOD, f"Add.add{number}.1.2.{TIME + number}")
    bad = convert.add(GOOD[:-3], f"Conv2D.bad.1.2.{TIME}")
    outcome = convert(convert.source)
    assert outcome.code == 0
    assert outcome.out.startswith("999 of 1000 files converted: 999 results from ")
    assert outcome.err == (
        f"failed: {bad}: 12 bytes of data start here, but the file ends at 40: it is truncated (byte 31)\n"
        f"{convert.out}/{LIST} lists the failed files\n"
    )
    assert len(convert.results()) == 999 + 1
    assert (convert.out / LIST).read_text() == f"{bad}\n"


def test_reason_is_printed_safely(tmp_path: Path, convert: Convert) -> None:
    scripts = tmp_path / "own\x1b[31m"
    add(scripts / "format_convert", "convert_ND_to_NCHW.py", b"def convert(a, b, c):\n    raise ValueError('no')\n")
    outcome = convert(convert.add(), "-f", "NCHW", "-c", scripts)
    assert outcome.code == 3
    assert "own\\x1b[31m/format_convert/convert_ND_to_NCHW.py failed: ValueError('no')" in outcome.err
    assert "\x1b" not in outcome.err


# The list of failed files


def test_list_has_files_and_tensors(convert: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = EncodedTensor(dtypes.STRING, (4,), "ND", bytes(4))
    convert.add(dump(tensor([1.0]), odd, inputs=(odd,)), "half")
    convert.add(b"", "none")
    convert.add(name="good")
    monkeypatch.chdir(convert.source.parent)
    assert convert("in").code == 0
    listed = (convert.out / LIST).read_text()
    assert listed == f"{convert.source}/half,input:0,output:1\n{convert.source}/none\n"


def test_list_is_replaced_by_the_next_run(convert: Convert) -> None:
    convert.add(name="good")
    bad = convert.add(b"", "bad")
    for _ in range(2):
        assert convert(convert.source).code == 0
        assert (convert.out / LIST).read_text() == f"{bad}\n"
    convert.add(GOOD, "bad")
    assert convert(convert.source).code == 0
    assert convert.results() == ["bad.output.0.npy", "good.output.0.npy"]


def test_one_file_leaves_no_list(convert: Convert) -> None:
    outcome = convert(convert.add(b"", "bad"))
    assert (outcome.code, convert.results()) == (3, [])


def test_name_that_is_not_utf8(convert: Convert) -> None:
    convert.add(name="good")
    convert.add(b"", os.fsdecode(b"bad\xff"))
    outcome = convert(convert.source)
    assert outcome.code == 0
    assert "/in/bad\\udcff: the file is empty" in outcome.err
    assert (convert.out / LIST).read_bytes() == os.fsencode(convert.source) + b"/bad\xff\n"


def test_only_the_first_failures_are_printed(convert: Convert) -> None:
    for number in range(25):
        convert.add(b"", f"bad{number:02}")
    convert.add(name="good")
    outcome = convert(convert.source)
    lines = outcome.err.splitlines()
    assert [line.split(":")[0] for line in lines[:-2]] == ["failed"] * 20
    assert lines[-2] == "… and 5 more; --json lists all"
    assert len((convert.out / LIST).read_text().splitlines()) == 25
    files = convert(convert.source, "--json").json["files"]
    assert sum(bool(file["failures"]) for file in files) == 25


# Exit codes


@pytest.mark.parametrize(
    ("contents", "options", "code"),
    [
        ({"a": GOOD}, "", 0),
        ({"a": GOOD}, "--strict", 0),
        ({"a": GOOD, "b": b""}, "", 0),
        ({"a": GOOD, "b": b""}, "--strict", 1),
        ({"a": b"", "b": b""}, "", 3),
        ({"a": b"", "b": b""}, "--strict", 3),
        ({"a": GOOD}, "-o 1", 3),
        ({"a": dump(tensor([1.0]), inputs=(EncodedTensor(99, (1,), "ND", b"1"),))}, "--strict", 1),
        ({"a": dump(EncodedTensor(99, (1,), "ND", b"1"))}, "", 3),
        ({"a": dump(tensor(np.ones((1, 1, 1, 1, 2)), layout="NCDHW"))}, "-f NCHW", 3),
    ],
    ids=[
        "all_good", "strict_all_good", "one_failed", "strict_one_failed", "all_failed", "strict_all_failed",
        "no_such_tensor", "strict_tensor_failed", "only_tensor_failed", "no_such_conversion",
    ],
)  # fmt: skip
def test_exit_codes(convert: Convert, contents: dict[str, bytes], options: str, code: int) -> None:
    for name, content in contents.items():
        convert.add(content, name)
    assert convert(convert.source, *options.split()).code == code


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_defect_is_shown_as_one_and_costs_one_file(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    convert.add(name="good")
    convert.add(numbered(4), "odd")

    def broken(path: str, name: str) -> object:
        if name == "odd":
            raise ZeroDivisionError("an arithmetic mistake")
        return read_operator(path, name)

    monkeypatch.setattr("opdiff.workflows.convert.work.read_operator", broken)
    outcome = convert(convert.source, *form)
    assert outcome.code == 70
    assert "defect of opdiff: ZeroDivisionError('an arithmetic mistake')" in outcome.out + outcome.err
    assert "Traceback (most recent call last)" in outcome.err
    assert convert.results() == [LIST, "good.output.0.npy"]


# Results that cannot be written


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        ("file", "not a directory, but a file; results need a directory"),
        ("file/below", "results cannot be put here: Not a directory"),
        ("/proc/opdiff", "results cannot be put here: No such file or directory"),
    ],
    ids=["a_file", "below_a_file", "where_nothing_can_be_made"],
)
def test_impossible_output_folder(tmp_path: Path, convert: Convert, folder: str, why: str) -> None:
    add(tmp_path, "file", b"precious")
    outcome = run(convert.capsys, "convert", convert.add(), "-out", tmp_path / folder)
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err == f"opdiff: {tmp_path / folder}: {why}\n"
    assert (tmp_path / "file").read_bytes() == b"precious"


def test_unwritable_result_does_not_affect_others(convert: Convert) -> None:
    path = convert.add(dump(tensor([1.0]), tensor([2.0])))
    (convert.out / f"{FILE}.output.0.npy").mkdir(parents=True)
    outcome = convert(path, "--strict")
    assert outcome.code == 1
    assert outcome.err == f"failed: {path} output:0: the result cannot be written: Is a directory\n"
    assert np.load(convert.out / f"{FILE}.output.1.npy").tolist() == [2.0]


def test_a_folder_of_a_tree_that_cannot_be_made(convert: Convert) -> None:
    convert.add(folder="sub")
    convert.add()
    add(convert.out, "sub", b"in the way")
    outcome = convert(convert.source)
    assert outcome.code == 0
    assert f"failed: {convert.source}/sub/{FILE}: the result cannot be written: File exists\n" in outcome.err


def test_unwritable_list_is_reported(convert: Convert) -> None:
    convert.add(name="good")
    convert.add(b"", "bad")
    (convert.out / LIST).mkdir(parents=True)
    outcome = convert(convert.source, "--strict")
    assert outcome.code == 1
    assert "opdiff: a list of results cannot be written: Is a directory\n" in outcome.err
    assert "failed: " in outcome.err


@pytest.mark.parametrize("form", ["npy", "npz", "bin"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError()], ids=["disk", "memory"])
def test_lack_of_memory_or_disk_is_not_a_defect(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, form: str, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    path = convert.add()
    (convert.out).mkdir()
    monkeypatch.setattr(array_files, "_put", fail)
    monkeypatch.setattr(byte_copy, "_copy", fail)
    outcome = convert(path, "-t", form)
    assert outcome.code == 3
    text = {OSError: "the result cannot be written: No space left on device", MemoryError: "not enough memory"}
    assert text[type(error)] in outcome.err
    assert convert.results() == []


# Wrong requests


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "give a dump file or a directory"),
        ("FILE -s 1,2", "--shape requires --format"),
        ("FILE -c DIR", "--custom requires --format"),
        ("FILE -f nchw", "--format nchw: not a known layout; available: C1HWNC0, C1HWNCoC0,"),
        ("FILE -f YUV", "--format YUV: not a known layout"),
        ("FILE -f NCHW -c DIR", "format_convert': cannot be listed: No such file or directory"),
        ("FILE FILE2 -f NCHW -s 1,2,3,4", "--shape applies to the tensors of one file; give one file"),
        ("DIR -f NCHW -s 1,2,3,4", "--shape applies to the tensors of one file; give one file"),
        ("FILE -o 0 -i 0", "-o 0 is an output tensor, and only one tensor can be chosen"),
        ("FILE --output-tensor 0 -i 0", "-i/--input/--input-tensor: not allowed with argument --output-tensor"),
        ("FILE --output-tensor x", "'x' is not an index; the first tensor has index 0"),
        ("FILE -o x", "there are two output directories: -o x and -out "),
        ("FILE -o -1", "-o -1 is neither a directory nor an output tensor; the first has index 0"),
        ("FILE -s 1,a -f NCHW", "'1,a' is not a shape such as 1,64,28,28"),
        ("FILE -s 1,-2 -f NCHW", "'1,-2' is not a shape such as 1,64,28,28"),
        ("FILE -s , -f NCHW", "',' is not a shape such as 1,64,28,28"),
        ("FILE -t txt", "invalid choice: 'txt'"),
        ("FILE -j 0", "'0' is not a number of workers from 1 to 1024"),
        ("FILE -j many", "'many' is not a number of workers from 1 to 1024"),
        ("FILE --forma NCHW", "unknown option --forma; did you mean --format?"),
    ],
)  # fmt: skip
def test_usage_errors(convert: Convert, options: str, message: str) -> None:
    paths = {"FILE": convert.add(), "FILE2": convert.add(name="b", folder="below"), "DIR": str(convert.source)}
    arguments = [paths.get(word, word) for word in options.split()]
    outcome = convert(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert not (convert.out).exists()


def test_pytorch_files_need_pytorch(convert: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    outcome = convert(convert.add(), "-t", "pt")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "opdiff: --type pt requires PyTorch, which is not installed; use another type, such as npy\n"
    )


def test_pytorch_files(convert: Convert) -> None:
    torch = pytest.importorskip("torch")
    values = [1.0, -2.5]
    path = convert.add(dump(tensor(values), tensor(values, dtypes.BFLOAT16)))
    assert convert(path, "-t", "pt").code == 0
    plain, brain = (torch.load(convert.out / f"{FILE}.output.{index}.pt") for index in range(2))
    assert (plain.dtype, brain.dtype) == (torch.float32, torch.bfloat16)
    assert plain.tolist() == brain.tolist() == values
