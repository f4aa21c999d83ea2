"""Values for the search of a cause: the bad tensor, the comparison it is part of, and the cause."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.judge.network import MIN_ELEMENTS_FOR_CONTENT
from opdiff.judge.rounding import is_quantized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import ErrorKind, Verdict
    from opdiff.core.metrics import Metrics
    from opdiff.core.reasons import Reason
    from opdiff.judge.deviating_elements import DeviatingElements
    from opdiff.judge.error_magnitude import ErrorMagnitude
    from opdiff.judge.network import Network
    from opdiff.judge.origins import CreatedError


class Cause(Struct, frozen=True):
    """A kind of error and the evidence for it."""

    kind: ErrorKind
    evidence: tuple[Reason, ...]


class CauseContext(Struct, frozen=True):
    """The comparison in which causes are searched.

    Attributes:
        rows: all rows.
        network: network of the target.
        verdicts: verdict of each row.
        by_content: indices of the rows with equal statistics, by their statistics.
        facts: facts about the elements of tensors, by index of the row.
    """

    rows: Sequence[Row]
    network: Network
    verdicts: Sequence[Verdict]
    by_content: dict[tuple[object, ...], list[int]]
    facts: dict[int, ErrorFacts]


class Case(Struct, frozen=True):
    """One tensor with an error, and the elements that deviate."""

    created: CreatedError
    metrics: Metrics
    row: Row
    deviating: DeviatingElements
    context: CauseContext

    @property
    def magnitude(self) -> ErrorMagnitude:
        """Magnitude of the error."""
        return self.created.magnitude

    @property
    def facts(self) -> ErrorFacts | None:
        """Facts about the elements of the tensor; `None` if they were not examined."""
        return self.context.facts.get(self.created.row_index)

    @property
    def is_quantized(self) -> bool:
        """Whether the operator works on quantized values."""
        return is_quantized(self.created.operator, self.context.rows, self.created.inputs)


def cause_context(
    rows: Sequence[Row], network: Network, verdicts: Sequence[Verdict], facts: Sequence[ErrorFacts] = ()
) -> CauseContext:
    """Return the context of a comparison; tensors of equal content are found by their statistics."""
    by_content: dict[tuple[object, ...], list[int]] = {}
    for row_index, row in enumerate(rows):
        content = content_of(row)
        if content is not None:
            by_content.setdefault(content, []).append(row_index)
    return CauseContext(rows, network, verdicts, by_content, {each.row: each for each in facts})


def content_of(row: Row) -> tuple[object, ...] | None:
    """Return statistics that only tensors of equal content share."""
    metrics = row.metrics
    if metrics is None or not metrics.target_std or not isfinite(metrics.target_std):
        return None
    if metrics.count < MIN_ELEMENTS_FOR_CONTENT:
        return None
    return metrics.count, metrics.target_mean, metrics.target_std, metrics.target_min, metrics.target_max
