"""The sample of a quantized model in all stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opdiff.core.errors import UsageError
from opdiff.sample.stages import STAGE_FAULTS, make_stages, write_stage_sample

if TYPE_CHECKING:
    from pathlib import Path

FOLDERS = ("original", "fake_quant", "offline_fusion_off", "offline", "offline_next")


@pytest.mark.parametrize(("step", "fault"), list(enumerate(("quantization", "conversion", "fusion", "version"), 1)))
def test_a_fault_is_in_all_stages_behind_its_step_and_in_no_other(step: int, fault: str) -> None:
    sound, faulty = make_stages(()), make_stages((fault,))
    assert sound.keys() == faulty.keys()
    changed = {name.partition("/")[0] for name in sound if sound[name] != faulty[name]}
    # The Caffe files are those of the first two stages.
    assert changed == {*FOLDERS[step:], *(["caffe"] if fault == "quantization" else [])}


def test_it_is_small_and_always_the_same() -> None:
    files = make_stages(STAGE_FAULTS)
    assert files == make_stages(STAGE_FAULTS)
    assert sum(map(len, files.values())) < 3_000_000


def test_an_unknown_fault(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its faults are quantization, conversion, fusion, version"):
        write_stage_sample(str(tmp_path), ["luck"])
    assert list(tmp_path.iterdir()) == []
