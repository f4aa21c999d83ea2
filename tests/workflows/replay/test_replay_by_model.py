"""Operators replayed from the original model: a clean run has no guilty operator, and planted faults are found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core import dtypes
from opdiff.core.errors import UsageError
from planted_changes import attribute, left_out, set_weight
from residual_network import OPERATORS, changed, device_run

if TYPE_CHECKING:
    from pathlib import Path

    from device_runs import DeviceRun
    from onnx_models import Array
    from opdiff.core.replay import Replay


def replay_all(run: DeviceRun) -> dict[str, Replay]:
    return {found.operator: found for found in run.replay()}


def verdicts(replays: dict[str, Replay]) -> dict[str, str]:
    return {name: found.verdict.value for name, found in replays.items()}


CLEAN = dict.fromkeys(OPERATORS, "innocent")


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT32], ids=str)
@pytest.mark.parametrize("layout", ["NC1HWC0", "NHWC", "ND"])
def test_a_clean_run_has_no_guilty_operator(tmp_path: Path, dtype: dtypes.DType, layout: str) -> None:
    found = replay_all(device_run(tmp_path, dtype=dtype, layout=layout))
    assert verdicts(found) == CLEAN, {name: item.reason or item.outputs for name, item in found.items()}
    assert all(item.outputs[0].excess < 0.6 for item in found.values())


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.BFLOAT16], ids=str)
@pytest.mark.parametrize("arithmetic", [{"folds": False}, {"folds": False, "rounds_steps": True}], ids=str)
def test_other_arithmetics_of_devices_are_innocent(
    tmp_path: Path, dtype: dtypes.DType, arithmetic: dict[str, bool]
) -> None:
    found = replay_all(device_run(tmp_path, dtype=dtype, **arithmetic))
    assert verdicts(found) == CLEAN, {name: item.reason or item.outputs for name, item in found.items()}


def one_channel(array: Array) -> Array:
    result = array.copy()
    result[:, 7] *= 1.5
    return result


def one_element(array: Array) -> Array:
    result = array.copy()
    result.ravel()[77] += 0.2 * np.abs(array).max()
    return result


def with_nan(array: Array) -> Array:
    return np.where(array == array.max(), np.nan, array)


FAULTS = {
    "no activation": changed("c1b1r1", change=left_out(-1)),
    "no residual": changed("c2a1r2", change=left_out(1)),
    "no bias": changed("c2a1r2", change=set_weight("k2", np.zeros_like)),
    "no bias of a matrix product": changed("fc", change=set_weight("bf", np.zeros_like)),
    "padding": changed("c2a1r2", change=attribute("pads", [2, 2, 0, 0])),
    "one channel": changed("c1b1r1", spoil=one_channel),
    "one element": changed("p1", spoil=one_element),
    "scale": changed("gap", spoil=lambda array: array * 1.01),
    "axis": changed("sm", change=attribute("axis", 0)),
    "NaN": changed("gap", spoil=with_nan),
}


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.FLOAT32], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_only_the_faulty_operator_is_guilty(tmp_path: Path, fault: str, dtype: dtypes.DType) -> None:
    faulty = FAULTS[fault]
    found = replay_all(device_run(tmp_path, faulty, dtype=dtype))
    assert verdicts(found) == CLEAN | {faulty.name: "guilty"}


def test_inputs_that_were_not_dumped_are_the_outputs_of_producers(tmp_path: Path) -> None:
    found = replay_all(device_run(tmp_path, changed("gap", has_inputs=False)))
    assert verdicts(found) == CLEAN
    assert [item.source for item in found["gap"].inputs] == ["c2a1r2:output:0"]
    assert [item.source for item in found["fc"].inputs] == ["fc:input:0"]


def test_operators_without_known_inputs_have_a_reason(tmp_path: Path) -> None:
    hidden = changed("p1", is_dumped=False, has_inputs=False)
    readers = [changed(name, has_inputs=False) for name in ("c1b1r1", "c2a1r2")]
    found = replay_all(device_run(tmp_path, hidden, *readers))
    assert {name: str(item.reason) for name, item in found.items() if item.reason} == {
        "c1b1r1": "its input x is an input of the model whose values were not dumped",
        "c2a1r2": "its input t4 was not dumped, neither here nor as the output of p1",
    }
    assert verdicts(found)["gap"] == "innocent"


def test_the_worst_element_is_named(tmp_path: Path) -> None:
    run = device_run(tmp_path, changed("p1", spoil=one_element))
    (output,) = replay_all(run)["p1"].outputs
    assert output.worst == np.unravel_index(77, run.tensors["t4"].shape)
    assert output.worst_target == run.tensors["t4"].ravel()[77]
    assert output.peak > output.peak_limit


def test_unknown_operators_are_refused(tmp_path: Path) -> None:
    run = device_run(tmp_path)
    with pytest.raises(UsageError, match=re.escape("the rules have no operator c2a1r; did you mean c2a1r2?")):
        run.replay(operators=("c2a1r",))
