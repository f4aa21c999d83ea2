"""Plain definitions of the metrics: exact fractions, element by element, and formulas in long doubles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, isinf, isnan, log10, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from opdiff.core import codes as elements
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES

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
    p, q = (side / side.sum() for side in map(_likelihoods, (x, y)))
    return float((p * np.log(p / q)).sum())


def _likelihoods(side: AnyArray) -> AnyArray:
    width = side.max() - side.min()
    return np.maximum((side - side.min()) / width, 2.0**-23) if width else np.ones_like(side)


def histogram(values: AnyArray, edges: tuple[float, ...]) -> tuple[int, ...]:
    """Return the numbers of zeros, of values below the first edge, and from each edge on."""
    bins = np.where(values == 0, 0, 1 + np.searchsorted(edges, values, side="right"))
    return tuple(np.bincount(bins, minlength=len(edges) + 2).tolist())


@np.errstate(all="ignore")
def plain_metrics(target: AnyArray, golden: AnyArray) -> dict[str, Any]:
    """Return the metrics of finite numbers by their definitions and names; ULPs are those of half precision.

    Metrics that constant tensors do not have are NaN.
    """
    x, y = (side.astype(np.longdouble).reshape(-1) for side in (target, golden))
    errors, count = x - y, len(x)
    absolute, is_zero = np.abs(errors), np.abs(y) <= ZERO_THRESHOLD
    relative = np.divide(absolute, np.abs(y), out=np.where(absolute > 0, np.longdouble(inf), 0), where=~is_zero)
    documented = np.where(is_zero, 0, relative)
    ulps = absolute / 2.0 ** (np.floor(np.log2(np.maximum(np.maximum(np.abs(x), np.abs(y)), 2.0**-14))) - 10)
    spread, other_spread = x - x.mean(), y - y.mean()
    scale = (spread * other_spread).sum() / (other_spread**2).sum()
    offset = x.mean() - scale * y.mean()
    worst, worst_relative = int(absolute.argmax()), int(documented.argmax())

    def norm(values: AnyArray) -> float:
        return sqrt((values**2).sum())

    return {
        "count": count,
        "finite_count": count,
        "is_equal": False,
        **dict.fromkeys(("target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches"), 0),
        "first_special_mismatch": None,
        "notes": (),
        "cosine": float((x * y).sum() / norm(x) / norm(y)),
        "finite_cosine": float((x * y).sum() / norm(x) / norm(y)),
        "centred_cosine": float((spread * other_spread).sum() / norm(spread) / norm(other_spread)),
        "max_absolute_error": float(absolute.max()),
        "mean_absolute_error": float(absolute.mean()),
        "root_mean_square_error": norm(errors) / sqrt(count),
        "accumulated_relative_error": float(documented.sum()),
        "max_relative_error": float(documented.max()),
        "mean_relative_error": float(documented.mean()),
        "relative_euclidean_distance": norm(errors) / norm(y),
        "kl_divergence": divergence(x, y),
        "target_mean": float(x.mean()),
        "target_std": float(x.std()),
        "golden_mean": float(y.mean()),
        "golden_std": float(y.std()),
        "norm_ratio": norm(x) / norm(y),
        "snr_db": 20 * log10(norm(y) / norm(errors)),
        "error_bias": float(errors.sum() / absolute.sum()),
        "over_1_permille": float((relative >= 0.001).mean()),
        "over_5_permille": float((relative >= 0.005).mean()),
        "max_ulp": float(ulps.max()),
        "worst_index": worst,
        "worst_target": float(x[worst]),
        "worst_golden": float(y[worst]),
        "target_min": float(x.min()),
        "target_max": float(x.max()),
        "golden_min": float(y.min()),
        "golden_max": float(y.max()),
        "fit_scale": float(scale),
        "fit_offset": float(offset),
        "fit_distance": norm(x - scale * y - offset) / norm(y),
        "zero_golden": float((is_zero & (absolute > 0)).mean()),
        "worst_relative_index": worst_relative,
        "worst_relative_target": float(x[worst_relative]),
        "worst_relative_golden": float(y[worst_relative]),
        "relative_histogram": histogram(relative, RELATIVE_EDGES),
        "ulp_histogram": histogram(ulps, ULP_EDGES),
    }
