"""`opdiff reduce`: statistics replace data, and no data is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING

import numpy as np
import pytest

from command_line import COMMAND, run
from dump_files import hashed_name, mapping_csv, with_header_field
from graph_dumps import GraphCase, saved
from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.tensor import Slot
from opdiff.read.directory import TAKEN_FOLDER
from opdiff.read.reduced import parse_stats, read_reduced
from opdiff.sample.container import EncodedDump, EncodedTensor, encode_tensor, standard_dump
from opdiff.sample.graph_mode import ge_dump, write_graph_sample
from opdiff.sample.names import DumpName
from opdiff.workflows.reduce import work
from opdiff.workflows.reduce.plan import SettleTracker, find_reducible, is_open_for_writing
from opdiff.workflows.reduce.watch import pause_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Command
    from opdiff.workflows.reduce.plan import ReducibleFile
    from opdiff.workflows.reduce.work import FileStats

VALUES = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
GE = "Add.Add.1.6.1706596911000001"
TEXT = "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt"
LONGER = EncodedTensor(dtypes.INT8, (1024,), "ND", bytes(2048))
FX = "add-aten.add.Tensor.OUTPUT.0.20240130064151000001.npy"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump of graph mode without files."""
    made = tmp_path / "dump"
    made.mkdir()
    (made / TEXT).touch()
    return made


def names_in(folder: Path) -> list[str]:
    """Return the names of all files but the graph text."""
    return sorted(path.name for path in folder.iterdir() if path.name != TEXT)


@pytest.fixture
def folder(dump: Path) -> Path:
    """A GE dump and an FX dump, both finished long ago."""
    made = dump
    (made / GE).write_bytes(ge_dump([VALUES], [VALUES.astype(np.float16), np.arange(3)]))
    (made / FX).write_bytes(saved(VALUES))
    for path in made.iterdir():
        os.utime(path, (1e9, 1e9))
    return made


def found_in(folder: Path) -> list[ReducibleFile]:
    """Return the files that can be reduced."""
    files, offline = find_reducible(str(folder))
    assert not offline
    return files


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(lambda raw: raw + bytes(4), "but the file has", id="bytes that no tensor describes"),
        pytest.param(lambda raw: with_header_field(raw, b"\x50\x07"), "unknown number 10", id="unknown field"),
        pytest.param(lambda _: standard_dump(EncodedDump(outputs=(LONGER,))), "no alignment", id="longer data"),
    ],
)
def test_a_doubtful_file_is_left_alone(
    folder: Path, opdiff: Command, damage: Callable[[bytes], bytes], message: str
) -> None:
    content = damage((folder / GE).read_bytes())
    (folder / GE).write_bytes(content)
    os.utime(folder / GE, (1e9, 1e9))
    outcome = opdiff("reduce", folder)
    assert message in outcome.out + outcome.err
    assert (folder / GE).read_bytes() == content


def test_files_become_statistics(folder: Path, opdiff: Command) -> None:
    before = sum(path.stat().st_size for path in folder.iterdir())
    outcome = opdiff("reduce", folder, "--info", "mean,l2norm,specials,crc32,histogram")
    assert outcome.code == 0
    assert names_in(folder) == [f"{GE}_min_max.npz", FX.replace(".npy", "_min_max.npy")]
    after = sum(path.stat().st_size for path in folder.iterdir())
    assert f"reduced: 2 files, {before / 1024:.1f} KiB to {after / 1024:.1f} KiB" in outcome.out
    stats = read_reduced(str(folder / f"{GE}_min_max.npz"))
    assert (len(stats[Slot.INPUT]), len(stats[Slot.OUTPUT])) == (1, 2)
    found = stats[Slot.INPUT][0]
    assert (found.minimum, found.maximum) == (VALUES.min(), VALUES.max())
    assert found.mean == pytest.approx(VALUES.mean(dtype=np.float64))
    assert found.norm == pytest.approx(np.linalg.norm(VALUES.astype(np.float64)))
    assert (found.nans, found.infs, found.dtype, found.shape) == (0, 0, "float32", (64, 64))
    assert sum(found.histogram) == VALUES.size
    # The documented form of the file.
    with np.load(folder / f"{GE}_min_max.npz") as archive:
        np.testing.assert_array_equal(archive["inputs"], [[VALUES.min(), VALUES.max()]])
        np.testing.assert_array_equal(archive["outputs"][1], [0, 2])
    np.testing.assert_array_equal(np.load(folder / FX.replace(".npy", "_min_max.npy")), [VALUES.min(), VALUES.max()])
    (alone,) = read_reduced(str(folder / FX.replace(".npy", "_min_max.npy")))[Slot.OUTPUT]
    assert alone == found


