"""Samples in the forms that people have: shapes, files, archives, raw data, dumps; and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, add, dump, tensor
from opdiff.core import dtypes
from opdiff.core.errors import InputError
from opdiff.sample.names import DumpName, golden_name
from opdiff.workflows.topn.options import TopnOptions
from opdiff.workflows.topn.samples import ScoreReader, read_outputs
from score_files import save, scores

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray

BATCH = scores([3, 1, 4, 1])


def read(path: Path, operator: str = "", **options: object) -> tuple[list[str], AnyArray]:
    outputs = read_outputs(str(path), TopnOptions(**options), operator)  # type: ignore[arg-type]  # options by name
    return [sample.name for sample in outputs.samples], ScoreReader(outputs.classes).read(outputs.samples)


@pytest.mark.parametrize(
    "shape", [(4, 10), (4, 10, 1, 1), (4, 1, 1, 10), (4, 10, 1)], ids=["NC", "NC11", "N11C", "NC1"]
)
def test_an_array_with_a_batch_axis(tmp_path: Path, shape: tuple[int, ...]) -> None:
    names, values = read(save(tmp_path / "a.npy", BATCH.reshape(shape)))
    assert names == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(values, BATCH)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8"])
def test_types_and_orders_of_arrays(tmp_path: Path, order: str, dtype: str) -> None:
    array = np.array(BATCH, dtype, order="F" if order == "F" else "C")
    np.testing.assert_array_equal(read(save(tmp_path / "a.npy", array))[1], BATCH)


@pytest.mark.parametrize("shape", [(10,), (1, 10), (1, 10, 1, 1)], ids=["C", "1C", "1C11"])
def test_a_file_for_each_sample_in_natural_order(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for number, row in zip((0, 2, 9, 10), BATCH, strict=True):
        save(tmp_path / "d" / f"img_{number}.npy", row.reshape(shape))
    names, values = read(tmp_path / "d")
    assert names == ["img_0", "img_2", "img_9", "img_10"]
    np.testing.assert_array_equal(values, BATCH)


def test_files_with_batches_of_several_samples(tmp_path: Path) -> None:
    save(tmp_path / "d" / "b0.npy", BATCH[:3])
    save(tmp_path / "d" / "b1.npy", BATCH[3:])
    names, values = read(tmp_path / "d")
    assert names == ["b0[0]", "b0[1]", "b0[2]", "b1"]
    np.testing.assert_array_equal(values, BATCH)


@pytest.mark.parametrize("compress", [False, True], ids=["stored", "deflated"])
def test_an_archive_with_an_array_for_each_sample(tmp_path: Path, compress: bool) -> None:
    arrays = {f"s{number}": row for number, row in enumerate(BATCH)}
    (np.savez_compressed if compress else np.savez)(tmp_path / "a.npz", **arrays)
    names, values = read(tmp_path / "a.npz")
    assert names == ["s0", "s1", "s2", "s3"]
    np.testing.assert_array_equal(values, BATCH)


def test_an_archive_with_one_batch(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", prob=BATCH)
    assert read(tmp_path / "a.npz")[0] == ["0", "1", "2", "3"]


def test_raw_files(tmp_path: Path) -> None:
    for number, row in enumerate(BATCH):
        add(tmp_path / "d", f"{number}_0.bin", row.astype(np.float16).tobytes())
    names, values = read(tmp_path / "d", dtype="float16")
    assert names == ["0_0", "1_0", "2_0", "3_0"]
    np.testing.assert_array_equal(values, BATCH)


def test_a_raw_file_with_several_samples(tmp_path: Path) -> None:
    add(tmp_path, "a.bin", BATCH.tobytes())
    np.testing.assert_array_equal(read(tmp_path / "a.bin", classes=10)[1], BATCH)


def test_files_of_one_output_are_chosen_by_a_pattern(tmp_path: Path) -> None:
    for number, row in enumerate(BATCH):
        save(tmp_path / f"img{number}_0.npy", row)
        save(tmp_path / f"img{number}_1.npy", np.zeros((1, 3), np.float32))
    np.testing.assert_array_equal(read(tmp_path, files="*_0.npy")[1], BATCH)
    with pytest.raises(InputError, match=r"img0_1 has 3 classes, img0_0 has 10; choose the files of one output with"):
        read(tmp_path)


@pytest.mark.parametrize("layout", ["ND", "NC1HWC0", "FRACTAL_NZ"])
def test_dumps_of_several_steps(tmp_path: Path, layout: str) -> None:
    """Private layouts have padding, which is no class."""
    for step, row in enumerate(BATCH):
        folder = tmp_path / "20240101120000" / "0" / "net" / "1" / str(step)
        shape = (1, 10, 1, 1) if layout == "NC1HWC0" else (1, 10)
        result = tensor(row.reshape(shape), dtypes.FLOAT16, layout)
        add(folder, str(DumpName("SoftmaxV2", "prob", 3, 1, TIME)), dump(result, op_name="prob"))
        add(folder, str(DumpName("Relu", "relu", 2, 1, TIME - 1)), dump(tensor(np.ones(3, np.float32))))
    names, values = read(tmp_path, "prob")
    assert names == ["0", "1", "2", "3"]
    np.testing.assert_array_equal(values, BATCH)
    with pytest.raises(
        InputError, match=r"2 operators were dumped here; choose .* with --operator, such as relu, prob"
    ):
        read(tmp_path)
    with pytest.raises(InputError, match="there is no operator softmax here; the last ones are relu, prob"):
        read(tmp_path, "softmax")
    with pytest.raises(InputError, match="prob has no output 1"):
        read(tmp_path, "prob:1")


def test_dumps_with_one_operator_need_no_choice(tmp_path: Path) -> None:
    for step in (1, 2):
        add(tmp_path / str(step), str(DumpName("SoftmaxV2", "prob", 3, 1, TIME)), dump(tensor(BATCH[:2])))
    assert read(tmp_path)[0] == ["1[0]", "1[1]", "2[0]", "2[1]"]


def test_golden_dumps_of_several_runs(tmp_path: Path) -> None:
    for run in ("a", "b"):
        save(tmp_path / run / golden_name("head/prob", 0, TIME), BATCH[:1])
        save(tmp_path / run / golden_name("conv", 0, TIME), np.zeros((1, 3, 4, 4), np.float32))
    assert read(tmp_path, "head/prob")[0] == ["a", "b"]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.zeros((2, 3, 4, 4), np.float32),
            r"the shape is \[2, 3, 4, 4\], which is not the output of a",
        ),
        (np.zeros((4, 1), np.float32), r"the shape is \[4, 1\]: a single score for each sample has no best class"),
        (np.zeros((0, 10), np.float32), r"the shape is \[0, 10\], which is not the output"),
        (np.float32(1), r"the shape is \[\], which is not|a single score"),
        (np.zeros((4, 10), np.int64), "the elements are int64: these are indices of classes rather than scores"),
        (np.zeros((4, 10), np.complex64), "the elements are complex64: scores are real numbers"),
        (np.zeros((4, 10), bool), "the elements are bool: scores are real numbers"),
    ],
    ids=["image", "one class", "no samples", "scalar", "indices", "complex", "bool"],
)
def test_other_outputs_are_refused(tmp_path: Path, array: AnyArray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(save(tmp_path / "a.npy", array))


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match=r"a\.npy: "):
        read(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.bin", b"12345", "5 bytes are not a number of samples"),
        ("a.bin", b"", "0 bytes are not a number of samples"),
        ("a.npy", b"\x93NUMPY\x01\x00", "a.npy: "),
        ("a.txt", b"1 2 3", "no outputs of a model here"),
    ],
    ids=["odd size", "empty", "truncated", "no arrays"],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    add(tmp_path / "d", name, content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "d")
