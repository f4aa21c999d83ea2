"""The documented metrics in exact arithmetic: an oracle for both kernels.

Finite numbers are integers in units of 2^-1074. Sums, differences and products are exact. Quotients, roots and
logarithms have 60 digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property
from math import inf, isfinite, isinf, isnan, nan
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Number = float | int
Value = Decimal | Number | None
"""A value in exact arithmetic; a float if it is NaN or infinite, an integer if it is printed in full."""

_DIGITS = Context(prec=60, Emin=-99_999, Emax=99_999)
_UNIT = 1074
# Golden values up to this magnitude count as zero in relative errors, norms and divergences up to it as zero.
_ZERO = 1 << (_UNIT - 52)
_GRAPH_ZERO = 1 << (_UNIT - 23)
_MAX_PLAIN = int(1e300) << _UNIT


def in_units(number: Number) -> int:
    """Return a finite number in units of 2^-1074."""
    numerator, denominator = number.as_integer_ratio()
    return numerator << (_UNIT + 1 - denominator.bit_length())


@dataclass(frozen=True)
class Side:
    """The numbers of one tensor."""

    numbers: Sequence[Number]

    @cached_property
    def nans(self) -> int:
        return sum(map(isnan, self.numbers))

    @cached_property
    def infs(self) -> set[Number]:
        return set(filter(isinf, self.numbers))

    @property
    def is_finite(self) -> bool:
        return not self.nans and not self.infs

    @cached_property
    def units(self) -> list[int]:
        return [in_units(number) for number in self.numbers if isfinite(number)]

    @cached_property
    def squares(self) -> int:
        return sum(map(mul, self.units, self.units))

    @property
    def is_small(self) -> bool:
        return self.squares <= _ZERO**2

    def mean_and_deviation(self) -> tuple[Value, Value]:
        if not self.numbers:
            return None, None
        if not self.is_finite:
            return nan if self.nans or len(self.infs) > 1 else next(iter(self.infs)), nan
        total, count = sum(self.units), len(self.units)
        variance = count * self.squares - total * total
        return _decimal(total) / count, (Decimal(variance) / count**2).sqrt() / Decimal(2) ** _UNIT

    def likelihoods(self) -> list[Decimal]:
        low, high = min(self.units), max(self.units)
        if low == high:
            return [Decimal(1)] * len(self.units)
        least = Decimal(2) ** -23
        return [max(Decimal(unit - low) / (high - low), least) for unit in self.units]


def _decimal(units: int) -> Decimal:
    return Decimal(units) / Decimal(2) ** _UNIT


def _root(units: int) -> Decimal:
    """Return the square root of a sum of squares."""
    return Decimal(units).sqrt() / Decimal(2) ** _UNIT


class ExactPair:
    """Two tensors of any real type, as Python numbers in row-major order."""

    def __init__(self, target: Sequence[Number], golden: Sequence[Number], *, integers: bool) -> None:
        self.target, self.golden, self.integers = Side(target), Side(golden), integers
        both = [*zip(target, golden, strict=True)]
        self.infinite = [pair for pair in both if not all(map(isfinite, pair))]
        self.pairs = [(in_units(x), in_units(y)) for x, y in both if isfinite(x) and isfinite(y)]
        self.errors = [abs(x - y) for x, y in self.pairs]
        self.count = len(both)

    @property
    def is_finite(self) -> bool:
        return self.target.is_finite and self.golden.is_finite

    def _cosine(self) -> Decimal:
        products = sum(x * y for x, y in self.pairs)
        return (
            Decimal(products) / (Decimal(sum(x * x for x, _ in self.pairs) * sum(y * y for _, y in self.pairs))).sqrt()
        )

    def _shown_error(self, units: int) -> Value:
        return units >> _UNIT if self.integers else _decimal(units)

    # Offline comparison

    def metrics(self) -> dict[str, Value]:
        """Return the documented metrics of offline comparison by their names in `Metrics`."""
        with localcontext(_DIGITS):
            target, golden = self.target.mean_and_deviation(), self.golden.mean_and_deviation()
            accumulated, largest, mean = self._relative_errors()
            return {
                "cosine": self._documented_cosine(),
                **self._absolute_errors(),
                "accumulated_relative_error": accumulated,
                "max_relative_error": largest,
                "mean_relative_error": mean,
                "relative_euclidean_distance": self._distance(),
                "kl_divergence": self._divergence(),
                "target_mean": target[0],
                "target_std": target[1],
                "golden_mean": golden[0],
                "golden_std": golden[1],
            }

    def _documented_cosine(self) -> Value:
        if not self.count:
            return None
        if not self.is_finite:
            return nan
        if self.target.is_small and self.golden.is_small:
            return Decimal(1)
        return self._cosine() if self.target.squares and self.golden.squares else None

    def _absolute_errors(self) -> dict[str, Value]:
        names = "max_absolute_error", "mean_absolute_error", "root_mean_square_error"
        if not self.count:
            return dict.fromkeys(names)
        if not self.is_finite:
            has_nans = self.target.nans or self.golden.nans or any(x == y for x, y in self.infinite)
            return dict.fromkeys(names, nan if has_nans else inf)
        squares = sum(map(mul, self.errors, self.errors))
        mean_square = (Decimal(squares) / self.count).sqrt() / Decimal(2) ** _UNIT
        values = self._shown_error(max(self.errors)), _decimal(sum(self.errors)) / self.count, mean_square
        return dict(zip(names, values, strict=True))

    def _relative_errors(self) -> tuple[Value, Value, Value]:
        if not self.count:
            return None, None, None
        if self.target.nans or self.golden.nans or any(isinf(x) and isinf(y) for x, y in self.infinite):
            return nan, nan, nan
        if (
            any(isinf(x) and abs(in_units(y)) > _ZERO for x, y in self.infinite if isfinite(y))
            or self._is_zero_golden()
        ):
            return inf, inf, inf
        terms = [
            Decimal(error) / abs(y) for error, (_, y) in zip(self.errors, self.pairs, strict=True) if abs(y) > _ZERO
        ]
        terms += [Decimal(1) for _, y in self.infinite if isinf(y)]
        total = sum(terms, Decimal())
        return total, max(terms, default=Decimal()), total / self.count

    def _is_zero_golden(self) -> bool:
        """Return whether all golden values count as zero although target values do not."""
        zero = self.golden.is_finite and max(map(abs, self.golden.units)) <= _ZERO
        return zero and (bool(self.target.infs) or max(map(abs, self.target.units)) > _ZERO)

    def _distance(self) -> Value:
        if not self.count:
            return None
        if not self.is_finite:
            return nan if self.target.nans or not self.golden.is_finite else inf
        if self.golden.is_small:
            return Decimal() if self.target.is_small else inf
        return (Decimal(sum(map(mul, self.errors, self.errors))) / self.golden.squares).sqrt()

    def _divergence(self) -> Value:
        if not self.count:
            return None
        if not self.is_finite:
            return nan
        p, q = self.target.likelihoods(), self.golden.likelihoods()
        total_p, total_q = sum(p, Decimal()), sum(q, Decimal())
        logs = sum((a * (a / b).ln() for a, b in zip(p, q, strict=True) if a != b), Decimal())
        divergence = logs / total_p + (total_q / total_p).ln()
        return divergence if divergence >= Decimal(2) ** -52 else Decimal()

    # Graph mode

    def graph_metrics(self) -> dict[str, Value]:
        """Return the documented metrics of graph mode by their names in `DocumentedMetrics`."""
        names = "cosine", "euclidean", "max_abs", "max_relative", "one_permille", "five_permille"
        if any(not (x == y or (isnan(x) and isnan(y))) for x, y in self.infinite):
            return dict.fromkeys(names, nan)
        if not self.pairs:
            return dict(zip(names, (1.0, 0.0, 0.0, 0.0, 1.0, 1.0), strict=True))
        with localcontext(_DIGITS):
            relative = [
                Decimal(error) / abs(y) if y else Decimal("inf") if error else Decimal()
                for error, (_, y) in zip(self.errors, self.pairs, strict=True)
            ]
            shares = [
                Decimal(
                    sum(
                        1000 * error < part * abs(y) or not error
                        for error, (_, y) in zip(self.errors, self.pairs, strict=True)
                    )
                )
                / len(self.pairs)
                for part in (1, 5)
            ]
            euclidean = _root(sum(map(mul, self.errors, self.errors)))
            largest = self._shown_error(max(self.errors))
            values = self._graph_cosine(), euclidean, largest, max(relative), *shares
            return dict(zip(names, values, strict=True))

    def _graph_cosine(self) -> Value:
        if self.count == 1:
            return None
        small = [sum(pair[side] ** 2 for pair in self.pairs) <= _ZERO**2 for side in (0, 1)]
        return Decimal(1) if all(small) else nan if any(small) else self._cosine()

    def extra_metrics(self) -> dict[str, Value] | None:
        """Return the further metrics of graph mode by their names in `ExtraMetrics`."""
        is_plain = self.is_finite and all(abs(unit) <= _MAX_PLAIN for pair in self.pairs for unit in pair)
        if not self.pairs or not is_plain:
            return None
        with localcontext(_DIGITS):
            counted = [(e, abs(y)) for e, (_, y) in zip(self.errors, self.pairs, strict=True) if abs(y) > _GRAPH_ZERO]
            relative = [Decimal(error) / golden for error, golden in counted]
            errors = [_decimal(error) for error, _ in counted]
            distance, norm = _root(sum(map(mul, self.errors, self.errors))), _root(self.golden.squares)
            return {
                "cosine": self._cosine_with_min_norms(),
                "max_relative": max(relative, default=Decimal()),
                "mean_relative": sum(relative, Decimal()) / self.count,
                "max_abs": max(errors, default=Decimal()),
                "mean_abs": sum(errors, Decimal()) / self.count,
                "kl": self._softmax_divergence(),
                "relative_distance": distance / norm if norm > Decimal(2) ** -23 else Decimal(),
            }

    def _cosine_with_min_norms(self) -> Value:
        if not (self.target.squares or self.golden.squares):
            return Decimal(1)
        products = Decimal(sum(x * y for x, y in self.pairs)) / Decimal(2) ** (2 * _UNIT)
        norms = [max(_root(side.squares), Decimal("1e-8")) for side in (self.target, self.golden)]
        return products / norms[0] / norms[1]

    def _softmax_divergence(self) -> Value:
        logs = []
        for side in (self.golden, self.target):
            largest = max(side.units)
            moved = [_decimal(unit - largest) for unit in side.units]
            total = sum((_exp(value) for value in moved), Decimal()).ln()
            logs.append([value - total for value in moved])
        return sum((_exp(b) * (b - n) for b, n in zip(*logs, strict=True)), Decimal())


def _exp(value: Decimal) -> Decimal:
    """Return the exponential function; 0 below 1e-1300, which no difference of floats makes up for."""
    return value.exp() if value > -3000 else Decimal()
