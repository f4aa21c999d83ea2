"""Files that are neither dumps nor compiled models: what they seem to be, and what to use instead."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from caffe_nets import layer, random_array, write_net
from onnx_models import model, node, value

if TYPE_CHECKING:
    from pathlib import Path

    from command_line import Command

DUMP = "Give a dump file, or the directory that holds the dump files"
UNPACK = "Unpack it, and give the directory that holds the dump files"
NUMPY = 'Save its tensors as NumPy files: numpy.save("OPERATOR.0.npy", tensor.numpy())'
OM = "`opdiff inspect` reads the offline model (.om) that was compiled from it"
COUNTS = "the compiler's fusion_result.json, which only counts how often each fusion pass was applied"
RULES = (
    "The operators of the compiled model are in the offline model (.om) and in the JSON that atc --mode=1 makes of it"
)
PASSES = {
    "graph_fusion": {"ConstToAttrPass": {"effect_times": "70", "match_times": "70"}},
    "session_and_graph_id": "0_0",
}


def archive(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("__", "/"), content)
    return file.getvalue()


def onnx() -> bytes:
    content: bytes = model([node("Relu", "x", "y")], [value("x")]).SerializeToString()
    return content


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


STRANGERS: dict[str, tuple[bytes, str, str]] = {
    "README.md": (b"# Network\n\nHow to use it.\n", "a text file", DUMP),
    # Text that is indented far, as the first line of a licence is.
    "LICENSE": (b" " * 60 + b"The dumps\nare elsewhere.", "a text file", DUMP),
    "\u8bf4\u660e.md": ("\u7f51\u7edc\n".encode() * 1000, "a text file", DUMP),
    "notes.txt": (b"The dumps are elsewhere.", "a text file", DUMP),
    "config.toml": (b'[network]\nname = "resnet"\n', "a text file", DUMP),
    "plog-1234_20260101.log": (b"[ERROR] GE(1234,atc):2026-01-01 failed\n", "a log", DUMP),
    "report.html": (b"<!DOCTYPE html><html></html>", "an HTML page", DUMP),
    "photo.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "an image", DUMP),
    "photo.jpg": (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "an image", DUMP),
    "dump.zip": (archive(dump=b"x"), "a zip archive", UNPACK),
    "dump.tar.gz": (gzip.compress(b"x" * 100), "a compressed file or an archive", UNPACK),
    "table.xlsx": (archive(xl__workbook=b"<x/>"), "an Excel workbook", DUMP),
    "tensor.pt": (archive(**{"tensor__data.pkl": pickle.dumps(1)}), "a PyTorch file", NUMPY),
    "old.pth": (pickle.dumps([1.0, 2.0], protocol=2), "a PyTorch file", NUMPY),
    "model.safetensors": (b"\x40\0\0\0\0\0\0\0" + b'{"__metadata__":{}}'.ljust(64), "a safetensors file", NUMPY),
    "net.onnx": (onnx(), "an ONNX model", f"`opdiff golden MODEL` makes golden data from it, {OM}"),
    "net": (onnx(), "an ONNX model", f"`opdiff golden MODEL` makes golden data from it, {OM}"),
    "array": (npy(), "a NumPy array without the suffix .npy", "Add .npy to its name"),
    "libkernel.so": (b"\x7fELF\x02\x01\x01" + bytes(20), "a program or a library", DUMP),
    "fusion_result.json": (
        json.dumps(PASSES).encode(),
        COUNTS,
        RULES,
    ),
    "fusion_list.json": (
        json.dumps([PASSES], indent=4).encode(),
        COUNTS,
        RULES,
    ),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_named(name: str, tmp_path: Path, opdiff: Command) -> None:
    content, seems, instead = STRANGERS[name]
    path = tmp_path / name
    path.write_bytes(content)
    outcome = opdiff("inspect", path)
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err == f"opdiff: {path}: neither a dump nor a compiled model; it looks like {seems}. {instead}\n"


def test_the_files_of_a_caffe_model_are_named(tmp_path: Path, opdiff: Command) -> None:
    text = 'name: "net"\n' + layer(
        "conv", "Convolution", "x", "conv", "convolution_param { num_output: 1 kernel_size: 1 }"
    )
    prototxt, weights = write_net(tmp_path, text, {"conv": [random_array(1, 1, 1, 1)]})
    golden = f"`opdiff golden NET.prototxt NET.caffemodel` makes golden data from it, {OM}\n"
    assert opdiff("inspect", weights).err.endswith(f"it looks like the weights of a Caffe model. {golden}")
    assert opdiff("inspect", prototxt).err.endswith(f"it looks like the prototxt of a Caffe model. {golden}")


def test_a_saved_comparison_is_named(tmp_path: Path, opdiff: Command) -> None:
    (tmp_path / "result.json").write_text('{"schema": "opdiff.comparison", "version": 3}')
    assert "it looks like a comparison that opdiff saved. `opdiff report FILE` writes its report" in (
        opdiff("inspect", tmp_path / "result.json").err
    )


def test_a_stranger_is_named_in_chinese(tmp_path: Path, opdiff: Command) -> None:
    (tmp_path / "README.md").write_text("text")
    outcome = opdiff("inspect", tmp_path / "README.md", "--lang", "zh")
    assert "看起来是文本文件。" in outcome.err


@pytest.mark.parametrize("content", [b"\xff" * 100, b"\0" * 7 + b"\x7f" + b"\0" * 100], ids=["ones", "a large length"])
def test_a_file_of_unknown_kind_is_no_dump(content: bytes, tmp_path: Path, opdiff: Command) -> None:
    (tmp_path / "x.bin").write_bytes(content)
    problem = "not a dump file, or damaged: its first 8 bytes are not the length of a header (byte 0)"
    assert opdiff("inspect", tmp_path / "x.bin").err == f"opdiff: {tmp_path / 'x.bin'}: {problem}\n"


def test_a_damaged_file_of_a_known_kind_keeps_its_error(tmp_path: Path, opdiff: Command) -> None:
    """Readers of archives and graph texts know more than that it looks like an archive or a text."""
    cut_text = b"graph {\n  op {\n"
    for name, content in (("a.npz", archive(x=b"y")[:40]), ("net.om2", archive(x=b"y")), ("graph.txt", cut_text)):
        (tmp_path / name).write_bytes(content)
        outcome = opdiff("inspect", tmp_path / name)
        assert (outcome.code, "looks like" in outcome.err) == (3, False), outcome.err


@pytest.mark.parametrize("name", ["README.md", "fusion_result.json", "net.onnx", "photo.png"])
def test_a_stranger_in_place_of_rules_is_named(name: str, tmp_path: Path, opdiff: Command) -> None:
    content, seems, _ = STRANGERS[name]
    path = tmp_path / name
    path.write_bytes(content)
    outcome = opdiff("compare", tmp_path, tmp_path, "-fr", path)
    assert outcome.code == 3
    assert outcome.err == (
        f"opdiff: {path}: not a rule file; it looks like {seems}. "
        "Rules are read from the offline model (.om), from the JSON that atc --mode=1 makes of it, or from a "
        "graph text (ge_proto_*.txt, dynamo_*.txt)\n"
    )
