"""Calls of the native kernel and of the NumPy reference on the same arrays, and comparison of their results."""

from __future__ import annotations

from math import inf, isfinite, isnan, prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.codes import contiguous, encode
from opdiff.core.dtypes import DType, Kind
from opdiff.core.metrics import Metrics
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import Failure, measure_all
from opdiff.measure.metrics import metrics_of
from opdiff.measure.reference.blocks import measure
from opdiff.measure.reference.second_pass import measure_kl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.measure.sums import SideSums, Sums

needs_kernel = pytest.mark.skipif(native.find_library() is None, reason="the native kernel is not built")

SUPPORTED_TYPES = [dtype for dtype in dtypes.BY_NAME.values() if native.is_supported(dtype, dtype)]
REAL_TYPES = [dtype for dtype in SUPPORTED_TYPES if dtype.kind is not Kind.COMPLEX]
# One type for each decoder of the kernel.
DECODED_TYPES = [
    dtypes.FLOAT16, dtypes.BFLOAT16, dtypes.FLOAT32, dtypes.FLOAT64, dtypes.FLOAT8_E5M2, dtypes.FLOAT8_E4M3FN,
    dtypes.FLOAT8_E8M0, dtypes.HIFLOAT8, dtypes.BOOL, dtypes.INT8, dtypes.UINT8, dtypes.INT16, dtypes.UINT16,
    dtypes.INT32, dtypes.UINT32, dtypes.INT64, dtypes.UINT64,
]  # fmt: skip

# Squares of float64 numbers beyond these come too close to the limits of the range; the kernel leaves them to NumPy.
_MAX_MAGNITUDE, _MIN_MAGNITUDE = 2.0**480, 2.0**-480

Axes = tuple[tuple[int, int, int, int], ...]
KernelResult = tuple["Sums", float | None]


class Stored(NamedTuple):
    """Codes in memory, and the axes by which elements are found."""

    codes: AnyArray
    dtype: DType
    axes: Axes = ()

    def operand(self) -> native.Operand:
        return native.Operand("", 0, self.codes.nbytes, self.dtype, self.axes, self.codes.ctypes.data)


def job(target: Stored, golden: Stored, shape: tuple[int, ...] = ()) -> native.NativeJob:
    """Return a job for the kernel; the arrays must stay alive until it is measured."""
    size = target.codes.size * native.parts_of(target.dtype)
    return native.NativeJob(target.operand(), golden.operand(), shape or (size,))


def run(jobs: Sequence[native.NativeJob], threads: int = 1, *, with_kl: bool = True) -> list[KernelResult | Failure]:
    """Measure all pairs with the kernel."""
    return measure_all(jobs, threads, lambda _: None, with_kl=with_kl)


def by_kernel(target: Stored, golden: Stored, shape: tuple[int, ...] = (), threads: int = 1) -> KernelResult | Failure:
    (result,) = run([job(target, golden, shape)], threads)
    return result


def measured(result: KernelResult | Failure) -> KernelResult:
    assert not isinstance(result, Failure), result
    return result


def by_numpy(target: AnyArray, x: DType, golden: AnyArray, y: DType) -> KernelResult:
    sums = measure(target, x, golden, y)
    return sums, measure_kl(target, x, golden, y, sums=sums)


def assert_kernels_agree(target: AnyArray, x: DType, golden: AnyArray, y: DType, threads: int = 1) -> None:
    """Check that both results are equal, or that the native kernel leaves the pair to the reference."""
    expected = by_numpy(target, x, golden, y)
    found = by_kernel(Stored(target, x), Stored(golden, y), threads=threads)
    if isinstance(found, Failure):
        assert not found.reason
        assert is_left_to_reference(expected[0], x, y)
    else:
        assert_results_equal(found, expected)


