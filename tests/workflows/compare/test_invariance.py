"""Results do not depend on the order of files, their times, slices, or the number of workers."""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import run_outside
from dump_files import TIME, tensor
from made_dumps import Case, describe, numbers, perturbed, read_result, rule
from opdiff.core import dtypes
from opdiff.core.pairing import Pairing
from opdiff.measure.kernel import library as native
from opdiff.pair import PairOptions, Rules, pair
from opdiff.read.dump import read_dump
from opdiff.run import run_serial
from opdiff.sample import write_sample
from opdiff.sample.container import EncodedDump, standard_dump
from opdiff.sample.names import DumpName
from opdiff.workflows.compare.batch import Summed, _iter_sums
from opdiff.workflows.compare.job import Job
from sliced_dumps import Cuts, automatic_slices, manual_slices
from workflows.compare.many_operators import write_many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from made_dumps import Result
    from opdiff.run import Work
    from sliced_dumps import SliceFile


def sample(case: Case) -> str:
    """Write the sample network with all faults as both sides of a case; return its rule file."""
    made = write_sample(str(case.root / "sample"))
    case.target = case.root / "sample" / "npu"
    case.golden = case.root / "sample" / "golden"
    return made.rules


def text(result: Result) -> bytes:
    return result.path.read_bytes()


def rewritten(folder: Path, names: Iterable[tuple[str, str]]) -> Path:
    """Replace a folder by one with the same contents under other names, written in this order."""
    new = folder.with_name(f"{folder.name} again")
    new.mkdir()
    for old, name in names:
        (new / name).write_bytes((folder / old).read_bytes())
    return new


@pytest.mark.parametrize("special", [False, True], ids=["plain numbers", "NaN and infinities"])
def test_a_dump_compared_with_itself_is_equal_everywhere(case: Case, special: bool) -> None:
    values = numbers(3, 20, 4, 5)
    if special:
        values[0, 0, 0] = (np.nan, np.inf, -np.inf, 0, -0.0)
    for layout in ("ND", "NCHW", "NHWC", "NC1HWC0", "FRACTAL_NZ"):
        for dtype in (dtypes.FLOAT32, dtypes.FLOAT16, dtypes.BFLOAT16):
            case.npu(f"{layout}_{dtype.name}", tensor(values, dtype, layout), inputs=(tensor(values),))
    case.npu("integers", tensor(np.array([1 << 62, -1]), dtypes.INT64), tensor(np.array([True, False]), dtypes.BOOL))
    case.golden = case.target
    result = case.compared()
    assert len(result.rows) == 2 * 15 + 2
    assert {row["Equal"] for row in result.rows} == {"YES"}
    finite = [row for row in result.rows if row["TargetNaN"] == row["TargetInf"] == "0"]
    assert {float(row["CosineSimilarity"]) for row in finite} == {1}
    assert {float(row["MaxAbsoluteError"]) for row in finite} == {0}
    assert {float(row["FiniteCosine"]) for row in result.rows} == {1}


def test_the_order_of_files_changes_nothing(case: Case) -> None:
    rules = sample(case)
    first = text(case.compared("-fr", rules))
    shuffled = random.Random(5)
    for side in ("target", "golden"):
        folder: Path = getattr(case, side)
        names = sorted(path.name for path in folder.iterdir())
        shuffled.shuffle(names)
        moved = rewritten(folder, ((name, name) for name in names))
        os.rename(folder, folder.with_name(f"{folder.name} old"))
        os.rename(moved, folder)
    assert text(case.compared("-fr", rules)) == first


def later(name: str, by: int) -> str:
    return re.sub(r"[0-9]{16}", lambda found: str(int(found[0]) + by), name)


@pytest.mark.parametrize("with_rules", [True, False], ids=["with rules", "without"])
def test_other_times_change_nothing(case: Case, with_rules: bool) -> None:
    rules = sample(case)
    words = ("-fr", rules) if with_rules else ()
    if not with_rules:
        # Another run: a copy with the same times is warned about.
        case.golden = shutil.copytree(case.target, case.root / "copy")
        for path in list(case.golden.iterdir()):
            path.rename(path.with_name(later(path.name, 1)))
    first = text(case.compared(*words))
    names = [path.name for path in case.target.iterdir()]
    case.target = rewritten(case.target, ((name, later(name, 86_400_000_000)) for name in names))
    assert text(case.compared(*words)) == first


@pytest.mark.parametrize("cut", [automatic_slices, manual_slices], ids=["automatic", "manual"])
@pytest.mark.parametrize("cuts", [(2, 1), (1, 3), (4, 1)], ids=str)
def test_slices_change_no_number(case: Case, cut: Callable[..., tuple[SliceFile, ...]], cuts: tuple[int, int]) -> None:
    golden = numbers(6, 7)
    dump = EncodedDump(inputs=(tensor(golden),), outputs=(tensor(perturbed(golden)),), op_name="a")
    name = DumpName("Op", "a", 4, 3, TIME)
    case.npy("a", golden)
    case.npy("b", golden)
    case.npu("b", golden)
    rules = case.rules(rule("b"), rule("a", inputs=("b:0",), outputs=(describe("a", 0),)))
    whole = case.add(case.target, str(name), standard_dump(dump))
    first = case.compared("-fr", rules)
    whole.unlink()
    for part in cut(name, dump, Cuts((cuts,))):
        case.add(case.target, part.name, part.content)
    second = case.compared("-fr", rules)
    for row in second.rows:
        if row["Conversion"]:
            assert "joined from" in row.pop("Conversion")
            first.row(row["TensorIndex"]).pop("Conversion")
    assert second.rows == first.rows
    assert len(second.rows) == 3