def test_keep(folder: Path, opdiff: Command) -> None:
    outcome = opdiff("reduce", folder, "--keep")
    assert (outcome.code, len(names_in(folder))) == (0, 4)
    assert "nothing removed" in outcome.out


def test_reduced_dumps_are_compared_with_reduced_and_complete_ones(tmp_path: Path, opdiff: Command) -> None:
    sample = write_graph_sample(str(tmp_path / "a"), ranks=1)
    whole = write_graph_sample(str(tmp_path / "b"), ranks=1)
    assert opdiff("reduce", tmp_path / "a", "--settle", 0).code == 0
    for golden in (sample.golden, whole.golden):
        outcome = opdiff("compare", sample.target, golden, "-o", tmp_path / "o")
        assert outcome.code == 0
        assert "first bad operator: MatMul_1 (MatMul_1.output.0)" in outcome.out
    for mode in ("md5", "statistics"):
        outcome = opdiff("compare", sample.target, whole.target, "-o", tmp_path / "o", "--data_mode", mode)
        assert "no tensor fails" in outcome.out


def test_padding_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = GraphCase(tmp_path, capsys)
    case.text()
    path = case.ge("Add", (), (encode_tensor(np.full((3, 5), 2.0), dtypes.FLOAT16, "FRACTAL_NZ"),))
    assert run(capsys, "reduce", case.target, "--settle", 0).code == 0
    (found,) = read_reduced(f"{path}_min_max.npz")[Slot.OUTPUT]
    assert (found.minimum, found.shape) == (2.0, (3, 5))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (GE, b""),
        (GE, ge_dump([VALUES], [VALUES])[:-1]),
        (FX, saved(VALUES)[:-1]),
        (FX, saved(None)),
        (FX, saved("text")),
        (GE, b"12345678"),
    ],
)
def test_irreducible_files_are_kept(name: str, content: bytes, dump: Path, opdiff: Command) -> None:
    (dump / name).write_bytes(content)
    outcome = opdiff("reduce", dump, "--settle", 0)
    assert outcome.code == 0
    assert "cannot be reduced, kept: 1 file\n" in outcome.out
    assert names_in(dump) == [name]
    assert (dump / name).read_bytes() == content


@pytest.mark.parametrize(
    "name",
    [
        "mapping.csv", "a.swp", f"{GE}.csv", f"{GE}_min_max.npz",
        "Opdebug.Node_OpDebug.1.2.1706596911000001", "conv.0.1706596911000001.npy", f"{GE}.4.0.1.0",
    ],
)  # fmt: skip
def test_other_files_are_not_touched(name: str, dump: Path, opdiff: Command) -> None:
    (dump / name).write_bytes(ge_dump([VALUES], [VALUES]))
    outcome = opdiff("reduce", dump, "--settle", 0)
    assert outcome.out == "reduced: 0 files, 0 B to 0 B, 0 B saved\n"
    assert names_in(dump) == [name]


def test_empty_tensor(dump: Path, opdiff: Command) -> None:
    (dump / FX).write_bytes(saved(np.zeros((0, 4), np.float32)))
    assert opdiff("reduce", dump, "--settle", 0).code == 0
    (path,) = dump.glob("*.npy")
    (found,) = read_reduced(str(path))[Slot.OUTPUT]
    assert (found.minimum, found.shape, found.crc32) == (None, (0, 4), "00000000")
    assert np.isnan(np.load(path)).all()


