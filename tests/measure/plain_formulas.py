"""Plain definitions of the metrics: exact fractions, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, isinf, isnan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import codes as elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

ZERO_THRESHOLD = 2.0**-52
Number = float | int


def values_of(codes: AnyArray, dtype: DType) -> list[Number]:
    """Return the numbers of a tensor in row-major order, as Python numbers."""
    numbers: list[Number] = elements.decode(codes, dtype).reshape(-1).tolist()
    return [int(number) if isinstance(number, bool) else number for number in numbers]


@dataclass(frozen=True)
class Reference:
    """Sums over two lists of numbers; pairs with NaN or infinities are left out."""

    target: Sequence[Number]
    golden: Sequence[Number]

    @property
    def pairs(self) -> list[tuple[Fraction, Fraction]]:
        both = zip(self.target, self.golden, strict=True)
        return [(Fraction(x), Fraction(y)) for x, y in both if isfinite(x) and isfinite(y)]

    def products(self) -> Fraction:
        return sum((x * y for x, y in self.pairs), Fraction())

    def squares(self, side: int) -> Fraction:
        return sum((pair[side] ** 2 for pair in self.pairs), Fraction())

    def total(self, side: int) -> Fraction:
        return sum((pair[side] for pair in self.pairs), Fraction())

    def errors(self) -> list[Fraction]:
        return [x - y for x, y in self.pairs]

    def relative(self) -> list[Fraction]:
        return [abs(x - y) / abs(y) for x, y in self.pairs if abs(y) > ZERO_THRESHOLD]

    def variance(self, side: int) -> Fraction:
        numbers = [pair[side] for pair in self.pairs]
        mean = sum(numbers, Fraction()) / len(numbers)
        return sum(((number - mean) ** 2 for number in numbers), Fraction()) / len(numbers)

    def cosine(self) -> float:
        return ratio_root(self.products() ** 2, self.squares(0) * self.squares(1)) * (1 if self.products() > 0 else -1)

    def mismatches(self) -> list[int]:
        both = enumerate(zip(self.target, self.golden, strict=True))
        return [
            index
            for index, (x, y) in both
            if not (isfinite(x) and isfinite(y)) and x != y and not (isnan(x) and isnan(y))
        ]

    def unequal(self) -> int:
        both = zip(self.target, self.golden, strict=True)
        return sum(x != y and not (isnan(x) and isnan(y)) for x, y in both)


def count_nans(numbers: Sequence[Number]) -> int:
    return sum(map(isnan, numbers))


def count_infs(numbers: Sequence[Number]) -> int:
    return sum(map(isinf, numbers))


def ratio_root(numerator: Fraction, denominator: Fraction) -> float:
    """Return the square root of a ratio that may exceed the range of floats."""
    ratio = numerator / denominator
    half = (ratio.numerator.bit_length() - ratio.denominator.bit_length()) // 2
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(sqrt(ratio / Fraction(4) ** half), half))


def divergence(x: AnyArray, y: AnyArray) -> float:
    """Return the Kullback-Leibler divergence by its definition."""
    p, q = (np.maximum((side - side.min()) / (side.max() - side.min()), 2.0**-23) for side in (x, y))
    p, q = p / p.sum(), q / q.sum()
    return float((p * np.log(p / q)).sum())
