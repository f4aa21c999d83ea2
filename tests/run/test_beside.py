"""Work that another core does: done once, done again when that fails, ended when nobody waits."""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from opdiff.core.atomic_file import open_atomic
from opdiff.run import beside as beside_module
from opdiff.run.beside import Beside

if TYPE_CHECKING:
    from pathlib import Path


def test_the_work_is_done_by_another_process(tmp_path: Path) -> None:
    result = tmp_path / "result"
    with Beside(lambda: result.write_text(str(os.getpid()))) as beside:
        beside.result()
    assert int(result.read_text()) != os.getpid()


def test_its_result_comes_back() -> None:
    with Beside(lambda: (os.getpid(), "x" * 1_000_000)) as beside:
        worker, text = beside.result()
    assert worker != os.getpid()
    assert text == "x" * 1_000_000


def test_small_work_is_done_here(tmp_path: Path) -> None:
    result = tmp_path / "result"
    with Beside(lambda: result.write_text(str(os.getpid())), worth_it=False) as beside:
        assert not result.exists()
        beside.result()
    assert int(result.read_text()) == os.getpid()


def test_it_tells_whether_it_is_done(tmp_path: Path) -> None:
    go = tmp_path / "go"

    def work() -> int:
        while not go.exists():
            time.sleep(0.001)
        return 7

    with Beside(work) as beside:
        assert not beside.is_done()
        go.touch()
        while not beside.is_done():
            time.sleep(0.001)
        assert beside.result() == 7
    with Beside(work, worth_it=False) as beside:
        assert beside.is_done()


def test_what_fails_there_is_tried_here(tmp_path: Path) -> None:
    here = os.getpid()

    def work() -> None:
        if os.getpid() != here:
            os._exit(9)
        (tmp_path / "done").touch()

    with Beside(work) as beside:
        beside.result()
    assert (tmp_path / "done").exists()


def test_an_error_shows_as_it_would_without_another_process() -> None:
    with Beside(lambda: 1 // 0) as beside, pytest.raises(ZeroDivisionError):
        beside.result()


def test_nobody_works_on_after_an_interrupt(tmp_path: Path) -> None:
    late = tmp_path / "late"

    def work() -> None:
        time.sleep(0.5)
        late.touch()

    beside = Beside(work)
    child, open_files = beside._child, len(os.listdir("/proc/self/fd"))
    with pytest.raises(KeyboardInterrupt), beside:
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert not late.exists()
    assert len(os.listdir("/proc/self/fd")) == open_files - 1


def test_an_interrupt_while_it_is_waited_for_stays_one() -> None:
    here = os.getpid()

    def work() -> None:
        time.sleep(0.2)
        os.kill(here, signal.SIGINT)
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt), Beside(work) as beside:
        beside.result()


def test_what_it_has_begun_is_taken_away(tmp_path: Path) -> None:
    def work() -> None:
        with open_atomic(str(tmp_path / "file")):
            time.sleep(5)

    beside = Beside(work)
    while not list(tmp_path.iterdir()):
        time.sleep(0.001)
    with pytest.raises(KeyboardInterrupt), beside:
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [0, 1_000_000], ids=["at work", "handing over"])
def test_nobody_works_on_where_interrupts_are_ignored(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_module, "_PATIENCE", 0.05)

    def work() -> bytes:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not size:
            time.sleep(60)
        return bytes(size)

    beside = Beside(work)
    child = beside._child
    while size and not beside.is_done():
        time.sleep(0.001)
    with pytest.raises(KeyboardInterrupt), beside:
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_without_a_pipe_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pipe() -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pipe", no_pipe)
    with Beside(os.getpid) as beside:
        assert beside.result() == os.getpid()


def test_an_error_at_the_start_leaves_interrupts_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_fork() -> int:
        raise MemoryError

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    monkeypatch.setattr(os, "fork", no_fork)
    try:
        with pytest.raises(MemoryError):
            Beside(os.getpid)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_children_may_be_ignored() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Beside(lambda: 7) as beside:
            assert beside.result() == 7
        beside = Beside(lambda: 7)
        while not beside.is_done():
            time.sleep(0.001)
        time.sleep(0.05)
        with pytest.raises(KeyboardInterrupt), beside:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGCHLD, before)
