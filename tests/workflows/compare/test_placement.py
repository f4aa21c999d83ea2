"""Jobs run where their data is; of two hosts the smaller side moves."""

from __future__ import annotations

import pytest

from opdiff.core import dtypes
from opdiff.core.dump import SideTensor
from opdiff.core.pairing import OpLabel, Pairing
from opdiff.core.source import FileRange
from opdiff.core.tensor import Slot, Tensor, TensorKey, TensorSpec
from opdiff.run.task_round import Place
from opdiff.workflows.compare.job import Job
from opdiff.workflows.compare.placement import place_of


def side(path: str, count: int) -> SideTensor:
    tensor = Tensor(TensorSpec(dtypes.FLOAT32, (count,), "ND"), FileRange(path, 0, 4 * count))
    return SideTensor(TensorKey("op", Slot.OUTPUT, 0), path, tensor=tensor)


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
def test_place_of_a_job(target: tuple[str, int], golden: tuple[str, int], place: Place) -> None:
    pairing = Pairing(OpLabel(0, 0, "", "op", "op"), side(*target), side(*golden))
    assert place_of(Job(0, pairing)) == place