def is_left_to_reference(sums: Sums, x: DType, y: DType) -> bool:
    """Return whether the kernel cannot measure a pair: beyond its range, or its sums would have too few digits."""
    pairs = sums.pairs
    sides = (sums.target, x), (sums.golden, y)
    norms = sqrt(pairs.target_squares) * sqrt(pairs.golden_squares)
    return abs(pairs.products) <= norms * 2.0**-21 or any(
        is_beyond_range(side, dtype)
        or (dtype.decoded in {"int64", "uint64"} and side.largest >= 1 << 53)
        or abs(side.total) <= sqrt(side.finite) * sqrt(side.squares) * 2.0**-21
        for side, dtype in sides
    )


def is_beyond_range(side: SideSums, dtype: DType) -> bool:
    return dtype.decoded in {"float64", "complex128"} and not (
        side.largest == 0 or _MIN_MAGNITUDE <= side.largest <= _MAX_MAGNITUDE
    )


def assert_results_equal(found: KernelResult, expected: KernelResult) -> None:
    """Check that counts and extremes are equal, and sums and metrics equal within the documented tolerance."""
    exact = exact_part(found[0]), exact_part(expected[0])
    for name in exact[1]:
        assert exact[0][name] == exact[1][name], (name, exact[0][name], exact[1][name])
    for part in ("target", "golden"):
        side, other = getattr(found[0], part), getattr(expected[0], part)
        assert_sums_agree(f"{part} total", side.total, other.total, sqrt(other.finite * other.squares))
        assert_sums_agree(f"{part} squares", side.squares, other.squares, other.squares)
        assert_sums_agree(f"{part} deviations", side.squared_deviations, other.squared_deviations, other.squares)
    assert_pairs(found[0], expected[0])
    assert_close_metrics(metrics_of(*found), metrics_of(*expected), expected[0])


def exact_part(sums: Sums) -> dict[str, Any]:
    """Return the fields that are not subject to rounding."""
    part: dict[str, Any] = {
        name: getattr(sums, name)
        for name in ("count", "unequal", "distribution", "non_finite", "worst", "worst_relative", "worst_ulps", "parts")
    }
    for name in ("target", "golden"):
        side = getattr(sums, name)
        part[name] = replace(side, total=0.0, squares=0.0, squared_deviations=0.0)
        part[f"types of {name}"] = type(side.minimum), type(side.maximum)
    return part


def assert_pairs(found: Sums, expected: Sums) -> None:
    pairs = expected.pairs
    x, y, count = pairs.target_squares, pairs.golden_squares, pairs.count
    magnitudes = {
        "count": 0.0,
        "target": sqrt(count * x),
        "golden": sqrt(count * y),
        "target_squares": x,
        "golden_squares": y,
        "products": sqrt(x * y),
        "target_deviations": x,
        "golden_deviations": y,
        "product_deviations": sqrt(x * y),
        "errors": pairs.absolute_errors,
        "absolute_errors": pairs.absolute_errors,
        "squared_errors": pairs.squared_errors,
        "relative": pairs.relative,
    }
    for name, magnitude in magnitudes.items():
        tolerance = 1e-6 if name in {"absolute_errors", "relative"} else 1e-12
        assert_sums_agree(name, getattr(found.pairs, name), getattr(pairs, name), magnitude, tolerance)


def assert_sums_agree(name: str, found: float, expected: float, magnitude: float, tolerance: float = 1e-12) -> None:
    """Check that two sums agree; `magnitude` is about the sum of the magnitudes of the summands."""
    assert found == expected or abs(found - expected) <= magnitude * tolerance, (name, found, expected, magnitude)


def assert_close_metrics(found: Metrics, expected: Metrics, sums: Sums) -> None:
    for name in Metrics.__struct_fields__:
        a, b = getattr(found, name), getattr(expected, name)
        if not isinstance(b, float):
            assert a == b, name
            continue
        # A sum in which much larger numbers cancel has few significant digits.
        side = {"target_mean": sums.target, "golden_mean": sums.golden, "fit_offset": sums.target}.get(name)
        tolerance = sqrt(side.squares) * 2.0**-46 if side else 0.0
        if name == "fit_scale":
            pairs = sums.pairs
            tolerance = sqrt(pairs.target_squares) * sqrt(pairs.golden_squares) / pairs.golden_deviations * 2.0**-46
        if name == "fit_distance":
            tolerance = abs(expected.fit_scale or 0) * 2.0**-22
        assert distance(a, b) <= 2e-6 + tolerance, (name, a, b)


