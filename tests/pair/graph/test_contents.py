"""Keys of tensors, by which files of the same tensor are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core.source import FileRange
from opdiff.pair.graph.contents import Stored, key_of, moved_key
from opdiff.read import read_operator

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 5), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["?", "i1", "<i4", ">i4", "<u8", "<f2", "<f4", ">f4", "<f8", "<c8", "V2"])
def test_bytes_in_memory_give_the_key_of_the_elements(
    dtype: str, shape: tuple[int, ...], order: str, tmp_path: Path
) -> None:
    kept = np.dtype(dtype)
    numbers = np.random.default_rng(1).integers(0, 2, (*shape, kept.itemsize), dtype=np.uint8)
    array = np.ascontiguousarray(numbers).view(kept).reshape(shape)
    np.save(tmp_path / "x.npy", np.asarray(array, order="F" if order == "F" else "C"))
    (tensor,) = read_operator(str(tmp_path / "x.npy")).outputs
    assert isinstance(tensor.source, FileRange)
    assert tensor.source.kept is not None
    stored = Stored(tensor)
    assert key_of(stored) == moved_key(stored, stored.elements, None)


@pytest.mark.parametrize("count", [1, 16, 17, 300])
def test_keys_are_equal_for_equal_elements_only(count: int, tmp_path: Path) -> None:
    numbers = np.arange(count, dtype=np.float32)
    changed = numbers.copy()
    changed[-1] += 1
    keys = []
    for name, array in (("a", numbers), ("b", numbers.reshape(1, count)), ("c", changed)):
        np.save(tmp_path / f"{name}.npy", array)
        (tensor,) = read_operator(str(tmp_path / f"{name}.npy")).outputs
        keys.append(key_of(Stored(tensor)))
    assert keys[0] == keys[1] != keys[2]