def test_hashed_name_is_resolved_after_reduction(dump: Path, opdiff: Command) -> None:
    name = str(DumpName("Add", "x" * 300, 1, 6, 1706596911000001))
    hashed = hashed_name(str(dump), name)
    (dump / hashed).write_bytes(ge_dump([VALUES], [VALUES]))
    (dump / "mapping.csv").write_text(mapping_csv([(hashed, name)]))
    assert opdiff("reduce", dump, "--settle", 0).code == 0
    assert names_in(dump) == sorted([f"{hashed}_min_max.npz", "mapping.csv"])
    outcome = opdiff("inspect", dump, "--json")
    assert (outcome.json["kind"], outcome.json["files"]) == ("reduced dumps", 1)
    assert opdiff("inspect", dump / f"{hashed}_min_max.npz").code == 0


# Files that are still being written


def test_file_open_for_writing_is_kept(folder: Path, opdiff: Command) -> None:
    with (folder / GE).open("r+b"):
        assert is_open_for_writing(str(folder / GE))
        outcome = opdiff("reduce", folder, "--settle", 0)
        assert "still being written, or reduced by another process, kept: 1 file\n" in outcome.out
        assert (folder / GE).exists()
    assert not is_open_for_writing(str(folder / GE))
    assert "reduced: 1 file," in opdiff("reduce", folder, "--settle", 0).out


@pytest.mark.parametrize("times", [None, (4e9, 4e9)], ids=["recent", "from the future"])
def test_file_settles_by_observation(folder: Path, times: tuple[float, float] | None) -> None:
    os.utime(folder / GE, times)
    tracker = SettleTracker(0.2)
    (young,) = [file for file in found_in(folder) if not file.is_fx]
    assert not tracker.is_settled(young)
    time.sleep(0.25)
    assert tracker.is_settled(young)


def test_a_file_that_changes_while_it_is_measured_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = work._verify

    def verify_and_write(path: str, stats: FileStats, file: ReducibleFile) -> None:
        real(path, stats, file)
        os.utime(folder / TAKEN_FOLDER / GE)

    monkeypatch.setattr(work, "_verify", verify_and_write)
    (file,) = [file for file in found_in(folder) if not file.is_fx]
    assert work.reduce_file(file, ()).in_use
    assert names_in(folder) == sorted([GE, FX])


def test_unverified_reduction_is_discarded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_extreme", lambda _value: 0.0)
    real = work._write

    def write_and_corrupt(draft: IO[bytes], stats: FileStats, file: ReducibleFile) -> None:
        real(draft, stats, file)
        draft.seek(-20, os.SEEK_END)
        draft.write(b"9")

    monkeypatch.setattr(work, "_write", write_and_corrupt)
    for file in found_in(folder):
        assert work.reduce_file(file, ("crc32",)).problem
    assert names_in(folder) == sorted([GE, FX])


def test_drafts_of_dead_processes_are_removed(folder: Path, opdiff: Command) -> None:
    child = subprocess.Popen([*COMMAND, "--version"], stdout=subprocess.DEVNULL)
    child.wait()
    dead, alive = f".{child.pid}.1.0123abcd.part", f".{os.getpid()}.1.0123abcd.part"
    for name in (dead, alive):
        (folder / name).write_bytes(b"x")
    opdiff("reduce", folder, "--settle", 0)
    assert not (folder / dead).exists()
    assert (folder / alive).exists()


