"""Elements taken from where they are stored are those that alignment moves there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dump_files import TIME, add, dump, tensor
from opdiff.align.element_reader import open_pair, open_tensor
from opdiff.align.pairs import align_pair
from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.tensor import Declared
from opdiff.read import read_operator

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Tensor


def read(path: Path) -> Tensor:
    return read_operator(str(path)).outputs[0]


def written(folder: Path, values: AnyArray, layout: str, golden: AnyArray) -> tuple[Tensor, Tensor]:
    """Write a dump and a golden array; return both, described."""
    path = add(folder, f"Op.a.1.2.{TIME}", dump(tensor(values, dtypes.FLOAT16, layout)))
    np.save(folder / "a.0.1.npy", golden)
    return read_operator(path).outputs[0], read(folder / "a.0.1.npy")


@pytest.mark.parametrize("layout", ["ND", "NC1HWC0", "FRACTAL_NZ", "FRACTAL_Z", "NHWC1C0", "C1HWNCoC0"])
@given(shape=st.tuples(*[st.integers(1, 20)] * 2, *[st.integers(1, 4)] * 2))
def test_readers_match_alignment(tmp_path_factory: pytest.TempPathFactory, layout: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).integers(-99, 99, shape).astype(np.float32)
    pair = written(tmp_path_factory.mktemp("reader"), values, layout, values)
    readers = open_pair(*pair, Declared("NCHW"))
    moved = align_pair(*pair, Declared("NCHW"))
    for reader, codes in ((readers.target, moved.target), (readers.golden, moved.golden)):
        flat = np.ascontiguousarray(codes).reshape(-1)
        np.testing.assert_array_equal(reader.block(0, reader.count), flat)
        np.testing.assert_array_equal(reader.block(3, 7), flat[3:7])
        some = np.arange(0, reader.count, 3)
        np.testing.assert_array_equal(reader.take(some), flat[some])
    assert (readers.shape, readers.steps) == (moved.shape, moved.steps)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("descr", ["<f4", ">f4"])
def test_arrays_of_any_memory_order(tmp_path: Path, order: str, descr: str) -> None:
    values = np.arange(24).reshape(2, 3, 4).astype(descr)
    to_origin_order = np.asfortranarray(values) if order == "F" else values
    pair = written(tmp_path, values.astype(np.float32), "ND", to_origin_order)
    np.testing.assert_array_equal(open_pair(*pair).golden.block(0, 24), np.arange(24))
    np.testing.assert_array_equal(open_tensor(pair[1]).block(0, 24), np.arange(24))


def test_released_pages_are_read_again(tmp_path: Path) -> None:
    values = np.arange(1 << 19, dtype=np.float32)
    np.save(tmp_path / "a.0.1.npy", values)
    reader = open_tensor(read(tmp_path / "a.0.1.npy"))
    assert reader.stored.mapping is not None
    reader.stored.release()
    np.testing.assert_array_equal(reader.block(0, values.size), values)


def test_truncated_file_raises(tmp_path: Path) -> None:
    # More than what is kept when headers are read.
    values = np.ones((30, 40), np.float32)
    pair = written(tmp_path, values, "ND", values)
    path = tmp_path / f"Op.a.1.2.{TIME}"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DumpError, match="the file ends"):
        open_pair(*pair)


def test_compressed_array_is_loaded(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez_compressed(tmp_path / "a.0.1.npz", values)
    target, _ = written(tmp_path, values, "ND", values)
    reader = open_pair(target, read(tmp_path / "a.0.1.npz")).golden
    assert reader.stored.mapping is None
    np.testing.assert_array_equal(reader.block(0, 99), np.arange(12))