def test_serial_and_parallel_runs_are_equal_byte_for_byte(case: Case) -> None:
    rules = sample(case)
    found = []
    for number, words in enumerate((("-j", "1"), ("-j", "2"), ())):
        out = case.root / f"out{number}"
        outcome = run_outside("compare", case.target, case.golden, "--rules", rules, "-o", out, *words)
        assert outcome.code == 0, outcome
        (path,) = out.glob("result_*.csv")
        found.append(path.read_bytes())
    assert len(read_result(path).rows) > 100
    assert found[0] == found[1] == found[2]


def test_large_tensors_in_threads_give_the_same_bytes(case: Case) -> None:
    rules = write_many(case, 4, numbers(64, 8192))
    texts = [text(case.compared("-fr", rules, "-j", workers)) for workers in (1, 2)]
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == 5


@pytest.mark.parametrize(
    ("words", "workers"),
    [
        pytest.param((), 0, id="all cores"),
        pytest.param(("--memory", "1K"), 1, id="one tensor at a time"),
        pytest.param(("--memory=64G",), 0, id="room for all cores"),
        pytest.param(("--memory=64G", "-j", "2"), 2, id="room for two"),
        pytest.param(("--memory=1K", "-j", "2"), 1, id="no room for two"),
    ],
)
def test_memory_limits_the_workers_and_changes_nothing_else(
    case: Case, words: tuple[str, ...], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(work: Work[Any, Any], jobs: Sequence[Any], count: int) -> Iterator[tuple[Any, Any]]:
        asked.append(count)
        return run_serial(work.function, jobs)

    rules = write_many(case, 3, numbers(50, 8))
    plain = text(case.compared("-fr", rules))
    monkeypatch.setenv("OPDIFF_KERNEL", "numpy")
    monkeypatch.setattr("opdiff.workflows.compare.measuring.run", spy)
    assert text(case.compared("-fr", rules, *words)) == plain
    assert asked == [workers]


@pytest.mark.skipif(native.find_library() is None, reason="no native kernel here")
def test_number_of_pairs_per_call_changes_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = sample(case)
    # A row without numbers must not shift the others.
    broken = min(case.target.glob("Conv2D.*"))
    broken.write_bytes(broken.read_bytes()[:-8])
    plain = text(case.compared("-fr", rules))
    for at_once in (1, 7):
        monkeypatch.setattr("opdiff.workflows.compare.batch._PAIRS_PER_CALL", at_once)
        assert text(case.compared("-fr", rules)) == plain


@pytest.mark.parametrize("kernel", ["native", "numpy"])
def test_data_kept_with_headers_changes_nothing(case: Case, monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    """The limit of what is kept lies between the sizes of these tensors, or below all of them."""
    rules = []
    for layout, height in (("NCHW", 3), ("NC1HWC0", 3), ("NCHW", 300)):
        name = f"{layout}{height}"
        golden = numbers(2, 5, height, 4)
        case.npu(name, tensor(perturbed(golden), dtypes.FLOAT16, layout))
        case.npy(name, np.asfortranarray(golden.astype(">f4")))
        rules.append(rule(name, outputs=(describe(name, 0, layout="NCHW"),)))
    path = case.rules(*rules)
    if kernel == "numpy":
        monkeypatch.setenv("OPDIFF_KERNEL", "numpy")
    plain = case.compared("-fr", path)
    assert {row["CompareFailReason"] for row in plain.rows} == {""}
    monkeypatch.setattr("opdiff.read.reader._MAX_KEPT_NBYTES", -1)
    assert text(case.compared("-fr", path)) == text(plain)


@pytest.mark.skipif(native.find_library() is None, reason="no native kernel here")
@pytest.mark.parametrize("workers", [1, 2])
def test_one_worker_is_one_process_and_one_thread(case: Case, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    helpers = []
    fork, start = os.fork, threading.Thread.start

    def spy_fork() -> int:
        helpers.append("process")
        return fork()

    def spy_start(thread: threading.Thread) -> None:
        helpers.append("thread")
        start(thread)

    rules = sample(case)
    plain = text(case.compared("-fr", rules))
    monkeypatch.setattr(os, "fork", spy_fork)
    monkeypatch.setattr(threading.Thread, "start", spy_start)
    monkeypatch.setattr("opdiff.workflows.compare.batch._PAIRS_PER_CALL", 7)
    assert text(case.compared("-fr", rules, "-j", workers)) == plain
    assert set(helpers) == (set() if workers == 1 else {"thread"})


@pytest.mark.skipif(native.find_library() is None, reason="no native kernel here")
def test_kernel_is_cancelled_when_the_iterator_is_closed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    end = native.Call.end

    def spy(call: native.Call) -> None:
        end(call)
        ended.append(call)

    monkeypatch.setattr(native.Call, "end", spy)
    monkeypatch.setattr("opdiff.workflows.compare.batch._PAIRS_PER_CALL", 1)
    for number in range(5):
        case.npu(f"op{number}", tensor(numbers(8)))
    dump = read_dump(str(case.target))
    pairs = pair(dump, dump, Rules(), PairOptions())
    jobs = [Job(number, each) for number, each in enumerate(pairs) if isinstance(each, Pairing)]
    sums = _iter_sums(jobs, 1, lambda _: None)
    assert isinstance(next(sums), Summed)
    assert not ended
    del sums
    assert len(ended) == 1
