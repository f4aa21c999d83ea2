"""Speed of the measuring kernel without files, relative to reading the same memory.

A feature map of 33.5 million elements, float16 against float32, 201 MB in all.
"""

from __future__ import annotations

import ctypes
import time
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from opdiff.align import LAYOUTS
from opdiff.core import dtypes
from opdiff.core.strides import StridedView
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel.results import Failure, measure_all
from opdiff.sample.storage import store

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.rounds import Progress
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

    Axes = tuple[tuple[int, int, int, int], ...]

_SHAPE = (8, 256, 128, 128)
_MATRIX = (4096, 8192)
_THREADS = (1, 2)


class Data(NamedTuple):
    """Arrays that jobs refer to by address."""

    golden: AnyArray
    target: AnyArray
    tiled: AnyArray
    fractal: AnyArray

    @classmethod
    def made(cls, shape: Shape, matrix: Shape) -> Data:
        """Return the same numbers in three layouts; a quarter of them are ReLU outputs."""
        source = np.random.default_rng(1)
        golden = source.standard_normal(shape, dtype=np.float32)
        golden[: len(golden) // 4] = np.maximum(golden[: len(golden) // 4], 0)
        target = (golden * (1 + 1e-3 * source.standard_normal(shape, dtype=np.float32))).astype(np.float16)
        fractal = store(target.reshape(matrix), "FRACTAL_NZ")
        return cls(golden, target, np.ascontiguousarray(store(target, "NC1HWC0")), np.ascontiguousarray(fractal))


class Rate(NamedTuple):
    """Gigabytes per second, and the share of the reading speed with as many threads."""

    gb_s: float
    share: float


def measure(rounds: int, progress: Progress, *, smoke: bool = False) -> dict[str, Rate]:
    """Return the rates by name, as `read x1`; empty if there is no kernel."""
    library = native.find_library()
    if library is None:
        return {}
    progress.step("the kernel alone: making its data")
    shape, matrix = ((1, 32, 8, 8), (32, 64)) if smoke else (_SHAPE, _MATRIX)
    data = Data.made(shape, matrix)
    actions = _actions(library, data, matrix)
    nbytes = data.target.nbytes + data.golden.nbytes
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(rounds + 1):
        progress.step(f"the kernel alone: round {turn} of {rounds}")
        for name, action in actions.items():
            started = time.perf_counter()
            action()
            if turn:  # the first round only warms up
                times[name].append(time.perf_counter() - started)
    rates = {name: nbytes / 1e9 / median(taken) for name, taken in times.items()}
    return {name: Rate(rate, rate / rates[f"read {name.rpartition(' ')[2]}"]) for name, rate in rates.items()}


def _actions(library: ctypes.CDLL, data: Data, matrix: Shape) -> dict[str, Callable[[], object]]:
    shape, golden = data.golden.shape, _operand(data.golden)
    tiled = _operand(data.tiled, _axes(data.tiled, "NC1HWC0", shape))
    fractal = _operand(data.fractal, _axes(data.fractal, "FRACTAL_NZ", matrix))
    jobs = {
        "contiguous": native.NativeJob(_operand(data.target), golden, shape),
        "NC1HWC0": native.NativeJob(tiled, golden, shape),
        "FRACTAL_NZ": native.NativeJob(fractal, golden, matrix),
    }
    actions: dict[str, Callable[[], object]] = {}
    for n in _THREADS:
        actions[f"read x{n}"] = _reader(library, (data.target, data.golden), n)
        for name, job in jobs.items():
            actions[f"{name} x{n}"] = _measurer(job, n, with_kl=False)
            actions[f"{name} with KL x{n}"] = _measurer(job, n, with_kl=True)
    return actions


def _axes(stored: AnyArray, layout: str, shape: Shape) -> Axes:
    """Return the kernel axes of a stored array."""
    known = LAYOUTS.find(layout)
    view = known.unpack(cast("AnyArray", StridedView(stored.shape)), shape, 1) if known else None
    return tuple(cast("StridedView", view).split_axes())


def _operand(array: AnyArray, axes: Axes = ()) -> native.Operand:
    dtype = dtypes.FLOAT16 if array.itemsize == 2 else dtypes.FLOAT32
    return native.Operand("", 0, array.nbytes, dtype, axes, array.ctypes.data)


def _measurer(job: native.NativeJob, threads: int, *, with_kl: bool) -> Callable[[], object]:
    def action() -> None:
        (result,) = measure_all([job], threads, lambda _: None, with_kl=with_kl)
        if isinstance(result, Failure):
            raise SystemExit(f"the kernel failed: {result.reason}")

    return action


def _reader(library: ctypes.CDLL, arrays: tuple[AnyArray, ...], threads: int) -> Callable[[], object]:
    def part(number: int) -> None:
        for array in arrays:
            nbytes = array.nbytes // threads
            library.od_read(ctypes.c_void_p(array.ctypes.data + number * nbytes), ctypes.c_int64(nbytes))

    def action() -> None:
        others = [Thread(target=part, args=(number,)) for number in range(1, threads)]
        for other in others:
            other.start()
        part(0)
        for other in others:
            other.join()

    return action
