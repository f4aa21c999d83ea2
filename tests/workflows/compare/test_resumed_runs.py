"""Interrupted comparisons that are continued: finished chunks are not measured again, and results are the same."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from command_line import COMMAND, run
from made_dumps import Case, numbers, tables
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.workflows.compare import finished_chunks, graph_tokens, measuring
from opdiff.workflows.compare.batch import measure_batch
from waiting import wait_until
from workflows.compare.many_operators import write_many

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opdiff.workflows.compare.job import Job


class Spy:
    """Count the jobs that are measured; interrupt after some calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[int] = []
        self.max_calls = 1 << 30
        monkeypatch.setattr(measuring, "measure_batch", self)

    def __call__(self, jobs: Sequence[Job], threads: int, progress: Any) -> Any:
        if len(self.calls) >= self.max_calls:
            raise KeyboardInterrupt
        self.calls.append(len(jobs))
        return measure_batch(jobs, threads, progress)

    def again(self) -> None:
        self.calls.clear()
        self.max_calls = 1 << 30


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    monkeypatch.setattr(finished_chunks, "_MAX_CHUNK_JOBS", 10)
    return Spy(monkeypatch)


def write_jobs(case: Case) -> Path:
    """Write 35 operators; one golden tensor has other extents, and its row a reason."""
    rules = write_many(case, 35)
    case.npy("op7", numbers(5))
    return rules


def saved_chunks(case: Case) -> list[Path]:
    return sorted((case.out / finished_chunks.FOLDER).glob("*"))


def interrupted(case: Case, spy: Spy, rules: Path, *words: object) -> None:
    """Run until two of the four chunks are finished."""
    spy.again()
    spy.max_calls = 2
    outcome = case.run("-fr", rules, "--resume", *words)
    assert outcome.code == 130, outcome
    assert len(saved_chunks(case)) == 2
    spy.again()


def test_finished_chunks_are_not_measured_again(case: Case, spy: Spy) -> None:
    rules = write_jobs(case)
    plain = case.compared("-fr", rules).path.read_bytes()
    interrupted(case, spy, rules)
    assert case.compared("-fr", rules, "--resume").path.read_bytes() == plain
    assert spy.calls == [10, 5]
    assert not (case.out / finished_chunks.FOLDER).exists()


def test_changed_file_is_measured_again(case: Case, spy: Spy) -> None:
    rules = write_jobs(case)
    interrupted(case, spy, rules)
    path = next(case.golden.glob("op3.*"))
    np.save(path, numbers(4, 6, seed=5))
    os.utime(path, ns=(0, 0))
    resumed = case.compared("-fr", rules, "--resume").path.read_bytes()
    assert spy.calls == [10, 10, 5]
    assert resumed == case.compared("-fr", rules).path.read_bytes()


@pytest.mark.parametrize("damage", [b"", b"nonsense"], ids=["empty", "other bytes"])
def test_damaged_chunk_is_measured_again(case: Case, spy: Spy, damage: bytes) -> None:
    rules = write_jobs(case)
    plain = case.compared("-fr", rules).path.read_bytes()
    interrupted(case, spy, rules)
    saved_chunks(case)[0].write_bytes(damage)
    assert case.compared("-fr", rules, "--resume").path.read_bytes() == plain
    assert spy.calls == [10, 10, 5]


def test_rows_that_failed_for_lack_of_memory_are_measured_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = write_jobs(case)
    plain = case.compared("-fr", rules).path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setenv("OPDIFF_KERNEL", "numpy")
        patch.setattr("opdiff.measure.reference.blocks.measure", raise_memory_error)
        case.compared("-fr", rules, "--resume", code=3)
    assert saved_chunks(case) == []
    assert case.compared("-fr", rules, "--resume").path.read_bytes() == plain


def raise_memory_error(*_arguments: object) -> None:
    raise MemoryError