# Watching


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watching_ends_cleanly(number: signal.Signals, folder: Path) -> None:
    command = [*COMMAND, "reduce", str(folder), "--watch", "--settle", "0", "--interval", "0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("reduced: 2 files, ")
        (folder / GE).write_bytes(ge_dump([VALUES], [VALUES]))
        assert process.stdout.readline().startswith("reduced: 3 files, ")
        process.send_signal(number)
        assert process.stdout.read().startswith("reduced: 3 files, ")
    assert process.returncode == 0


# A profiler is called between the steps of a function, as a signal handler is: in each round after one more step, and
# in the last one just before the waiting begins.
STOPPED = """
import sys
from itertools import count
from opdiff.workflows.reduce.watch import Stop

for step in range(20):
    stop, steps = Stop(), count()
    sys.setprofile(lambda *_: stop.set() if next(steps) == step else None)
    stop.wait(0.01)
    sys.setprofile(None)
stop = Stop()
sys.setprofile(lambda _, event, __: stop.set() if event == "c_call" else None)
stop.wait(3600)
"""


def test_a_wait_ends_at_whatever_moment_a_signal_handler_stops_it() -> None:
    subprocess.run([sys.executable, "-c", STOPPED], check=True, timeout=20)


def test_pause_limits_the_load() -> None:
    assert pause_s(0.2, 0.5) == pytest.approx(0.2)
    assert pause_s(0.2, 1.0) == 0
    assert pause_s(0.1, 0.25) == pytest.approx(0.3)
    assert pause_s(1000, 0.1) == 5.0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--info", "sha"), "'sha' is not one of mean, l2norm, specials, crc32, histogram"),
        (("--settle", "-1"), "is not a number of seconds"),
        (("--settle", "nan"), "is not a number of seconds"),
        (("--load", "0"), "is not a percentage"),
    ],
)
def test_wrong_options(options: tuple[str, str], problem: str, folder: Path, opdiff: Command) -> None:
    outcome = opdiff("reduce", folder, *options)
    assert outcome.code == 2
    assert problem in outcome.err


def test_missing_directory(tmp_path: Path, opdiff: Command) -> None:
    outcome = opdiff("reduce", tmp_path / "nothing")
    assert (outcome.code, "no such directory" in outcome.err) == (3, True)


# Invalid reduced files


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"inputs": [[1, 2]]}, "it has no array outputs"),
        ({"inputs": [1, 2], "outputs": [[1, 2]]}, "inputs has shape [2]"),
        ({"inputs": [[1]], "outputs": [[1, 2]]}, "is not a minimum and a maximum"),
        ({"inputs": [[1j, 2]], "outputs": [[1, 2]]}, "complex numbers have no minimum"),
    ],
)
def test_archives_that_are_not_reduced_dumps(arrays: dict[str, list[object]], problem: str, tmp_path: Path) -> None:
    path = tmp_path / f"{GE}_min_max.npz"
    np.savez(path, allow_pickle=False, **{name: np.array(value) for name, value in arrays.items()})
    with pytest.raises(DumpError, match=problem.replace("[", r"\[")):
        read_reduced(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"schema": "x", "version": 1}', '{"schema": "opdiff.reduced", "version": 2}',
        json.dumps({"schema": "opdiff.reduced", "version": 1, "inputs": [], "outputs": [{"min": "1"}]}),
        json.dumps({"schema": "opdiff.reduced", "version": 1, "inputs": [], "outputs": [{"shape": 3}]}),
        json.dumps({"schema": "opdiff.reduced", "version": 1, "inputs": 5, "outputs": []}),
    ],
)  # fmt: skip
def test_json_that_is_not_statistics(text: str) -> None:
    with pytest.raises(DumpError, match="statistics"):
        parse_stats(text.encode(), "a file")


OPENED_MEANWHILE = """
import fcntl, subprocess, sys
from opdiff.workflows.reduce import plan
set_lease = fcntl.fcntl
def set_lease_and_open(descriptor, command, argument):
    set_lease(descriptor, command, argument)
    if argument == fcntl.F_RDLCK:
        opening = "import os, sys; os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)"
        subprocess.run([sys.executable, "-c", opening, sys.argv[1]], stderr=subprocess.DEVNULL)
fcntl.fcntl = set_lease_and_open
print(plan.is_open_for_writing(sys.argv[1]))
"""


def test_process_survives_that_a_file_is_opened_while_it_is_looked_at(folder: Path) -> None:
    """The signal of the broken lease ends a process that does not handle it, such as a worker of a cluster."""
    command = [sys.executable, "-c", OPENED_MEANWHILE, str(folder / GE)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
