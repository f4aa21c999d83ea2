"""Data for the inputs of a model: files, shapes, random numbers, dumps of the NPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dump_files import add, dump, tensor
from onnx_models import files_of, golden, model, node, run_model, value, write
from opdiff.core.dtypes import FLOAT16
from opdiff.core.errors import InputError, OpdiffError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def open_model(folder: Path) -> Path:
    return write(folder / "m.onnx", model([node("Neg", "x", "y", "neg")], [value("x", ["N", 3])]))


def two_inputs(folder: Path) -> Path:
    made = model([node("Add", "a b", "y", "add")], [value("a", ["N", 3]), value("b", ["N", 3])])
    return write(folder / "m.onnx", made)


def test_raw_files_need_the_open_dimensions(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(X.tobytes())
    path = open_model(tmp_path)
    with pytest.raises(UsageError, match=r"the shape of input x is \[N, 3\]; x.bin needs --shape x:…"):
        golden(path, tmp_path / "g", inputs={"x": tmp_path / "x.bin"})
    golden(path, tmp_path / "g", inputs={"x": tmp_path / "x.bin"}, shapes={"": (2, 3)})
    np.testing.assert_array_equal(files_of(tmp_path / "g")["neg.0"], -X)


def write_inputs(folder: Path) -> None:
    np.save(folder / "wide.npy", X.astype(np.float64))
    np.save(folder / "flat.npy", X.reshape(-1))
    np.save(folder / "good.npy", X)
    np.save(folder / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (folder / "half.bin").write_bytes(bytes(12))
    (folder / "odd.bin").write_bytes(bytes(7))
    (folder / "cut.npy").write_bytes((folder / "good.npy").read_bytes()[:-1])


@pytest.mark.parametrize(
    ("file", "options", "kind", "message"),
    [
        ("wide.npy", {}, InputError, "holds float64, but input x is float32; convert the file first"),
        ("flat.npy", {}, InputError, r"has the shape \[6\], but input x is \[N, 3\]"),
        ("good.npy", {"shapes": {"x": (1, 3)}}, InputError, r"has the shape \[2, 3\], but --shape says \[1, 3\]"),
        ("good.npy", {"shapes": {"z": (1, 3)}}, UsageError, r"--shape z: the model has no such input; it has x "),
        ("objects.npy", {}, InputError, "unpickling Python objects can run foreign code"),
        ("cut.npy", {}, InputError, "cut.npy"),
        ("missing.npy", {}, InputError, "missing.npy"),
        ("missing.bin", {"shapes": {"x": (2, 3)}}, InputError, "cannot be read: No such file"),
        ("half.bin", {"shapes": {"x": (2, 3)}}, InputError, "has 12 bytes; .* needs 24; it may be float16"),
        ("odd.bin", {"shapes": {"x": (2, 3)}}, InputError, r"has 7 bytes; input x \(float32 \[2, 3\]\) needs 24$"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, file: str, options: Any, kind: type[OpdiffError], message: str
) -> None:
    write_inputs(tmp_path)
    with pytest.raises(kind, match=message):
        golden(open_model(tmp_path), tmp_path / "g", inputs={"x": tmp_path / file}, **options)
    assert not (tmp_path / "g").exists()


def test_inputs_are_named_if_there_are_several(tmp_path: Path) -> None:
    path = two_inputs(tmp_path)
    with pytest.raises(UsageError, match=r"--input without a name needs a model with one input; this one has a .*, b "):
        golden(path, tmp_path / "g", inputs={"": X})
    with pytest.raises(UsageError, match=r"no data for b \(float32 \[N, 3\]\); give --input b=FILE, or --random SEED"):
        golden(path, tmp_path / "g", inputs={"a": X})
    golden(path, tmp_path / "g", inputs={"a": X, "b": X})
    np.testing.assert_array_equal(files_of(tmp_path / "g")["add.0"], 2 * X)


def test_inputs_that_are_no_tensors_of_numbers_are_refused(tmp_path: Path) -> None:
    made = model([node("Identity", "x", "y", "same")], [value("x", (1,), 8)])
    with pytest.raises(UsageError, match="input x is not a tensor of numbers"):
        run_model(tmp_path, made, inputs={"x": X})


def test_random_data_depends_on_the_seed_and_is_written_for_the_npu(tmp_path: Path) -> None:
    made = model([node("Gather", "x i", "y", "gather")], [value("x", ["N", 3]), value("i", (2,), 7)])
    path = write(tmp_path / "m.onnx", made)
    results = [
        golden(path, tmp_path / str(number), seed=seed, shapes={"x": (2, 3)}) for number, seed in enumerate((1, 1, 2))
    ]
    first, again, other = (files_of(tmp_path / str(number)) for number in range(3))
    np.testing.assert_array_equal(first["gather.0"], again["gather.0"])
    assert not np.array_equal(first["x.0"], other["x.0"])
    assert first["x.0"].min() >= 0
    assert first["x.0"].max() < 1
    assert results[0].input_files == tuple(str(tmp_path / "0" / "inputs" / f"{name}.bin") for name in ("x", "i"))
    assert (tmp_path / "0" / "inputs" / "x.bin").read_bytes() == first["x.0"].tobytes()


def test_inputs_may_be_the_output_of_aipp_in_a_dump(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 255, (1, 3, 4, 5)).astype(np.float16)
    add(tmp_path / "npu", "Aipp.aipp.1.0.1650000000000000", dump(tensor(image, FLOAT16, "NC1HWC0")))
    path = write(tmp_path / "m.onnx", model([node("Neg", "x", "y", "neg")], [value("x", [1, 3, 4, 5])]))
    golden(path, tmp_path / "g", input_dump=str(tmp_path / "npu"))
    np.testing.assert_array_equal(files_of(tmp_path / "g")["x.0"], image.astype(np.float32), strict=True)


def test_a_dump_without_aipp_has_no_inputs(tmp_path: Path) -> None:
    add(tmp_path / "npu", "Conv2D.c.1.0.1650000000000000", dump(tensor(X)))
    with pytest.raises(InputError, match="has no output of an Aipp operator for input x; give --input x=FILE"):
        golden(open_model(tmp_path), tmp_path / "g", input_dump=str(tmp_path / "npu"))
