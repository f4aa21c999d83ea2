"""Changes between two comparisons."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from made_reports import BAD, FAULT, GOOD, OFF, judged_comparison, not_compared, row
from opdiff.core.reasons import quoted, render
from opdiff.core.tensor import Slot
from opdiff.report.changes import ChangeKind, find_changes

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (GOOD, BAD, ChangeKind.WORSE),
        (GOOD, OFF, ChangeKind.WORSE),
        (OFF, BAD, ChangeKind.WORSE),
        (BAD, GOOD, ChangeKind.BETTER),
        (BAD, BAD | {"relative_euclidean_distance": 0.5}, ChangeKind.BETTER),
        (BAD, BAD | {"relative_euclidean_distance": 1.5}, ChangeKind.WORSE),
        (BAD, BAD | {"relative_euclidean_distance": 0.91}, None),
        (BAD, BAD | {"relative_euclidean_distance": math.nan}, ChangeKind.WORSE),
        (BAD | {"relative_euclidean_distance": math.nan}, BAD, ChangeKind.BETTER),
        (BAD | {"relative_euclidean_distance": math.inf}, BAD | {"relative_euclidean_distance": math.nan}, None),
        (GOOD, GOOD | {"relative_euclidean_distance": 1e-3}, None),
        (GOOD, GOOD | {"is_equal": True}, None),
    ],
)
def test_kinds_of_change(before: dict[str, Any], after: dict[str, Any], kind: ChangeKind | None) -> None:
    changes = find_changes(judged_comparison(row("a", **before)), judged_comparison(row("a", **after)))
    assert [change.kind for change in changes.rows] == ([kind] if kind else [])
    assert changes.same == (kind is None)
    assert changes.other_numbers == (kind is None and before != after)


def test_tensors_appear_and_vanish() -> None:
    changes = find_changes(judged_comparison(row("a"), row("b")), judged_comparison(row("b"), row("c")))
    assert [(change.kind, change.tensor) for change in changes.rows] == [
        (ChangeKind.VANISHED, "a:output:0"),
        (ChangeKind.APPEARED, "c:output:0"),
    ]


def test_vanished_tensor_has_a_reason() -> None:
    before = row("a")
    after = replace(before, metrics=None, reason=quoted("no golden file"))
    (change,) = find_changes(judged_comparison(before), judged_comparison(after)).rows
    assert (change.kind, change.before, change.after) == ("vanished", "noise", None)
    assert change.reason == quoted("no golden file")
    (change,) = find_changes(judged_comparison(after), judged_comparison(before)).rows
    assert change.kind is ChangeKind.APPEARED


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        ("b", "b", ["Still at fault: b."]),
        ("b", "c", ["Newly at fault: c.", "No longer at fault: b."]),
        ("", "b", ["Newly at fault: b."]),
        ("b", "", ["No longer at fault: b."]),
        ("", "", []),
        ("", "abcde", ["Newly at fault: a, b, c and 2 more."]),
    ],
)
def test_changed_faults(before: str, after: str, sentences: list[str]) -> None:
    changes = find_changes(*map(with_faults, (before, after)))
    assert [render(fault) for fault in changes.faults] == sentences


def with_faults(operators: str) -> Comparison:
    comparison = judged_comparison(row("a"))
    findings = tuple(replace(FAULT, operator=operator) for operator in operators)
    return replace(comparison, judgement=replace(comparison.judgement, findings=findings))


def test_order_of_changes_and_row_numbers() -> None:
    old = judged_comparison(row("a", **BAD), row("b"), row("c", Slot.INPUT))
    new = judged_comparison(row("a"), row("b", **BAD), row("c", Slot.INPUT))
    changes = find_changes(old, new)
    assert [(change.kind, change.row) for change in changes.rows] == [("worse", 1), ("better", 0)]


def test_rows_of_one_tensor_are_matched_in_order() -> None:
    changes = find_changes(judged_comparison(row("a"), row("a", **BAD)), judged_comparison(row("a"), row("a", **BAD)))
    assert changes.rows == ()


def test_tensors_never_compared_are_no_change() -> None:
    assert find_changes(judged_comparison(not_compared("a")), judged_comparison(not_compared("a"))).rows == ()
