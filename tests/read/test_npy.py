"""NumPy files: results equal to those of NumPy, and invalid files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dump_files import Bomb, npy_file
from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.read import read_operator

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.one_of(
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.boolean_dtypes(),
    hnp.complex_number_dtypes(sizes=(64, 128), endianness="?"),
)
ARRAYS = hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    length = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + text.encode()


@given(array=ARRAYS, fortran=st.booleans(), version=st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_npy_files_match_numpy(
    array: Any, fortran: bool, version: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "x.0.1.npy"
    path.write_bytes(npy_file(np.array(array, order="F" if fortran else "C"), version=version))
    (tensor,) = read_operator(str(path)).outputs
    assert tensor.spec.shape == array.shape
    np.testing.assert_array_equal(tensor.array(), array, strict=False)
    assert tensor.array().dtype.newbyteorder("=") == array.dtype.newbyteorder("=")


@pytest.mark.parametrize(("elements", "is_kept"), [(256, True), (257, False)])
def test_small_tensors_are_read_with_their_headers(elements: int, is_kept: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.0.1.npy"
    path.write_bytes(npy_file(np.arange(elements, dtype=np.int32)))
    (tensor,) = read_operator(str(path)).outputs
    path.unlink()
    if is_kept:
        np.testing.assert_array_equal(tensor.array(), np.arange(elements))
    else:
        with pytest.raises(DumpError):
            tensor.array()


USUAL = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"
OTHER_ORDER = "{'shape': (2, ), 'fortran_order': False, 'descr': '<f4', }"


@pytest.mark.parametrize("blanks", [0, 1, 5_000, 60_000])
@pytest.mark.parametrize("text", [USUAL, OTHER_ORDER], ids=["usual", "other order"])
def test_headers_of_any_length_and_order(tmp_path: Path, text: str, blanks: int) -> None:
    (tmp_path / "x.0.1.npy").write_bytes(header(text + " " * blanks + "\n") + np.array([1, 2], np.float32).tobytes())
    (tensor,) = read_operator(str(tmp_path / "x.0.1.npy")).outputs
    assert tensor.array().tolist() == [1, 2]


def test_bfloat16_saved_as_void(tmp_path: Path) -> None:
    values = np.array([1.0, -10.0, 3e38], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.0.1.npy", values)
    (tensor,) = read_operator(str(tmp_path / "x.0.1.npy")).outputs
    assert tensor.spec.dtype is dtypes.BFLOAT16
    np.testing.assert_array_equal(tensor.array(), values.astype(np.float32))
    assert tensor.notes == (because("read.bfloat16_assumed"),)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (npy_file(np.array([Bomb()], object)), "'|O' are not numbers: unpickling Python objects"),
        (npy_file(np.array(["text"])), "'<U4' are not numbers: strings"),
        (npy_file(np.array([b"text"])), "'|S4' are not numbers: strings"),
        (npy_file(np.zeros(2, "V1")), "'|V1' are not numbers: the name of the type was lost"),
        (npy_file(np.zeros(2, [("a", "i4")])), "the header is not that of a plain array"),
        (npy_file(np.zeros(2, "M8[s]")), "'<M8[s]' are not numbers: dates"),
        (npy_file(np.zeros(9))[:-1], "shape [9] needs 72 bytes, but the file has 71: it is truncated"),
        (b"\x93NUMPX\x01\x00", "the magic number is missing"),
        (b"\x93NUM", "the magic number is missing"),
        (b"\x93NUMPY\x09\x00\x00\x00", "version 9.0 of the NumPy format is not known"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "a header of 2147483647 bytes is not credible"),
        (header("{'descr': '<f4'}"), "the header is not that of a plain array"),
        (header("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}"), "not that of a plain array"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "not that of a plain array"),
        (header("{'descr': __import__('os'), 'fortran_order': False, 'shape': ()}"), "not that of a plain array"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "not that of a plain"),
        (header("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9999999999, " * 1000 + ")}"), "not that of a"),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}"),
            "bytes, but the file has 0",
        ),
    ],
)
def test_invalid_npy_files_raise(raw: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "x.0.1.npy"
    path.write_bytes(raw)
    with pytest.raises(DumpError) as caught:
        read_operator(str(path))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [header("{'descr': '<f4'}"), npy_file(np.zeros(9))[:-1], npy_file(np.array(["text"]))],
    ids=["header", "data", "type"],
)
def test_the_same_damage_in_two_files_names_each_of_them(raw: bytes, tmp_path: Path) -> None:
    paths = [tmp_path / "a.0.1.npy", tmp_path / "b.0.1.npy"]
    problems = []
    for path in paths:
        path.write_bytes(raw)
        with pytest.raises(DumpError) as caught:
            read_operator(str(path))
        assert caught.value.path == str(path)
        assert str(caught.value).startswith(str(path))
        problems.append(caught.value.brief)
    assert problems[0] == problems[1]
