"""Every variant of a computation is the fault of one small operator, and is named as its cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from device_runs import DeviceRun, Fused
from onnx_models import model, node, value
from opdiff.core.reasons import Language, render
from opdiff.core.replay import ReplayVerdict
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from planted_changes import Case, normal, replay_case
from planted_variants import CASES, PRODUCT, half

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", CASES)
def test_the_planted_variant_is_the_cause(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    found = replay_case(tmp_path, case)
    assert found.verdict is ReplayVerdict.GUILTY, found
    assert found.cause is not None
    assert (found.cause.kind.value, case.sentence in str(found.cause.reason)) == (case.kind, True), found.cause
    assert found.error is not None
    assert found.cause.before == found.error
    is_level = found.cause.reason.code == "replay.cause_accumulation_level"
    assert found.cause.evidence == found.cause.reason if is_level else found.cause.after < 0.3 * found.cause.before
    assert render(found.cause.reason, Language.CHINESE) != str(found.cause.reason)


def test_every_arithmetic_of_a_device_is_innocent(tmp_path: Path) -> None:
    """Sums in 16 bits are a fault only where they are larger than the noise of the operator."""
    short = {"x": normal(8, 16), "y": normal(16, 8, seed=1)}
    found = replay_case(tmp_path, Case(PRODUCT, short, "", ""))
    assert found.verdict is ReplayVerdict.INNOCENT


def test_a_near_explanation_is_named_but_does_not_win(tmp_path: Path) -> None:
    """Exchanged operands and a small further error: neither the change nor any other explains everything."""
    case = Case(
        [node("Sub", "x y", "z", "sub")], {"x": normal(32, 32), "y": normal(32, 32, seed=1)}, "", "",
        spoil=lambda array: -array * (1 + 0.003 * np.sign(normal(*array.shape, seed=2))),
    )  # fmt: skip
    found = replay_case(tmp_path, case)
    assert found.cause is not None
    assert (found.cause.kind.value, str(found.cause.reason)) == (
        "unknown",
        "no single change explains all of the error",
    )
    assert str(found.cause.runner_up) == "the operands of sub (Sub) are exchanged"
    assert found.cause.after > 0.001


def test_the_data_of_the_step_before_is_named(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "a", "first"), node("Exp", "a", "b", "second")]
    made = model(nodes, [value("x", [4, 8])])
    earlier, now = normal(4, 8), normal(4, 8, seed=1)
    stale = Fused("second", "Exp", ("second",), spoil=lambda _array: np.exp(-half(earlier)))
    right = Fused("second", "Exp", ("second",))
    for step, x, last in ((9, earlier, right), (10, now, stale)):
        run = DeviceRun(tmp_path, made, {"x": x}, (Fused("first", "Neg", ("first",)), last)).write()
        run.npu.rename(tmp_path / f"{step}")
    options = ReplayOptions(str(tmp_path / "10"), str(run.rules), str(run.model))
    _, found = replay(options, lambda _done, _total: None)
    assert found.cause is not None
    reason = "the output still holds the data of second:output:0 at the step before"
    assert (found.cause.kind, str(found.cause.reason)) == ("memory", reason)
