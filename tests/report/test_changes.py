"""Changes between two comparisons."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from made_reports import BAD, GOOD, OFF, judged_comparison, not_compared, row
from opdiff.core.reasons import quoted
from opdiff.core.tensor import Slot
from opdiff.report.changes import ChangeKind, find_changes


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
    assert (change.kind, change.before, change.after, change.reason) == ("vanished", "noise", None, "no golden file")
    (change,) = find_changes(judged_comparison(after), judged_comparison(before)).rows
    assert change.kind is ChangeKind.APPEARED


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
