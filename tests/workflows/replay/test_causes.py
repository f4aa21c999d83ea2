"""Causes of guilty operators: each planted fault is named, and a change that is none is never proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from device_runs import DeviceRun, Fused
from onnx_models import model, node, value
from opdiff.core.reasons import Language, render
from opdiff.core.replay import ReplayVerdict
from planted_changes import normal, single
from planted_variants import CASES, CONV, Case, half

if TYPE_CHECKING:
    from pathlib import Path

    from onnx_models import Array
    from planted_changes import Spoil


@pytest.mark.parametrize("case", CASES, ids=[f"{case.kind}: {case.sentence}" for case in CASES])
def test_the_planted_fault_is_the_cause(tmp_path: Path, case: Case) -> None:
    found = case.operator.replay(tmp_path, case.change, case.spoil)
    assert found.verdict is ReplayVerdict.GUILTY, found
    cause = found.cause
    assert cause is not None
    assert (cause.kind.value, case.sentence in str(cause.reason)) == (case.kind, True), cause
    assert cause.before == found.error
    # Causes by the level of noise have no error that remains.
    assert cause.evidence == cause.reason or cause.after < 0.3 * cause.before
    assert render(cause.reason, Language.CHINESE) != str(cause.reason)


def test_every_arithmetic_of_a_device_is_innocent(tmp_path: Path) -> None:
    """Sums in 16 bits are a fault only where they are larger than the noise of the operator."""
    short = single("MatMul", {"x": normal(8, 16), "y": normal(16, 8, seed=1)})
    assert short.replay(tmp_path).verdict is ReplayVerdict.INNOCENT


def test_a_near_explanation_is_named_but_does_not_win(tmp_path: Path) -> None:
    """Exchanged operands and a small further error: neither the change nor any other explains everything."""
    difference = single("Sub", {"x": normal(32, 32), "y": normal(32, 32, seed=1)})
    cause = difference.replay(
        tmp_path, spoil=lambda array: -array * (1 + 0.003 * np.sign(normal(*array.shape, seed=2)))
    ).cause
    assert cause is not None
    assert (cause.kind, str(cause.reason)) == ("unknown", "no single change explains all of the error")
    assert str(cause.runner_up) == "the operands of sub (Sub) are exchanged"
    assert cause.after > 0.001


def test_an_output_that_nothing_explains_has_no_cause(tmp_path: Path) -> None:
    found = CONV.replay(tmp_path, spoil=lambda array: normal(*array.shape, seed=8))
    assert (found.verdict, found.cause) == (ReplayVerdict.GUILTY, None)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_results_of_infinite_inputs_prove_nothing(tmp_path: Path, bad: float) -> None:
    x = np.where(normal(4, 8) > 1, np.float32(bad), 1)
    found = single("Sub", {"x": x, "y": x}).replay(tmp_path, spoil=np.zeros_like)
    assert str(found.reason) == "an input has infinities or NaN, and the results differ, as they may"


def run_chain(folder: Path, x: Array, **spoils: Spoil | None) -> DeviceRun:
    """Run operators of one input one behind the other, each named by its type; results of some are spoiled."""
    nodes = [node(op_type, f"t{number}", f"t{number + 1}", op_type) for number, op_type in enumerate(spoils)]
    operators = [Fused(op_type, op_type, (op_type,), spoil=spoil) for op_type, spoil in spoils.items()]
    return DeviceRun(folder, model(nodes, [value("t0", x.shape)]), {"t0": x}, operators).write()


def test_a_later_operator_with_the_same_data_is_no_cause(tmp_path: Path) -> None:
    run = run_chain(tmp_path, -np.abs(normal(4, 8)), Neg=lambda array: array.ravel()[::-1].reshape(4, 8), Relu=None)
    cause = run.replay()[0].cause
    assert cause is not None
    assert (cause.kind, str(cause.reason)) == ("permuted", "the values are right, but in another order")


def test_the_data_of_another_operator_is_named(tmp_path: Path) -> None:
    run = run_chain(tmp_path, normal(4, 8), Neg=None, Abs=None, Exp=lambda _array: -normal(4, 8))
    cause = run.replay()[-1].cause
    assert cause is not None
    assert (cause.kind, str(cause.reason)) == ("memory", "the output holds the data of Neg:output:0")


def test_the_data_of_the_step_before_is_named(tmp_path: Path) -> None:
    earlier = normal(4, 8)
    run_chain(tmp_path, earlier, Neg=None, Exp=None).npu.rename(tmp_path / "9")
    run = run_chain(tmp_path, normal(4, 8, seed=1), Neg=None, Exp=lambda _array: np.exp(-half(earlier)))
    cause = run.replay(run.npu.rename(tmp_path / "10"))[-1].cause
    assert cause is not None
    reason = "the output still holds the data of Exp:output:0 at the step before"
    assert (cause.kind, str(cause.reason)) == ("memory", reason)
