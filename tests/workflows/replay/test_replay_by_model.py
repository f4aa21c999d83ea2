"""Operators replayed from the original model: a clean run has no guilty operator, and planted faults are found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from device_runs import Fused
from opdiff.core import dtypes
from opdiff.core.errors import UsageError
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from planted_changes import attribute, without_residual, zero_weight
from residual_network import OPERATORS, device_run

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from device_runs import DeviceRun
    from opdiff.core.replay import Replay


def replay_all(run: DeviceRun, **options: Any) -> dict[str, Replay]:
    wanted = ReplayOptions(str(run.npu), str(run.rules), str(run.model), **options)
    return {found.operator: found for found in replay(wanted, lambda _done, _total: None)}


def verdicts(replays: dict[str, Replay]) -> dict[str, str]:
    return {name: found.verdict.value for name, found in replays.items()}


CLEAN = dict.fromkeys((operator.name for operator in OPERATORS), "innocent")


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


def without_last_node(part: Any) -> None:
    """A change: the last node passes its input on."""
    part.graph.node[-1].op_type = "Identity"


def one_channel(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    changed = array.copy()
    changed[:, 7] *= 1.5
    return changed


def one_element(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    changed = array.copy()
    changed.ravel()[77] += 0.2 * np.abs(array).max()
    return changed


def with_nan(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.where(array == array.max(), np.nan, array)


FAULTS = {
    "no activation": Fused("c1b1r1", "Conv2D", ("c1", "b1", "r1"), change=without_last_node),
    "no residual": Fused("c2a1r2", "Conv2D", ("c2", "a1", "r2"), change=without_residual),
    "no bias": Fused("c2a1r2", "Conv2D", ("c2", "a1", "r2"), change=zero_weight("k2")),
    "no bias of a matrix product": Fused("fc", "FullyConnection", ("fc",), change=zero_weight("bf")),
    "padding": Fused("c2a1r2", "Conv2D", ("c2", "a1", "r2"), change=attribute("pads", [2, 2, 0, 0])),
    "one channel": Fused("c1b1r1", "Conv2D", ("c1", "b1", "r1"), spoil=one_channel),
    "one element": Fused("p1", "Pooling", ("p1",), spoil=one_element),
    "scale": Fused("gap", "GlobalAveragePool", ("gap",), spoil=lambda array: array * 1.01),
    "axis": Fused("sm", "SoftmaxV2", ("sm",), change=attribute("axis", 0)),
    "NaN": Fused(
        "gap", "GlobalAveragePool", ("gap",), spoil=lambda array: np.where(array == array.max(), np.nan, array)
    ),
}


@pytest.mark.parametrize("dtype", [dtypes.FLOAT16, dtypes.FLOAT32], ids=str)
@pytest.mark.parametrize("fault", FAULTS)
def test_only_the_faulty_operator_is_guilty(tmp_path: Path, fault: str, dtype: dtypes.DType) -> None:
    faulty = FAULTS[fault]
    found = replay_all(device_run(tmp_path, faulty, dtype=dtype))
    assert verdicts(found) == CLEAN | {faulty.name: "guilty"}


def test_inputs_that_were_not_dumped_are_the_outputs_of_producers(tmp_path: Path) -> None:
    found = replay_all(device_run(tmp_path, Fused("gap", "GlobalAveragePool", ("gap",), has_inputs=False)))
    assert verdicts(found) == CLEAN
    assert [item.source for item in found["gap"].inputs] == ["c2a1r2:output:0"]
    assert [item.source for item in found["fc"].inputs] == ["fc:input:0"]


def test_operators_without_known_inputs_have_a_reason(tmp_path: Path) -> None:
    hidden = Fused("p1", "Pooling", ("p1",), is_dumped=False, has_inputs=False)
    reader = Fused("c2a1r2", "Conv2D", ("c2", "a1", "r2"), has_inputs=False)
    first = Fused("c1b1r1", "Conv2D", ("c1", "b1", "r1"), has_inputs=False)
    found = replay_all(device_run(tmp_path, hidden, reader, first))
    assert {name: str(item.reason) for name, item in found.items() if item.reason} == {
        "c1b1r1": "its input x is an input of the model whose values were not dumped",
        "c2a1r2": "its input t4 was not dumped, neither here nor as the output of p1",
    }
    assert verdicts(found)["gap"] == "innocent"


def test_the_worst_element_is_named(tmp_path: Path) -> None:
    run = device_run(tmp_path, Fused("p1", "Pooling", ("p1",), spoil=one_element))
    (output,) = replay_all(run)["p1"].outputs
    assert output.worst == np.unravel_index(77, run.tensors["t4"].shape)
    assert output.worst_target == run.tensors["t4"].ravel()[77]
    assert output.peak > output.peak_limit


@pytest.mark.parametrize(
    ("names", "message"),
    [(("c2a1r",), "the rules have no operator c2a1r; did you mean c2a1r2?")],
)
def test_unknown_operators_are_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    run = device_run(tmp_path)
    with pytest.raises(UsageError, match=re.escape(message)):
        replay_all(run, operators=names)
