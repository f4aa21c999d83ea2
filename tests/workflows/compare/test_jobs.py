"""Jobs by themselves: where they run, and data of short tensors that the kernel reads from memory."""

from __future__ import annotations

import ctypes

import pytest

from opdiff.core import dtypes
from opdiff.core.dump import side_tensor
from opdiff.core.pairing import OpLabel, Pairing
from opdiff.core.source import FileRange
from opdiff.core.tensor import Slot, Tensor, TensorKey, TensorSpec
from opdiff.run.task_round import Place
from opdiff.workflows.compare.batch import fetch_payloads
from opdiff.workflows.compare.job import Job
from opdiff.workflows.compare.placement import place_of


def pairing(*sources: FileRange) -> Pairing:
    key = TensorKey("op", Slot.OUTPUT, 0)
    specs = (TensorSpec(dtypes.FLOAT32, (source.nbytes // 4,), "ND") for source in sources)
    target, golden = (side_tensor(key, Tensor(spec, source)) for spec, source in zip(specs, sources, strict=True))
    return Pairing(OpLabel(0, 0, "Add", "op", "op"), target, golden)


@pytest.mark.parametrize(
    ("target", "golden", "place"),
    [
        (("/a", 8), ("/b", 8), Place()),
        (("host://npu-1/a", 8), ("/b", 16), Place("npu-1")),
        (("/a", 8), ("host://npu-2/b", 4), Place("npu-2")),
        (("host://npu-1/a", 8), ("host://npu-1/b", 16), Place("npu-1")),
        (("host://npu-1/a", 8), ("host://npu-2/b", 4), Place("npu-1", "npu-2")),
        (("host://npu-1/a", 8), ("host://npu-2/b", 16), Place("npu-2", "npu-1")),
        (("host://npu-1/a", 8), ("host://npu-2/b", 8), Place("npu-1", "npu-2")),
    ],
    ids=["anywhere", "target's", "golden's", "both", "golden_moves", "target_moves", "equal"],
)
def test_a_job_runs_where_its_data_is_and_of_two_hosts_the_smaller_side_moves(
    target: tuple[str, int], golden: tuple[str, int], place: Place
) -> None:
    sources = (FileRange(path, 0, 4 * count) for path, count in (target, golden))
    assert place_of(Job(0, pairing(*sources))) == place


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
