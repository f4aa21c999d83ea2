"""`opdiff golden` on the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import Capture, run
from onnx_models import files_of, model, node, value, write

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "x=1.npy", X)
    (tmp_path / "x=1.bin").write_bytes(X.tobytes())
    nodes = [
        node("Neg", "x:0", "a", "conv1"),
        node("SplitToSequence", "a", "s", "split"),
        node("Relu", "a", "y", "relu"),
    ]
    return write(tmp_path / "m.onnx", model(nodes, [value("x:0", ["N", 3])]))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--input", "x:0={}/x.npy"),
        ("--input", "{}/x.npy"),
        ("--input", "{}/x=1.npy"),
        ("--input", "x:0={}/x=1.bin", "--shape", "x:0:2,3"),
        ("--input", "x:0={}/x=1.bin", "--shape", "2,3"),
    ],
    ids=["named", "unnamed", "unnamed, with =", "raw", "raw, unnamed shape"],
)
def test_inputs_and_shapes(net: Path, tmp_path: Path, capsys: Capture, arguments: tuple[str, ...]) -> None:
    done = run(capsys, "golden", net, *(argument.format(tmp_path) for argument in arguments), "-o", tmp_path / "g")
    assert done.code == 0, done.err
    assert done.out.startswith("3 golden files, 72 B, in ")
    assert "without a file: 1 operator (split): not a tensor of numbers (seq(tensor(float)))" in done.out
    np.testing.assert_array_equal(files_of(tmp_path / "g")["conv1.0"], -X)


def test_the_result_as_json(net: Path, tmp_path: Path, capsys: Capture) -> None:
    done = run(capsys, "golden", net, "--random", 7, "--shape", "x:0:4,3", "-o", tmp_path / "g", "--json")
    assert done.json == {
        "folder": str(tmp_path / "g"),
        "files": 3,
        "nbytes": 144,
        "without_file": [
            {"name": "split", "code": "golden.not_numbers", "reason": "not a tensor of numbers (seq(tensor(float)))"}
        ],
        "input_files": [str(tmp_path / "g" / "inputs" / "x:0.bin")],
    }


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "no data for x:0 (float32 [N, 3]); give --input x:0=FILE, or --random SEED"),
        (("--random", "1"), 2, "the shape of input x:0 is [N, 3]; random data needs --shape x:0:…"),
        (("--random", "1", "--shape", "x:0:a,b"), 2, "is not a shape such as data:1,3,224,224"),
        (("--random", "1", "--shape", "1,3", "--shape", "2,3"), 2, "--shape names the only input twice"),
        (("--random", "1", "--shape", "1,3", "--only", "pool*"), 2, "--only pool*: no operator of the model fits"),
        (("--random", "1", "--shape", "1,3", "--until", "pool"), 2, "--until pool: the model has no such operator"),
        (
            ("--random", "1", "--shape", "1,3", "--only", "Conv"),
            2,
            "--only Conv: no operator of the model fits; did you mean conv1?",
        ),
        (("--random", "1", "--shape", "1,3", "--until", "cnv1"), 2, "such operator; did you mean conv1?"),
        (("--random", "1", "--shape", "1,4"), 3, "Got invalid dimensions"),
        (("--random", "1", "--shape", "1,3", "--library", "no.so"), 3, "no.so"),
        (("--random", "1", "--shape", "1,3", "--for", "no.om"), 3, "no.om"),
        (("{net}",), 3, "not a prototxt"),
    ],
)
def test_errors(
    net: Path, tmp_path: Path, capsys: Capture, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run(capsys, "golden", net, *(argument.format(net=net) for argument in arguments), "-o", tmp_path / "g")
    assert (done.code, message in done.err) == (code, True), done.err
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    ("module", "model_name", "extra"),
    [("onnxruntime", "m.onnx", "golden"), ("tensorflow", "frozen.pb", "golden-tf")],
    ids=["ONNX Runtime", "TensorFlow"],
)
def test_without_an_engine_the_message_says_what_to_install(
    net: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    model_name: str,
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    (net.parent / "frozen.pb").write_bytes(b"\x0a\x00")
    done = run(capsys, "golden", net.parent / model_name, "--random", 1, "--shape", "1,3", "-o", net.parent / "g")
    assert done.code == 2
    assert f"pip install 'opdiff[{extra}]'" in done.err
