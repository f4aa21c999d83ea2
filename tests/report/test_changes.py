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
    from opdiff.core.comparison import Comparison, Row


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


# Old and new rows, and the changes with the numbers of their new rows.
ROWS: dict[str, tuple[list[Row], list[Row], list[tuple[str, str, int | None]]]] = {
    "appeared and vanished": (
        [row("a"), row("b")],
        [row("b"), row("c")],
        [("vanished", "a:output:0", None), ("appeared", "c:output:0", 1)],
    ),
    "worse before better": (
        [row("a", **BAD), row("b"), row("c", Slot.INPUT)],
        [row("a"), row("b", **BAD), row("c", Slot.INPUT)],
        [("worse", "b:output:0", 1), ("better", "a:output:0", 0)],
    ),
    "several rows of one tensor": ([row("a"), row("a", **BAD)], [row("a"), row("a", **BAD)], []),
    "never compared": ([not_compared("a")], [not_compared("a")], []),
}


@pytest.mark.parametrize(("old", "new", "expected"), ROWS.values(), ids=ROWS)
def test_order_of_changes(old: list[Row], new: list[Row], expected: list[tuple[str, str, int | None]]) -> None:
    changes = find_changes(judged_comparison(*old), judged_comparison(*new))
    assert [(change.kind, change.tensor, change.row) for change in changes.rows] == expected


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
