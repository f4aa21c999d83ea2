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
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.codes import AnyArray

BATCH = scores([3, 1, 4, 1])


def read(path: Path, operator: str = "", **options: object) -> tuple[list[str], AnyArray]:
    outputs = read_outputs(str(path), TopnOptions(**options), operator)  # type: ignore[arg-type]  # options by name
    return [sample.name for sample in outputs.samples], ScoreReader(outputs.classes).read(outputs.samples)


def save_rows(folder: Path, *shape: int) -> None:
    """Write a file for each sample, whose names are not in natural order."""
    for number, row in zip((0, 2, 9, 10), BATCH, strict=True):
        save(folder / f"img_{number}.npy", row.reshape(shape))


def save_raw(folder: Path) -> None:
    for number, row in enumerate(BATCH):
        add(folder, f"{number}_0.bin", row.astype(np.float16).tobytes())


def save_batches(folder: Path) -> None:
    save(folder / "b0.npy", BATCH[:3])
    save(folder / "b1.npy", BATCH[3:])


ROWS = {f"s{number}": row for number, row in enumerate(BATCH)}
NUMBERS, IMAGES = ["0", "1", "2", "3"], ["img_0", "img_2", "img_9", "img_10"]

# Writer of the outputs, a file or a whole folder; names of the samples; options.
FORMS: dict[str, tuple[Callable[[Path], object], str, list[str], dict[str, object]]] = {
    "NC": (lambda path: save(path, BATCH), "a.npy", NUMBERS, {}),
    "NC11": (lambda path: save(path, BATCH.reshape(4, 10, 1, 1)), "a.npy", NUMBERS, {}),
    "N11C": (lambda path: save(path, BATCH.reshape(4, 1, 1, 10)), "a.npy", NUMBERS, {}),
    "NC1": (lambda path: save(path, BATCH.reshape(4, 10, 1)), "a.npy", NUMBERS, {}),
    "float16": (lambda path: save(path, BATCH.astype("<f2")), "a.npy", NUMBERS, {}),
    "big-endian": (lambda path: save(path, BATCH.astype(">f4")), "a.npy", NUMBERS, {}),
    "float64, Fortran order": (lambda path: save(path, np.asfortranarray(BATCH, "<f8")), "a.npy", NUMBERS, {}),
    "files of C": (lambda path: save_rows(path, 10), "d", IMAGES, {}),
    "files of 1C": (lambda path: save_rows(path, 1, 10), "d", IMAGES, {}),
    "files of 1C11": (lambda path: save_rows(path, 1, 10, 1, 1), "d", IMAGES, {}),
    "files of several samples": (save_batches, "d", ["b0[0]", "b0[1]", "b0[2]", "b1"], {}),
    "archive": (lambda path: np.savez(path, **ROWS), "a.npz", [*ROWS], {}),
    "deflated archive": (lambda path: np.savez_compressed(path, **ROWS), "a.npz", [*ROWS], {}),
    "archive of a batch": (lambda path: np.savez(path, prob=BATCH), "a.npz", NUMBERS, {}),
    "raw files": (save_raw, "d", ["0_0", "1_0", "2_0", "3_0"], {"dtype": "float16"}),
    "raw file": (lambda path: path.write_bytes(BATCH.tobytes()), "a.bin", NUMBERS, {"classes": 10}),
}  # fmt: skip


@pytest.mark.parametrize(("write", "name", "samples", "options"), FORMS.values(), ids=FORMS)
def test_forms_of_samples(
    tmp_path: Path, write: Callable[[Path], object], name: str, samples: list[str], options: dict[str, object]
) -> None:
    write(tmp_path / name)
    names, values = read(tmp_path / name, **options)  # type: ignore[arg-type]  # options by name
    assert names == samples
    np.testing.assert_array_equal(values, BATCH)


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