def distance(found: float | None, expected: float | None) -> float:
    """Return the distance of two numbers: absolute below 1, relative above."""
    if found is None or expected is None:
        return 0.0 if found is expected else inf
    if isnan(found) or isnan(expected):
        return 0.0 if isnan(found) and isnan(expected) else inf
    if found == expected:
        return 0.0
    if not (isfinite(found) and isfinite(expected)):
        return inf
    return abs(found - expected) / max(1.0, abs(expected))


# Data


def offsets_of(axes: Axes) -> AnyArray:
    """Return the offsets of the elements in order."""
    offsets = np.zeros((), np.int64)
    for extent, split, outer, inner in axes:
        index = np.arange(extent)
        offsets = offsets[..., np.newaxis] + (index // split * outer + index % split * inner)
    return offsets.reshape(-1)


def any_codes(rng: np.random.Generator, dtype: DType, *shape: int) -> AnyArray:
    """Return random codes of any bits."""
    nbytes = prod(shape) * dtype.bits // 8
    return np.frombuffer(rng.bytes(nbytes), dtype.storage).reshape(shape)


def to_codes(values: AnyArray, dtype: DType) -> AnyArray:
    """Return the nearest codes of a real type; integers are clipped to its range."""
    if dtype.kind is Kind.BOOL:
        return (values > 0).astype(dtype.storage)
    if dtype.kind is Kind.INTEGER:
        limits = np.iinfo(dtype.decoded)
        rounded = np.nan_to_num(np.rint(values), posinf=limits.max, neginf=limits.min)
        clipped: AnyArray = np.clip(rounded, max(limits.min, -(2.0**62)), min(limits.max, 2.0**62))
        return clipped.astype(dtype.storage)
    with np.errstate(over="ignore", under="ignore"):
        return contiguous(encode(values, dtype))


def _normal(rng: np.random.Generator, n: int) -> AnyArray:
    return 30 * rng.standard_normal(n)


def _huge_range(rng: np.random.Generator, n: int) -> AnyArray:
    return np.asarray(rng.standard_normal(n) * 10.0 ** rng.uniform(-26, 26, n))


def _subnormal(rng: np.random.Generator, n: int) -> AnyArray:
    return np.asarray(rng.standard_normal(n) * rng.choice([1e-7, 1e-25, 2.0**-130, 2.0**-140], n))


def _zeros(rng: np.random.Generator, n: int) -> AnyArray:
    return np.where(rng.random(n) < 0.95, 0.0, rng.standard_normal(n))


def _far_from_zero(rng: np.random.Generator, n: int) -> AnyArray:
    return 1000 + rng.standard_normal(n)


def _constant(rng: np.random.Generator, n: int) -> AnyArray:
    return np.full(n, float(rng.integers(1, 5)))


def _non_finite(rng: np.random.Generator, n: int) -> AnyArray:
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e-20], n)
    return np.where(rng.random(n) < 0.1, special, rng.standard_normal(n))


DATA = {
    function.__name__.removeprefix("_"): function
    for function in (_normal, _huge_range, _subnormal, _zeros, _far_from_zero, _constant, _non_finite)
}


def pair_of(name: str, rng: np.random.Generator, n: int, x: DType, y: DType) -> tuple[AnyArray, AnyArray]:
    """Return the codes of two tensors that are similar apart from a few elements."""
    if name == "any_bits":
        return any_codes(rng, x, n), any_codes(rng, y, n)
    golden = DATA[name](rng, n)
    if dtypes.FLOAT8_E8M0 in (x, y):
        golden = np.abs(golden) + 2.0**-100
    noise = np.where(rng.random(n) < 0.3, 0, 1e-3 * rng.standard_normal(n))
    target = golden * (1 + noise)
    if name == "non_finite":
        target = np.where(rng.random(n) < 0.05, rng.choice([np.nan, np.inf, -np.inf, 3.0], n), target)
    if x is dtypes.FLOAT8_E8M0:
        target = np.abs(target)
    return to_codes(target, x), to_codes(golden, y)
