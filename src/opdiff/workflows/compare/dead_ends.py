"""Advice if nothing could be compared: what each side has, what was expected of it, and the likeliest remedy."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.reasons import Status, because, reasons_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row, Side
    from opdiff.core.reasons import Reason

_MAX_NAMES = 3


class DeadEnd(Struct, frozen=True):
    """Why nothing could be compared.

    Attributes:
        reasons: what each side has and lacks, and the likeliest remedy.
        path: the input to look at first.
    """

    reasons: tuple[Reason, ...]
    path: str


def find_dead_end(comparison: Comparison) -> DeadEnd | None:
    """Return why nothing could be compared; `None` if anything was and can be judged, or if a misfit is the reason."""
    target, golden, rules = comparison.target, comparison.golden, comparison.extra_inputs.fusion_rules
    if comparison.judgement.misfit is not None or comparison.judgement.has_judged_rows:
        return None
    absent = _find_absent(comparison.rows)
    sides = (*_side("target", target, absent["target"]), *_side("golden", golden, absent["golden"]))
    if not absent["target"] and not absent["golden"]:
        return DeadEnd((*sides, *_commonest(comparison.rows), because("compare.try_files")), target.path)
    if len(absent["target"]) > len(absent["golden"]):
        return DeadEnd((*sides, because("compare.try_other_target")), target.path)
    remedy = because("compare.try_other_golden", rules=rules) if rules else because("compare.try_rules")
    return DeadEnd((*sides, remedy), golden.path)


def _find_absent(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the names of operators that each side should have a file of."""
    sides = {Status.NOT_DUMPED: "target", Status.NO_GOLDEN_FILE: "golden"}
    names: dict[str, dict[str, None]] = {side: {} for side in sides.values()}
    for row in rows:
        if row.status is not Status.NO_COUNTERPART:
            for reason in reasons_in(row.reason):
                if reason.status in sides:
                    names[sides[reason.status]][str(reason.fact("name"))] = None
    return {side: list(found) for side, found in names.items()}


def _side(name: str, side: Side, absent: Sequence[str]) -> Iterator[Reason]:
    if side.operators:
        yield because("compare.side_has", side=name, path=side.path, count=side.operators, names=_first(side.names))
    if absent:
        yield because("compare.side_lacks", side=name, count=len(absent), names=_first(absent))


def _commonest(rows: Sequence[Row]) -> Iterator[Reason]:
    """Yield the most frequent reason of the rows."""
    counts = Counter(row.reason for row in rows if row.reason)
    for reason, count in counts.most_common(1):
        yield because("compare.commonest_reason", reason=reason, count=count, total=len(rows))


def _first(names: Sequence[str]) -> tuple[str, ...]:
    return (*names[:_MAX_NAMES], "…") if len(names) > _MAX_NAMES else tuple(names)
