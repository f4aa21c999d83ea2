"""Both kernels against exact arithmetic, on random pairs of all element types: python -m measure.exact --pairs 10000.

A value is right if it differs from the exact one by at most 1e-9 of it, or is printed with the same digits.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from decimal import Decimal
from math import isfinite, isnan
from sys import float_info
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import asdict, replace

from measure.exact_metrics import ExactPair
from measure.kernels import Stored, any_codes, job, to_codes
from measure.plain_formulas import values_of
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.dtypes import DType, Kind
from opdiff.core.formatting import format_number
from opdiff.measure.graph_metrics import documented_metrics, extra_metrics
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import Failure, measure_all
from opdiff.measure.metrics import metrics_of
from opdiff.measure.reference.blocks import measure
from opdiff.measure.reference.second_pass import graph_sums, measure_kl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from measure.exact_metrics import Value
    from opdiff.core.codes import AnyArray
    from opdiff.measure.sums import Sums

    Rng = np.random.Generator

TYPES = [dtype for dtype in dtypes.BY_NAME.values() if dtype.kind is not Kind.OPAQUE]
# These carry most of the numbers of a network.
COMMON = [dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT32, dtypes.FLOAT64, dtypes.INT64, dtypes.UINT64, dtypes.INT32]
REAL_PARTS = {dtypes.COMPLEX32: dtypes.FLOAT16, dtypes.COMPLEX64: dtypes.FLOAT32, dtypes.COMPLEX128: dtypes.FLOAT64}
RELATIVE_TOLERANCE = Decimal("1e-9")

T = TypeVar("T")


class CodedPair(NamedTuple):
    """Codes and element types of two tensors, and how they were made."""

    target: AnyArray
    x: DType
    golden: AnyArray
    y: DType
    made_by: str


class Difference(NamedTuple):
    """A value that is not right; `kernel` is `native` or `numpy`."""

    kernel: str
    metric: str
    found: object
    exact: Value
    pair: CodedPair


# Random pairs


def iter_pairs(count: int, seed: int = 0) -> Iterator[CodedPair]:
    """Yield random pairs, the same for each seed."""
    for number in range(count):
        yield _random_pair(np.random.default_rng((seed, number)))


def _random_pair(rng: Rng) -> CodedPair:
    x, y = (_choice(rng, COMMON if rng.random() < 0.6 else TYPES) for _ in range(2))
    if (x.kind is Kind.COMPLEX) != (y.kind is Kind.COMPLEX):
        y = x
    make = _choice(rng, MAKERS)
    size = int(rng.integers(1, 40)) if rng.random() < 0.99 else int(rng.integers(1000, 1200))
    parts = 2 if x.kind is Kind.COMPLEX else 1
    target, golden = make(rng, size * parts, REAL_PARTS.get(x, x), REAL_PARTS.get(y, y))
    stored = [codes.view(dtype.storage) for codes, dtype in ((target, x), (golden, y))]
    return CodedPair(stored[0], x, stored[1], y, make.__name__.strip("_"))


def _choice(rng: Rng, items: Sequence[T]) -> T:
    return items[int(rng.integers(len(items)))]


def _encoded(values: AnyArray, dtype: DType) -> AnyArray:
    """Return the nearest codes; values are clipped to the range of the type."""
    if dtype.bits < 8 and dtype.kind is Kind.INTEGER:
        codes = np.arange(1 << dtype.bits, dtype="u1")
        return _choose_nearest(values, codes, dtype)
    return to_codes(np.abs(values) if dtype is dtypes.FLOAT8_E8M0 else values, dtype)


def _choose_nearest(values: AnyArray, codes: AnyArray, dtype: DType) -> AnyArray:
    numbers = elements.decode(codes, dtype).astype(np.float64)
    nearest: AnyArray = codes[np.abs(values[:, np.newaxis] - numbers).argmin(axis=1)]
    return nearest


def _any_bits(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    return _any(rng, size, x), _any(rng, size, y)


def _any(rng: Rng, size: int, dtype: DType) -> AnyArray:
    if dtype.bits < 8:
        return rng.integers(0, 1 << dtype.bits, size).astype(dtype.storage)
    return any_codes(rng, dtype, size).copy()


def _finite_bits(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    target, golden = _finite(_any(rng, size, x), x), _finite(_any(rng, size, y), y)
    if x is y:
        same = rng.random(size) < 0.3
        target[same] = golden[same]
    return target, golden


def _finite(codes: AnyArray, dtype: DType) -> AnyArray:
    if dtype.kind is Kind.FLOAT:
        codes[~np.isfinite(elements.decode(codes, dtype))] = 0
    return codes


def _noisy(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    golden = 10.0 ** rng.integers(-6, 7) * rng.standard_normal(size) + rng.choice([0, 0, 1, 1000])
    target = golden * (1 + 10.0 ** rng.integers(-8, 1) * rng.standard_normal(size))
    return _encoded(target, x), _encoded(golden, y)


def _noisy_bits(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    """Return the same codes apart from their last bits."""
    golden = _finite(_any(rng, size, y), y)
    if x is not y:
        values = elements.decode(golden, y).astype(np.float64)
        return _finite(_encoded(values, x), x), golden
    if y.bits < 8 or y.kind is Kind.BOOL:
        return golden.copy(), golden
    words = golden.view(f"u{golden.itemsize}")
    changed = words ^ rng.integers(0, 4, size).astype(words.dtype)
    return _finite(changed.view(y.storage).copy(), x), golden


def _wide_range(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    widest = float(rng.choice([20, 40, 300]))
    golden = rng.standard_normal(size) * 10.0 ** rng.uniform(-widest, widest, size)
    target = np.where(rng.random(size) < 0.5, golden, golden * rng.uniform(0.5, 2, size))
    return _finite(_encoded(target, x), x), _finite(_encoded(golden, y), y)


def _extremes(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    return _from_ends(rng, size, x), _from_ends(rng, size, y)


def _from_ends(rng: Rng, size: int, dtype: DType) -> AnyArray:
    """Return the largest, smallest, subnormal and other special numbers, and their neighbours."""
    if dtype.kind is Kind.BOOL or dtype.bits < 8:
        return _any(rng, size, dtype)
    if dtype.kind is Kind.FLOAT and dtype.bits > 8:
        info = np.finfo(np.float32 if dtype is dtypes.BFLOAT16 else dtype.decoded)
        ends = [0, -0.0, 1, -1, float(info.max), float(info.min), float(info.tiny), float(info.smallest_subnormal)]
        with np.errstate(over="ignore"):
            chosen = rng.choice(ends, size) * rng.choice([1, 1, 0.75, 1 + 2.0**-9], size)
        return _finite(_encoded(chosen, dtype), dtype)
    bits = 8 * np.dtype(dtype.storage).itemsize
    ends = [0, 1, 2, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << (bits - 1)) - 2]
    codes = np.array([ends[int(i)] for i in rng.integers(0, len(ends), size)], f"<u{bits // 8}")
    return _finite(codes.view(dtype.storage), dtype)


def _close_together(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    """Return constants apart from the last bits of a few numbers: a tiny spread around a large mean."""
    return _nearly_constant(rng, size, x), _nearly_constant(rng, size, y)


def _nearly_constant(rng: Rng, size: int, dtype: DType) -> AnyArray:
    first = _finite(_any(rng, 1, dtype), dtype)
    codes = np.repeat(first, size)
    if dtype.bits >= 8 and dtype.kind is not Kind.BOOL:
        words = codes.view(f"u{codes.itemsize}")
        words ^= np.where(rng.random(size) < 0.3, rng.integers(0, 4, size), 0).astype(words.dtype)
    return _finite(codes, dtype)


def _cancelling(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    """Return numbers whose sum, and often the sum of the products, is far smaller than they are."""
    half = 10.0 ** rng.integers(-3, 12) * rng.standard_normal((size + 1) // 2)
    target = np.concatenate((half, -half))[:size]
    golden = np.concatenate((half, half))[:size] if rng.random() < 0.5 else target[::-1].copy()
    sides = []
    for values, dtype in ((target, x), (golden, y)):
        codes = _encoded(values, dtype)
        at = int(rng.integers(size))
        codes[at : at + 1] = _encoded(values[at : at + 1] + rng.choice([0, 1e-3, 1, 1000]), dtype)
        sides.append(rng.permutation(codes) if rng.random() < 0.1 else codes)
    return _finite(sides[0], x), _finite(sides[1], y)


def _with_zeros(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    magnitude = 10.0 ** rng.choice([-25, -17, -16, -15, 0, 3])
    zeros = rng.random(size) < 0.7
    golden = np.where(zeros, rng.choice([0.0, -0.0], size), magnitude * rng.standard_normal(size))
    target = np.where(zeros & (rng.random(size) < 0.9), 0.0, magnitude * rng.standard_normal(size))
    return _encoded(target, x), _encoded(golden, y)


def _with_infinities(rng: Rng, size: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    special = [np.nan, np.inf, -np.inf][int(rng.integers(3)) :]
    golden, target = rng.standard_normal(size), rng.standard_normal(size)
    for side, dtype in ((golden, y), (target, x)):
        if dtype.kind is Kind.FLOAT and dtype.bits >= 16:
            side[rng.random(size) < 0.2 * rng.integers(0, 2)] = special[0]
    if rng.random() < 0.3 and x.kind is y.kind is Kind.FLOAT and min(x.bits, y.bits) >= 16:
        target[:] = np.where(np.isfinite(golden), target, golden)
    return _encoded(target, x), _encoded(golden, y)


MAKERS: list[Callable[[Rng, int, DType, DType], tuple[AnyArray, AnyArray]]] = [
    _any_bits, _finite_bits, _noisy, _noisy, _noisy_bits, _wide_range, _extremes, _close_together, _cancelling,
    _with_zeros, _with_infinities,
]  # fmt: skip


# Comparison


def iter_values(pair: CodedPair) -> Iterator[tuple[str, str, object, Value]]:
    """Yield kernel, metric, value found and exact value of one pair."""
    numbers = [_numbers(codes, dtype) for codes, dtype in ((pair.target, pair.x), (pair.golden, pair.y))]
    is_integer = all(dtype.kind in (Kind.INTEGER, Kind.BOOL) for dtype in (pair.x, pair.y))
    exact = ExactPair(numbers[0], numbers[1], integers=is_integer)
    expected = exact.metrics(), exact.graph_metrics(), exact.extra_metrics()
    for kernel, sums, kl in _results(pair):
        extra = extra_metrics(sums)
        graph, _ = documented_metrics(sums, is_single=sums.count == 1, is_scalar=False)
        found = asdict(metrics_of(sums, kl)), asdict(graph), asdict(extra) if extra else None
        for prefix, values, wanted in zip(("", "graph ", "further "), found, expected, strict=True):
            if values is None or wanted is None:
                yield kernel, f"{prefix}metrics", values is None, int(wanted is None)
                continue
            for name, value in wanted.items():
                yield kernel, prefix + name, values[name], value


def _numbers(codes: AnyArray, dtype: DType) -> list[float | int]:
    part = REAL_PARTS.get(dtype)
    return values_of(codes.view(part.storage) if part else codes, part or dtype)


def _results(pair: CodedPair) -> Iterator[tuple[str, Sums, float | None]]:
    sides = pair[:4]
    sums = measure(*sides)
    yield "numpy", replace(sums, graph=graph_sums(*sides, sums)), measure_kl(*sides, sums=sums)
    if native.find_library() is None or not native.is_supported(pair.x, pair.y):
        return
    jobs = [job(Stored(pair.target, pair.x), Stored(pair.golden, pair.y))]
    (found,) = measure_all(jobs, 1, lambda _: None, with_kl=True, for_graphs=True)
    if not isinstance(found, Failure):  # otherwise the reference measures the pair
        yield "native", *found


def is_right(metric: str, found: object, exact: Value) -> bool:
    """Return whether a value equals the exact one to 1e-9, or in the digits that are printed."""
    if not isinstance(found, int | float) or exact is None:
        return found is exact
    if not isinstance(exact, Decimal) or isnan(found):
        return found == exact or (isnan(found) and isnan(exact))
    nearest = float(exact)
    if not (isfinite(nearest) and isfinite(found)):
        # A quotient beyond the range of floats may be the largest float.
        return abs(found) >= float_info.max and not isfinite(nearest) and (found > 0) == (exact > 0)
    if metric == "further kl":
        # A column that is defined in single precision; its terms cancel.
        return abs(found - nearest) <= 1e-9 * max(1, abs(nearest))
    # Below the smallest normal number there are fewer than nine digits.
    is_close = abs(Decimal(found) - exact) <= max(abs(exact), Decimal(float_info.min)) * RELATIVE_TOLERANCE
    return is_close or _printed(metric, found) == _printed(metric, nearest)


def _printed(metric: str, value: float) -> str:
    if metric.endswith(("_mean", "_std")):
        return f"{value if abs(value) >= 0.001 else 0.0:.3f}"
    if metric == "further cosine":
        return f"{value:.10f}"
    # Graph mode prints all digits.
    return repr(value) if metric.startswith(("graph", "further")) else format_number(value)


def find_differences(count: int, seed: int = 0) -> tuple[Counter[tuple[str, str]], list[Difference]]:
    """Return the number of compared values by kernel and metric, and the differences."""
    compared, differences = Counter[tuple[str, str]](), list[Difference]()
    for pair in iter_pairs(count, seed):
        for kernel, metric, found, exact in iter_values(pair):
            compared[kernel, metric] += 1
            if not is_right(metric, found, exact):
                differences.append(Difference(kernel, metric, found, exact, pair))
    return compared, differences


def _described(difference: Difference) -> str:
    kernel, metric, found, exact, pair = difference
    types = f"{pair.x.name} and {pair.y.name}, {pair.target.size} elements, {pair.made_by}"
    return f"{kernel} {metric}: {found!r}, exact {exact if exact is None else float(exact)!r}; {types}"


def main() -> int:
    """Compare, print the counts by metric and some differences; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=3, help="differences to print of each metric")
    options = parser.parse_args()
    compared, differences = find_differences(options.pairs, options.seed)
    different = Counter((difference.kernel, difference.metric) for difference in differences)
    lines = [
        f"{kernel:7} {metric:32} {count:7} compared {different[kernel, metric]:6} different"
        for (kernel, metric), count in sorted(compared.items())
    ]
    for name in different:
        lines += list(map(_described, [each for each in differences if each[:2] == name][: options.show]))
    lines.append(f"{compared.total()} values of {options.pairs} pairs, {len(differences)} different")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
