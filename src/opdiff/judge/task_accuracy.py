"""Difference of the accuracy of two runs, its uncertainty, and the documented limits.

The documents call a difference of up to 1 % normal; one that reaches 3 % cannot be ignored. Samples are drawn from the
task's data, so that small sets tell little: intervals of 95 % are part of every result, and a difference that they
leave open is `UNSURE`.
"""

from __future__ import annotations

from math import sqrt

from msgspec import Struct

from opdiff.core.judgement import Outcome

NORMAL_DIFFERENCE = 0.01
"""Largest difference of accuracy that the documents call normal."""

SIGNIFICANT_DIFFERENCE = 0.03
"""Difference of accuracy from which on the documents call it an issue."""

# Quantile of the normal distribution for two-sided intervals of 95 %.
_Z = 1.959964


class Share(Struct, frozen=True):
    """A number of samples out of all; `low` and `high` are its 95 % interval."""

    number: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share."""
        return self.number / self.total


class Difference(Struct, frozen=True):
    """Accuracy of the golden run minus accuracy of the target; `low` and `high` are its 95 % interval."""

    value: float
    low: float
    high: float


def share_of(number: int, total: int) -> Share:
    """Return a share with its interval by Wilson's formula, which holds for few samples and shares near 0 and 1."""
    centre = (number + _Z**2 / 2) / (total + _Z**2)
    half = _Z / (total + _Z**2) * sqrt(number * (total - number) / total + _Z**2 / 4)
    # The formula is exact at both ends, its rounding is not.
    low, high = (0.0 if number == 0 else centre - half), (1.0 if number == total else centre + half)
    return Share(number, total, low, high)


def difference_of(lost: int, gained: int, total: int) -> Difference:
    """Return the difference of two accuracies on the same samples, with the interval of Agresti and Min for pairs.

    Args:
        lost: samples that only the golden run has right.
        gained: samples that only the target has right.
        total: all samples.
    """
    # Half a sample is added to each of the four cells of the table.
    change, moved, size = lost - gained, lost + gained + 1, total + 2
    half = _Z * sqrt(moved - change**2 / size) / size
    return Difference(change / total, max(change / size - half, -1.0), min(change / size + half, 1.0))


def disagreement_of(agreement: Share) -> Difference:
    """Return the difference for golden results that count as right."""
    return Difference(1 - agreement.value, 1 - agreement.high, 1 - agreement.low)


def outcome_of(difference: Difference) -> Outcome:
    """Return the outcome by the documented limits; `UNSURE` if the interval does not support the outcome."""
    size = abs(difference.value)
    is_gain = difference.value < 0
    low, high = (-difference.high, -difference.low) if is_gain else (difference.low, difference.high)
    if size >= SIGNIFICANT_DIFFERENCE and low > NORMAL_DIFFERENCE:
        return Outcome.WRONG
    if size > NORMAL_DIFFERENCE and low > 0:
        return Outcome.SUSPICIOUS
    is_small = size <= NORMAL_DIFFERENCE and max(abs(low), high) < SIGNIFICANT_DIFFERENCE
    return Outcome.CLEAN if is_small else Outcome.UNSURE
