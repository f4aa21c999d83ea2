"""The directory of golden data: whole or not there, with a manifest, and checked against rules."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx import TensorProto

from command_line import run
from dump_files import add, dump, tensor
from made_dumps import rule, rule_file
from onnx_models import files_of, golden, graph, model, node, value, weight, write
from opdiff.core.errors import InputError
from opdiff.workflows.golden import pipeline
from opdiff.workflows.golden.options import GoldenOptions

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.reasons import Reason

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def small_model(folder: Path, name: str = "m.onnx") -> Path:
    nodes = [node("Neg", "x", "a", "conv1"), node("Relu", "a", "y", "relu1")]
    return write(folder / name, model(nodes, [value("x", ["N", 3])]))


def test_only_an_empty_directory_is_filled(tmp_path: Path) -> None:
    old = tmp_path / "g" / "old.npy"
    old.parent.mkdir()
    old.write_bytes(b"")
    with pytest.raises(InputError, match=r"holds old\.npy already; give a new or empty directory"):
        golden(small_model(tmp_path), tmp_path / "g", inputs={"": X})
    assert os.listdir(tmp_path / "g") == ["old.npy"]
    old.unlink()
    golden(small_model(tmp_path), tmp_path / "g", inputs={"": X})
    assert files_of(tmp_path / "g").keys() == {"x.0", "conv1.0", "relu1.0"}


def test_a_full_disk_is_noticed_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=40))
    with pytest.raises(InputError, match="its results take 48 B, but only 40 B are free"):
        golden(small_model(tmp_path), tmp_path / "g", inputs={"": X})
    assert not (tmp_path / "g").exists()


def test_a_disk_that_becomes_full_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space left on device: 'conv1") as caught:
        golden(small_model(tmp_path), tmp_path / "g", inputs={"": X})
    assert caught.value.errno == errno.ENOSPC
    assert not (tmp_path / "g").exists()


def test_an_interrupt_ends_the_run_and_leaves_nothing(tmp_path: Path) -> None:
    body = graph(
        [node("Add", "v one", "w"), node("Identity", "c", "d")],
        [value("n", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("v")],
        [value("d", (), TensorProto.BOOL), value("w")],
        [weight("one", np.ones(1, np.float32))],
    )
    weights = [weight("count", np.array(10**9)), weight("go", np.array(1, bool))]
    made = model([node("Loop", "count go x", "y", "loop", body=body)], weights=weights, outputs=[value("y")])
    options = GoldenOptions(str(write(tmp_path / "m.onnx", made)), output=str(tmp_path / "g"), seed=1)

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pipeline.make_golden(options, lambda _note: None, interrupt)
    assert time.monotonic() - started < 10
    assert not (tmp_path / "g").exists()


def test_the_manifest_says_what_was_run(tmp_path: Path) -> None:
    path = small_model(tmp_path)
    golden(path, tmp_path / "g", inputs={"x": X}, until="conv1")
    manifest = json.loads((tmp_path / "g" / "opdiff-golden.json").read_text())
    assert manifest["model"] == [{"name": "m.onnx", "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}]
    digest = hashlib.sha256(X.tobytes()).hexdigest()
    assert manifest["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [2, 3], "sha256": digest, "origin": "x.npy"}
    ]
    assert manifest["engine"].startswith("onnxruntime 1.")
    assert (manifest["files"], manifest["nbytes"]) == (2, 48)
    assert manifest["without_file"] == {"not_selected": ["relu1"]}


# Rules


def write_rules(folder: Path, *operators: dict[str, Any], command: str = "") -> str:
    attributes = [{"key": "atc_cmdline", "value": {"s": command}}] if command else []
    path = folder / "rules.json"
    path.write_text(json.dumps({**rule_file(*operators), "attr": attributes}))
    return str(path)


INPUT = rule("x", "Data", originals=("x",), outputs=({"shape": {"dim": [4, 3]}},))


def test_rules_tell_shapes_and_names_that_the_model_lacks(tmp_path: Path) -> None:
    rules = write_rules(
        tmp_path,
        INPUT,
        rule("conv1relu1", originals=("conv1", "relu1")),
        rule("pool", originals=("pool_3",)),
        command="atc --model=/home/me/net.onnx --framework=5",
    )
    notes: list[Reason] = []
    golden(small_model(tmp_path), tmp_path / "g", notes, seed=3, rules=rules)
    assert files_of(tmp_path / "g")["x.0"].shape == (4, 3)
    assert [str(note).replace(str(tmp_path), "") for note in notes] == [
        "1 of 4 original operators in /rules.json are not in the model, such as pool_3",
        "/rules.json was compiled from net.onnx, a file of another name",
    ]


def test_rules_without_originals_ask_for_their_own_operators(tmp_path: Path) -> None:
    notes: list[Reason] = []
    rules = write_rules(tmp_path, rule("conv1"), rule("conv9"))
    golden(small_model(tmp_path), tmp_path / "g", notes, rules=rules, inputs={"": X})
    assert [(note.fact("count"), note.fact("total"), note.fact("examples")) for note in notes] == [(1, 2, ("conv9",))]


def test_a_model_that_lacks_most_operators_is_not_run(tmp_path: Path) -> None:
    others = [rule(f"layer{number}") for number in range(3)]
    rules = write_rules(tmp_path, rule("conv1"), *others, command="atc --model=/home/me/resnet.onnx --framework=5")
    net = small_model(tmp_path)
    notes: list[Reason] = []
    with pytest.raises(InputError) as raised:
        golden(net, tmp_path / "g", notes, rules=rules, inputs={"": X})
    assert str(raised.value) == (
        f"{net}: lacks 3 of the 4 original operators in {rules}, such as layer0, layer1, layer2, and has others, such "
        "as conv1, relu1, x. It was not run. Give the model that was compiled (resnet.onnx), or --force to run this "
        "one nevertheless"
    )
    assert (notes, (tmp_path / "g").exists()) == ([], False)
    golden(net, tmp_path / "g", notes, rules=rules, inputs={"": X}, force=True)
    assert notes[0].code == "golden.names_missing"
    assert "conv1.0" in files_of(tmp_path / "g")


def test_a_model_with_half_of_the_operators_is_run(tmp_path: Path) -> None:
    rules = write_rules(tmp_path, rule("conv1"), rule("conv9"))
    assert golden(small_model(tmp_path), tmp_path / "g", rules=rules, inputs={"": X}).files


def test_aipp_is_announced_and_its_image_shape_not_used(tmp_path: Path) -> None:
    rules = write_rules(tmp_path, INPUT, rule("x_aippconv1", originals=("conv1",)))
    notes: list[Reason] = []
    golden(small_model(tmp_path), tmp_path / "g", notes, rules=rules, inputs={"": X})
    assert [note.code for note in notes] == ["golden.aipp"]


# Comparison


@pytest.mark.parametrize(
    ("manifest", "command", "message"),
    [
        pytest.param("", "", "golden data: m.onnx (SHA-256 {digest}…), run by onnxruntime", id="origin"),
        pytest.param(
            "",
            "atc --model=net.onnx",
            "golden data was made from m.onnx, but the rules say that net.onnx was compiled",
            id="another model",
        ),
        pytest.param("{", "", "the origin of the golden data is unknown", id="damaged manifest"),
    ],
)
def test_compare_tells_the_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manifest: str, command: str, message: str
) -> None:
    add(tmp_path / "npu", "Conv2D.conv1.1.0.1650000000000000", dump(tensor(-X), inputs=(tensor(X),)))
    path = small_model(tmp_path)
    golden(path, tmp_path / "golden", inputs={"": X})
    if manifest:
        (tmp_path / "golden" / "opdiff-golden.json").write_text(manifest)
    rules = write_rules(tmp_path, rule("conv1", originals=("conv1",)), command=command)
    done = run(capsys, "compare", tmp_path / "npu", tmp_path / "golden", "-fr", rules, "-o", tmp_path / "out")
    assert done.code == 0, done.err
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    assert message.format(digest=digest) in done.out + done.err
    assert "left out" not in done.out + done.err
