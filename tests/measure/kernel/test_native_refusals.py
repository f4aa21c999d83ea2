"""Invalid files and descriptions: the native kernel returns a reason and never crashes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import numpy as np
import pytest

from measure.kernels import Axes, Stored, job, measured, needs_kernel, run
from opdiff.core import dtypes
from opdiff.measure.kernel import library as native
from opdiff.measure.kernel import results as native_results
from opdiff.measure.kernel.results import DONE, Failure

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.measure.kernel.library import NativeJob, Operand

pytestmark = needs_kernel

FLOAT32 = dtypes.FLOAT32
# Files of this size and above are mapped.
LARGE = 5 << 20
SIZES = pytest.mark.parametrize("size", [100, LARGE], ids=["read", "mapped"])
SIDES = pytest.mark.parametrize("side", ["target", "golden"])


def file(folder: Path, name: str, size: int) -> Operand:
    path = folder / name
    path.write_bytes(bytes(4 * size))
    return native.Operand(str(path), 0, 4 * size, FLOAT32)


def both(folder: Path, side: str, bad: Operand, size: int) -> NativeJob:
    """Return a job with one bad and one good side."""
    good = file(folder, "good", size)
    return native.NativeJob(*((bad, good) if side == "target" else (good, bad)), (size,))


def reason(job_: NativeJob, threads: int = 2) -> str:
    """Return why a job is not measured; check that other jobs of the batch are."""
    array = Stored(np.arange(2000, dtype="<f4"), FLOAT32)
    first, bad, last = run([job(array, array), job_, job(array, array)], threads)
    assert measured(first)[0].unequal == measured(last)[0].unequal == 0
    assert isinstance(bad, Failure)
    return str(bad.reason or "")


# Files


@SIZES
@SIDES
@pytest.mark.parametrize("missing", [1, 300])
def test_a_file_that_is_too_short(tmp_path: Path, side: str, size: int, missing: int) -> None:
    bad = file(tmp_path, "bad", size)
    os.truncate(bad.path, 4 * size - missing)
    message = reason(both(tmp_path, side, bad, size))
    assert message == f"{bad.path}: {4 * size} bytes are expected here, but the file ends at {4 * size - missing}"


@SIZES
@SIDES
@pytest.mark.parametrize(
    ("name", "offset", "problem"),
    [
        pytest.param(
            "bad", 1 << 40, "{0} bytes are expected here, but the file ends at {0}", id="offset beyond the end"
        ),
        pytest.param("nowhere", 0, "cannot be opened: No such file or directory", id="missing"),
        pytest.param("bad/more", 0, "cannot be opened: Not a directory", id="below a file"),
        pytest.param("", 0, "cannot be read: Is a directory", id="directory"),
    ],
)
def test_another_path(tmp_path: Path, side: str, size: int, name: str, offset: int, problem: str) -> None:
    file(tmp_path, "bad", size)
    bad = native.Operand(os.path.join(tmp_path, name), offset, 4 * size, FLOAT32)
    assert reason(both(tmp_path, side, bad, size)) == f"{bad.path}: {problem.format(4 * size)}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@SIZES
@SIDES
def test_an_unreadable_file(tmp_path: Path, side: str, size: int) -> None:
    bad = file(tmp_path, "bad", size)
    os.chmod(bad.path, 0)
    assert reason(both(tmp_path, side, bad, size)) == f"{bad.path}: cannot be opened: Permission denied"


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="there is no file here that is open but unreadable")
def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    bad = native.Operand("/proc/self/mem", 0, 400, FLOAT32)
    assert reason(both(tmp_path, "golden", bad, 100)) == "/proc/self/mem: cannot be read: Input/output error"


def test_file_names_that_are_not_utf8(tmp_path: Path) -> None:
    bad = native.Operand(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"), 0, 400, FLOAT32)
    assert reason(both(tmp_path, "target", bad, 100)) == f"{bad.path}: cannot be opened: No such file or directory"


# Files that change; tested in other processes, which a defect would kill.

SHRINKING = """
    import os, sys, threading
    import numpy as np
    from opdiff.core import dtypes
    from opdiff.measure.kernel import library as native
    from opdiff.measure.kernel.results import Failure, measure_all

    folder, victim = sys.argv[1:]
    size = 6 << 20
    sides = [native.Operand(f"{folder}/{name}", 0, 4 * size, dtypes.FLOAT32) for name in ("target", "golden")]
    path = f"{folder}/{victim}"
    shrunk = f"{path}: the file was truncated while it was read"
    numbers = short = 0

    def write(name):
        with open(name, "wb") as file:
            file.write(bytes(4 * size))

    for side in sides:
        write(side.path)
    for number in range(40):
        # Sooner and later: before it is opened, while it is measured, and in the second pass.
        timer = threading.Timer(number * 0.0004, os.truncate, (path, 4 * size * (number % 4) // 4))
        timer.start()
        result, = measure_all([native.NativeJob(*sides, (size,))], 2, lambda _: None, with_kl=number % 2 == 0)
        timer.join()
        if isinstance(result, Failure):
            message = str(result.reason)
            assert message == shrunk or message.startswith(f"{path}: {4 * size} bytes are expected"), result
            short += message == shrunk
        else:
            assert result[0].count == size, result
            numbers += 1
        os.truncate(path, 4 * size)
    print(numbers, short)
"""


@SIDES
def test_a_file_that_shrinks_while_it_is_measured(tmp_path: Path, side: str) -> None:
    done = outside(SHRINKING, str(tmp_path), side)
    assert done.returncode == 0, done.stderr


SHRUNK = """
    import os, sys
    from opdiff.core import dtypes
    from opdiff.measure.kernel import library as native
    from opdiff.measure.kernel.results import Failure, measure_all

    folder, victim = sys.argv[1:]
    size = 1 << 30
    sides = [native.Operand(f"{folder}/{name}", 0, size, dtypes.INT8) for name in ("target", "golden")]
    for side in sides:
        with open(side.path, "wb") as file:
            file.truncate(size)
    # At the first progress report most of the file is not measured yet.
    shrink = lambda done: os.truncate(f"{folder}/{victim}", 0)
    result, = measure_all([native.NativeJob(*sides, (size,))], 2, shrink, with_kl=True)
    print(result.reason, end="")
"""


@SIDES
def test_message_about_a_file_that_shrank(tmp_path: Path, side: str) -> None:
    done = outside(SHRUNK, str(tmp_path), side)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/{side}: the file was truncated while it was read"


def outside(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


# Inconsistent descriptions


TARGET, GOLDEN = 0, 8
PATH, DATA, OFFSET, NBYTES, KIND, TABLE, AXES, RANK = range(8)
COUNT, RUN, DIGITS, MIN_EXPONENT, FLAGS = range(16, 21)


def status(changes: dict[int, int], axes: Axes = (), *, size: int = 3000, axes_count: int | None = None) -> int:
    """Return the status of a job of two equal arrays after changes to its packed numbers."""
    library = native.find_library()
    assert library is not None
    array = Stored(np.arange(size, dtype="<f4"), FLOAT32, axes)
    packed = native.pack([job(array, array)], 1)
    for index, value in changes.items():
        packed.jobs[index] = value
    results = (ctypes.c_int64 * (native.ROW // 8))()
    batch = packed.batch(ctypes.addressof(results), 2)
    batch.axes_count = batch.axes_count if axes_count is None else axes_count
    assert library.od_measure(ctypes.byref(batch)) == 0
    return results[0]


def test_unchanged_job_is_valid() -> None:
    assert status({}) == status({}, ((3000, 1, 1, 0),)) == DONE
    assert status({}, size=LARGE) == DONE


MOST = 2**63 - 1
BAD_NUMBERS: dict[str, dict[int, int]] = {
    "more elements than bytes": {COUNT: 3001},
    "a negative count": {COUNT: -1},
    "an absurd count": {COUNT: MOST},
    "a negative size": {NBYTES: -4},
    "an absurd size": {NBYTES: MOST, OFFSET: 1},
    "two absurd sizes": {NBYTES: MOST, GOLDEN + NBYTES: MOST, OFFSET: 1},
    "a negative offset": {GOLDEN + OFFSET: -1},
    "no data": {DATA: 0},
    "a path offset beyond all paths": {PATH: 0},
    "an absurd path": {GOLDEN + PATH: MOST},
    "a kind that is not there": {KIND: 14},
    "a negative kind": {GOLDEN + KIND: -1},
    "an absurd kind": {KIND: (1 << 32) + 2},
    "a table that is not there": {GOLDEN + KIND: 4},
    "a wider kind than there are bytes": {KIND: 3},
    "axes that are not there": {RANK: 1},
    "a negative rank": {RANK: -1},
    "an absurd rank": {RANK: MOST},
    "negative axes": {AXES: -1},
    "axes beyond all axes": {GOLDEN + AXES: 1},
    "absurd axes": {AXES: MOST, RANK: 1},
    "too many digits": {DIGITS: 53},
    "a large exponent": {MIN_EXPONENT: 1024},
    "a small exponent": {MIN_EXPONENT: -1023},
}


@pytest.mark.parametrize("size", [3000, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("changes", BAD_NUMBERS.values(), ids=BAD_NUMBERS)
def test_inconsistent_numbers(changes: dict[int, int], size: int) -> None:
    changes = {index: LARGE + 1 if value == 3001 and size == LARGE else value for index, value in changes.items()}
    assert status(changes, size=size) == native_results._BAD_JOB


FINE_NUMBERS: dict[str, dict[int, int]] = {
    "no run": {RUN: 0},
    "a negative run": {RUN: -(2**63)},
    "a run that does not divide": {RUN: 7},
    "an absurd run": {RUN: MOST},
    "fewer elements": {COUNT: 1},
    "no elements": {COUNT: 0},
    "no elements and no data": {COUNT: 0, NBYTES: 0, DATA: 0},
    "unknown flags": {FLAGS: -1},
    "no digits": {DIGITS: -(2**31)},
    "the largest exponent": {MIN_EXPONENT: 1023},
    "the smallest exponent": {MIN_EXPONENT: -1022, DIGITS: 52},
}


@pytest.mark.parametrize("size", [3000, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("changes", FINE_NUMBERS.values(), ids=FINE_NUMBERS)
def test_unusual_numbers(changes: dict[int, int], size: int) -> None:
    assert status(changes, size=size) == DONE


BAD_AXES: dict[str, Axes] = {
    "too few elements": ((2999, 1, 1, 0),),
    "too many elements": ((3001, 1, 1, 0),),
    "elements beyond the end": ((3000, 1, 2, 0),),
    "one element beyond the end": ((2, 1, 1501, 0), (1500, 1, 1, 0)),
    "a tile beyond the end": ((3000, 1000, 1001, 1),),
    "a tile other than the last one beyond the end": ((3000, 1600, 1, 2),),
    "a negative extent": ((-3000, 1, 1, 0),),
    "two negative extents": ((-3, 1, 1000, 0), (-1000, 1, 1, 0)),
    "an extent of zero": ((0, 1, 1, 0), (3000, 1, 1, 0)),
    "a negative stride": ((3000, 1, -1, 0),),
    "a negative inner stride": ((3000, 10, 10, -1),),
    "a split of zero": ((3000, 0, 1, 0),),
    "a negative split": ((3000, -1, 1, 0),),
    "an absurd stride": ((3000, 1, MOST, 0),),
    "an absurd inner stride": ((3000, 10, 10, MOST),),
    "an absurd extent": ((MOST, 1, 0, 0),),
    "a product that overflows to the count": ((1 << 32, 1, 0, 0), (1 << 32, 1, 0, 0), (3000, 1, 1, 0)),
    "strides that overflow together": ((3000, 1, 0, 0), *[(1, 1, 1 << 45, 0)] * 10, (2, 1, 1 << 45, 0)),
    "too many axes": ((3000, 1, 1, 0), *[(1, 1, 1, 0)] * 64),
}


@pytest.mark.parametrize("axes", BAD_AXES.values(), ids=BAD_AXES)
def test_axes_outside_of_the_data(axes: Axes) -> None:
    assert status({COUNT: 3000}, axes) == native_results._BAD_JOB


FINE_AXES: dict[str, Axes] = {
    "one element again and again": ((3000, 1, 0, 0),),
    "the last element": ((2, 1, 1499, 0), (1500, 1, 1, 0), (1, 7, 1 << 40, 1 << 40)),
    "a tile of all": ((3000, 1 << 40, 0, 1),),
    "ones": ((3000, 1, 1, 0), *[(1, 1, 1 << 46, 0)] * 63),
}


@pytest.mark.parametrize("axes", FINE_AXES.values(), ids=FINE_AXES)
def test_unusual_axes(axes: Axes) -> None:
    assert status({COUNT: 3000}, axes) == DONE


def test_axes_beyond_those_of_the_batch() -> None:
    assert status({}, ((3000, 1, 1, 0),), axes_count=0) == native_results._BAD_JOB


@pytest.mark.parametrize(("count", "threads"), [(-1, 1), (0, 0), (0, -5)])
def test_invalid_batch(count: int, threads: int) -> None:
    library = native.find_library()
    assert library is not None
    assert library.od_measure(None) == -1
    assert library.od_measure(ctypes.byref(native.Batch(None, None, None, None, count, 0, 0, threads))) == -1


def test_a_batch_without_jobs() -> None:
    assert run([]) == []


def test_more_threads_than_there_can_be() -> None:
    array = Stored(np.arange(9, dtype="<f4"), FLOAT32)
    (result,) = run([job(array, array)], threads=1 << 62)
    assert measured(result)[0].count == 9
