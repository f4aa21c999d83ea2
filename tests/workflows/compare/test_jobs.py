"""Data of short tensors that the kernel reads from memory."""

from __future__ import annotations

import ctypes

from opdiff.core import dtypes
from opdiff.core.dump import side_tensor
from opdiff.core.pairing import OpLabel, Pairing
from opdiff.core.source import FileRange
from opdiff.core.tensor import Slot, Tensor, TensorKey, TensorSpec
from opdiff.workflows.compare.batch import fetch_payloads


def pairing(*sources: FileRange) -> Pairing:
    key = TensorKey("op", Slot.OUTPUT, 0)
    specs = (TensorSpec(dtypes.FLOAT32, (source.nbytes // 4,), "ND") for source in sources)
    target, golden = (side_tensor(key, Tensor(spec, source)) for spec, source in zip(specs, sources, strict=True))
    return Pairing(OpLabel(0, 0, "Add", "op", "op"), target, golden)


def kept(path: str, offset: int, data: bytes) -> FileRange:
    source = FileRange(path, offset, len(data))
    source.keep(data)
    return source


def test_an_empty_tensor_at_the_offset_of_another_one() -> None:
    target, golden = kept("target", 64, b"target's data 16"), kept("golden", 128, b"golden data: 16.")
    empty = kept("target", 64, b""), kept("golden", 128, b"")
    payloads = fetch_payloads([pairing(target, golden), pairing(*empty)])
    assert ctypes.string_at(payloads.address(target), target.nbytes) == target.kept
    assert ctypes.string_at(payloads.address(golden), golden.nbytes) == golden.kept
    assert all(map(payloads.address, empty))
