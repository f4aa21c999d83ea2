"""PASS, FAIL and the colours of graph mode."""

from __future__ import annotations

from math import inf, nan

import pytest

from opdiff.core.comparison import DataMode, Row, SideInfo
from opdiff.core.metrics import DocumentedMetrics, TensorStats
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import quoted
from opdiff.core.tensor import Slot, TensorKey
from opdiff.judge.graph.criteria import documented_results

GOOD = DocumentedMetrics(1.0, 0.0, 0.0, 0.0, 1.0, 1.0)
FINITE = TensorStats(-1.0, 1.0, 0.0, 1.0)


def row(
    slot: Slot = Slot.OUTPUT,
    mode: DataMode = DataMode.REAL,
    *,
    real: DocumentedMetrics | None = None,
    target: TensorStats = FINITE,
    golden: TensorStats = FINITE,
    reason: str = "",
    golden_only: bool = False,
) -> Row:
    sides = SideInfo("a", stats=target), SideInfo("b", stats=golden)
    key, why = TensorKey("op", slot, 0), quoted(reason) if reason else None
    label = OpLabel(0, 0, "A", "op", "op")
    return Row(label, key, key, *sides, data_mode=mode, documented=real, reason=why, golden_only=golden_only)


def figures(cosine: float | None, relative: float, error: float = 0.0, share: float | None = 1.0) -> DocumentedMetrics:
    return DocumentedMetrics(cosine, 0.0, error, relative, share, share)


@pytest.mark.parametrize(
    ("cosine", "relative", "error", "result", "reached", "colour"),
    [
        (0.99, 0.00999, 0.5, "PASS", "Yes", "green"),
        (0.99, 0.01, 0.5, "FAIL", "Yes", "yellow"),
        (0.98999, 0.001, 0.001, "FAIL", "Yes", "red"),
        (0.98999, 0.001, 0.0011, "FAIL", "No", "red"),
        (0.89, 0.001, 0.0001, "FAIL", "No", "red"),
        (1.0, 0.001, 1.5, "PASS", "No", "green"),
        (1.0, inf, 0.1, "FAIL", "Yes", "yellow"),
        (nan, nan, nan, "FAIL", "No", "red"),
        (None, 0.001, 0.1, "PASS", "Yes", "green"),
        (None, 0.02, 0.1, "FAIL", "Yes", "yellow"),
        (1.0, 0.001, 2e10, "PASS", "No", "red"),
    ],
)
def test_real_data(cosine: float | None, relative: float, error: float, result: str, reached: str, colour: str) -> None:
    (verdict,) = documented_results([row(real=figures(cosine, relative, error))])
    assert (verdict.result, verdict.reached, str(verdict.colour)) == (result, reached, colour)


def test_rows_with_the_same_result_share_it() -> None:
    bad = figures(0.5, 1.0, 2e10)
    first, second = documented_results([row(real=bad), row(real=bad)])
    assert first is second
    assert [reason.code for reason in first.why] == ["judge.error_huge", "judge.cosine_low"]


@pytest.mark.parametrize(
    ("before", "after", "colour", "why"),
    [
        (figures(1.0, 0.0), figures(1.0, 0.0, share=0.59), "red", "judge.accuracy_lost"),
        (figures(1.0, 0.0), figures(1.0, 0.0, share=0.85), "yellow", "judge.share_dropped"),
        (figures(1.0, 0.0, 0.5), figures(1.0, 0.0, 10.0), "yellow", "judge.error_grown"),
        (figures(1.0, 0.0, 0.5), figures(1.0, 0.0, 9.0), "green", ""),
        (figures(1.0, 0.0), figures(0.995, 0.0), "green", ""),
    ],
)
def test_an_output_is_compared_with_the_inputs(
    before: DocumentedMetrics, after: DocumentedMetrics, colour: str, why: str
) -> None:
    first, second = documented_results([row(Slot.INPUT, real=before), row(real=after)])
    assert str(first.colour) == "green"
    assert str(second.colour) == colour
    assert [reason.code for reason in second.why][:1] == ([why] if why else [])


def test_a_reason_is_given_once_for_several_inputs() -> None:
    before, after = row(Slot.INPUT, real=figures(1.0, 0.0)), row(real=figures(1.0, 0.0, share=0.59))
    *_, result = documented_results([before, before, after])
    assert [reason.code for reason in result.why] == ["judge.accuracy_lost", "judge.share_dropped"]


@pytest.mark.parametrize(
    ("target", "result", "reached", "colour"),
    [
        (FINITE, "PASS", "Yes", "green"),
        (TensorStats(-1.0, 1.009, 0.0, 1.0), "PASS", "Yes", "green"),
        (TensorStats(-1.0, 1.02, 0.0, 1.0), "FAIL", "Yes", "yellow"),
        (TensorStats(-1.0, 1.0, 0.001, 1.0), "PASS", "Yes", "green"),
        (TensorStats(-1.0, 1.0, 0.0011, 1.0), "FAIL", "Yes", "yellow"),
        (TensorStats(-1.0, 1.6, 0.0, 1.0), "FAIL", "Yes", "red"),
        (TensorStats(-1.0, 3.0, 0.0, 1.0), "FAIL", "No", "red"),
        (TensorStats(-1.0, 1.0), "PASS", "Yes", "green"),
        (TensorStats(nan, nan, nan, nan), "FAIL", "No", "red"),
        (TensorStats(-1.0, inf, inf, inf), "FAIL", "No", "red"),
        (TensorStats(), "FAIL", "No", "yellow"),
    ],
)
def test_statistics(target: TensorStats, result: str, reached: str, colour: str) -> None:
    (verdict,) = documented_results([row(mode=DataMode.STATISTICS, target=target)])
    assert (verdict.result, verdict.reached, str(verdict.colour)) == (result, reached, colour)


@pytest.mark.parametrize(
    ("ours", "theirs", "result", "colour"),
    [("00ff", "00ff", "PASS", "green"), ("00ff", "00fe", "FAIL", "red"), ("", "", "FAIL", "red")],
)
def test_checksums(ours: str, theirs: str, result: str, colour: str) -> None:
    (verdict,) = documented_results(
        [row(mode=DataMode.MD5, target=TensorStats(crc32=ours), golden=TensorStats(crc32=theirs))]
    )
    assert (verdict.result, verdict.reached, str(verdict.colour)) == (
        result, "Yes" if result == "PASS" else "No", colour,
    )  # fmt: skip


def test_unpaired_rows() -> None:
    alone, golden = documented_results([row(reason="nobody"), row(reason="nobody", golden_only=True)])
    assert (alone.result, alone.reached, str(alone.colour)) == ("FAIL", "No", "red")
    assert (golden.result, golden.reached, str(golden.colour)) == ("N/A", "N/A", "")
