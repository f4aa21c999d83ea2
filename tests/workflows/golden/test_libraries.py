"""`golden --library`: operators of the user, in a library that is loaded on request only."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from downloaded_models import find_member
from onnx_models import files_of, golden, model, node, value, write
from opdiff.core.errors import InputError, UsageError
from opdiff.workflows.golden.manifest import find_manifest

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
DOMAIN = "ai.onnx.contrib"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A model with an operator that ONNX Runtime does not have: it splits numbers by their sign."""
    nodes = [node("Neg", "x", "a", "neg"), node("NegPos", "a", "below above", "split", domain=DOMAIN)]
    nodes.append(node("Abs", "below", "y", "abs"))
    made: Any = model(nodes, [value("x")], opsets=[helper.make_opsetid(DOMAIN, 1)])
    return write(tmp_path / "m.onnx", made)


@pytest.fixture(scope="module")
def library() -> Path:
    """The library of a public package with such operators."""
    return find_member("onnxruntime-extensions", f"_extensions_pydll{sysconfig.get_config_var('EXT_SUFFIX')}")


def test_operators_of_a_library_are_run(net: Path, library: Path, tmp_path: Path) -> None:
    golden(net, tmp_path / "g", inputs={"x": X}, libraries=(str(library),))
    files = files_of(tmp_path / "g")
    assert set(files) == {"x.0", "neg.0", "split.0", "split.1", "abs.0"}
    np.testing.assert_array_equal(files["split.0"], np.minimum(-X, 0))
    np.testing.assert_array_equal(files["split.1"], np.maximum(-X, 0))
    np.testing.assert_array_equal(files["abs.0"], np.maximum(X, 0))


def test_kept_data_depends_on_the_library(net: Path, library: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"inputs": {"x": X}, "reuse": True}
    first = golden(net, tmp_path / "kept", libraries=(str(library),), **given)
    again = golden(net, tmp_path / "kept", libraries=(str(library),), **given)
    assert (first.folder, again.is_reused) == (again.folder, True)
    assert find_manifest(first.folder) is not None


def test_without_the_library_nothing_runs(net: Path, tmp_path: Path) -> None:
    message = r"does not know: ai\.onnx\.contrib\.NegPos \(1\); --library FILE\.so may provide them"
    with pytest.raises(InputError, match=message):
        golden(net, tmp_path / "g", inputs={"x": X})
    assert not (tmp_path / "g").exists()


def other_library() -> bytes:
    """Return a library of the system, which has no operators."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return Path(next(line.split()[-1] for line in lines if "libm.so" in line or "libc.so" in line)).read_bytes()


@pytest.mark.parametrize(
    "content", [b"not a library", b"\x7fELF\x02\x01\x01", other_library()], ids=["text", "truncated", "no operators"]
)
def test_a_file_that_is_no_such_library_is_named(net: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ops.so").write_bytes(content)
    with pytest.raises(InputError, match=r"ops\.so: ONNX Runtime cannot load this library: "):
        golden(net, tmp_path / "g", inputs={"x": X}, libraries=(str(tmp_path / "ops.so"),))
    assert not (tmp_path / "g").exists()


def test_an_unknown_operator_that_the_library_lacks(library: Path, tmp_path: Path) -> None:
    made = model([node("Magic", "x", "y", "magic", domain=DOMAIN)], opsets=[helper.make_opsetid(DOMAIN, 1)])
    path = write(tmp_path / "m.onnx", made)
    with pytest.raises(InputError, match=r"m\.onnx: ONNX Runtime cannot load the model: .*Magic"):
        golden(path, tmp_path / "g", inputs={"x": X}, libraries=(str(library),))


def test_tensorflow_graphs_take_no_library(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--library has operators for ONNX Runtime"):
        golden(tmp_path / "frozen.pb", tmp_path / "g", libraries=("ops.so",))