def test_graph_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str], spy: Spy) -> None:
    sample = write_graph_sample(str(tmp_path), ranks=2)
    words = "compare", sample.target, sample.golden, "-m", "torchair", "-o"
    assert run(capsys, *words, tmp_path / "plain").code == 0
    spy.again()
    spy.max_calls = 2
    assert run(capsys, *words, tmp_path / "out", "--resume").code == 130
    spy.again()
    assert run(capsys, *words, tmp_path / "out", "--resume").code == 0
    assert tables(tmp_path / "out") == tables(tmp_path / "plain")
    total = sum(spy.calls)
    spy.again()
    assert run(capsys, *words, tmp_path / "out", "--resume").code == 0
    assert sum(spy.calls) == total + 20


def test_graph_mode_by_several_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes save the chunks that they measure, and find those of an earlier run."""
    sample = write_graph_sample(str(tmp_path), ranks=2, tokens=3)
    words = "compare", sample.target, sample.golden, "-m", "torchair", "-o"
    assert run(capsys, *words, tmp_path / "plain").code == 0
    monkeypatch.setattr(graph_tokens, "_MIN_PARALLEL_FILES", 0)
    monkeypatch.setattr(graph_tokens, "_MAX_TOKENS_PER_JOB", 2)
    monkeypatch.setattr(graph_tokens, "_JOBS_PER_CORE", 1)
    monkeypatch.setattr(graph_tokens, "usable_cores", lambda: 2)
    monkeypatch.setattr(measuring, "measure_batch", refuse)
    with monkeypatch.context() as patch:
        patch.setattr(finished_chunks, "remove_chunks", lambda _folder: None)
        assert run(capsys, *words, tmp_path / "out", "--resume").code == 0
    before = written_at(tmp_path / "out")
    for path in list(before)[:3]:
        path.unlink()
    kept = dict(list(before.items())[3:])
    with monkeypatch.context() as patch:
        patch.setattr(finished_chunks, "remove_chunks", lambda _folder: None)
        assert run(capsys, *words, tmp_path / "out", "--resume").code == 0
    after = written_at(tmp_path / "out")
    assert after.keys() == before.keys()
    assert {path: after[path] for path in kept} == kept
    assert len(before) == 6
    results = sorted((tmp_path / "out").glob("*.csv"))
    plain = sorted(tables(tmp_path / "plain").values())
    assert sorted(path.read_bytes() for path in results) == sorted(plain * 2)
    assert run(capsys, *words, tmp_path / "out", "--resume").code == 0
    assert not (tmp_path / "out" / finished_chunks.FOLDER).exists()


def refuse(*_arguments: object) -> None:
    """Stand for what only other processes may do."""
    raise AssertionError("measured by the client")


def written_at(out: Path) -> dict[Path, int]:
    """Return the saved chunks with the times when they were written."""
    return {path: path.stat().st_mtime_ns for path in sorted((out / finished_chunks.FOLDER).iterdir())}


def test_killed_run_is_continued(case: Case) -> None:
    """Units have at most 2,000 tensors, so that one is finished long before the run."""
    golden = numbers(2)
    for number in range(4500):
        case.npu(f"op{number}", golden)
    case.golden = case.target
    words = ["compare", case.target, case.golden, "-o", case.out, "--no-html"]
    subprocess.run([*COMMAND, *map(str, words)], check=True, capture_output=True)
    (first,) = case.results()
    process = subprocess.Popen([*COMMAND, *map(str, [*words, "--resume"])], stdout=subprocess.DEVNULL)
    wait_until(lambda: any(path.suffix == ".rows" for path in saved_chunks(case)))
    assert process.poll() is None
    process.kill()
    process.wait()
    assert saved_chunks(case)
    resumed = case.compared("--resume", "--no-html")
    assert resumed.path.read_bytes() == first.read_bytes()


def test_user_defined_code_cannot_be_resumed(case: Case) -> None:
    case.one(numbers(2), numbers(2))
    (case.root / "own").mkdir()
    assert "--resume cannot be combined with -c" in case.refused("--resume", "-c", case.root / "own", code=2)
