"""Replay on a cluster: workers compute the operators, with the results of one machine."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from cluster_processes import HOSTS, refuse, running_cluster
from command_line import run
from fault_injection.evaluation import Case, write_faulty_run
from opdiff.core.comparison import Mode
from opdiff.core.errors import InputError
from opdiff.workflows.cluster import find_cluster
from opdiff.workflows.compare.kept_pairs import LazyPairs
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import ComparisonResult, compare, pair_only
from opdiff.workflows.replay import on_workers
from opdiff.workflows.replay.golden_values import GoldenValues
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from residual_network import run_without_residual

if TYPE_CHECKING:
    from pathlib import Path

    from cluster_processes import ClusterProcesses
    from device_runs import DeviceRun
    from opdiff.core.comparison import Comparison


@pytest.fixture
def device(tmp_path: Path) -> DeviceRun:
    return run_without_residual(tmp_path)


@pytest.mark.parametrize("with_model", [True, False], ids=["by_model", "by_type"])
def test_results_are_those_of_one_machine(
    processes: ClusterProcesses,
    device: DeviceRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    with_model: bool,
) -> None:
    """Paths are relative, and workers have other current folders."""
    monkeypatch.chdir(device.folder)
    model = ("--model", device.model.name) if with_model else ()
    words = "replay", device.npu.name, "-fr", device.rules.name, *model, "--json"
    here = run(capsys, *words)
    monkeypatch.setattr(on_workers, "open_replay", refuse)
    there = run(capsys, *words, "--cluster", processes.address)
    assert (there.code, there.out) == (here.code, here.out) == (0, here.out)
    assert len(here.json) == 6


def test_suspects_of_a_comparison(
    processes: ClusterProcesses, device: DeviceRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are those of the client's current folder."""
    monkeypatch.chdir(device.folder)
    (device.folder / "opdiff.toml").write_text("[dtype.float16]\nnoise = 0.002\n")
    found = []
    for address in ("", processes.address):
        options = CompareOptions(
            str(device.npu), str(device.folder / "golden"), str(device.rules), cluster=address,
            model=str(device.model), replay=5,
        )  # fmt: skip
        (result,) = compare(options, lambda _done, _total: None)
        assert isinstance(result, ComparisonResult)
        found.append(result.comparison)
        monkeypatch.setattr(on_workers, "open_replay", refuse)
    assert repr(found[1].replays) == repr(found[0].replays)
    assert repr(found[1].judgement) == repr(found[0].judgement)
    assert len(found[0].replays) > 0


def test_operators_that_no_worker_can_compute_have_the_reason(
    processes: ClusterProcesses, device: DeviceRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All workers die after the check of the inputs."""
    monkeypatch.setattr("opdiff.run.cluster._MAX_SECONDS_WITHOUT_WORKERS", 1.0)
    options = ReplayOptions(str(device.npu), str(device.rules), str(device.model))
    found = []
    with find_cluster(processes.address) as cluster:

        def kill_at_start(done: int, _total: int) -> None:
            if not done:
                processes.kill(*HOSTS)

        found += list(replay(options, kill_at_start, cluster))
    processes.add_workers(*HOSTS)
    assert {item.reason and item.reason.code for item in found} == {"run.no_workers"}
    assert len(found) == 6


def test_model_that_workers_cannot_read(processes: ClusterProcesses, device: DeviceRun) -> None:
    options = ReplayOptions(str(device.npu), str(device.rules), str(device.folder / "missing.onnx"))
    with find_cluster(processes.address) as cluster, pytest.raises(InputError, match=r"missing\.onnx"):
        list(replay(options, lambda _done, _total: None, cluster))


def write_other_model(device: DeviceRun, path: Path) -> None:
    """Write a model with the same operators and other weights."""
    other = type(device.made)()
    other.CopyFrom(device.made)
    for weight in other.graph.initializer:
        weight.raw_data = bytes(len(weight.raw_data))
    assert other != device.made
    path.write_bytes(other.SerializeToString())


@pytest.mark.parametrize("seen_by", ["", "npu-1"], ids=["by_client", "by_client_and_one_worker"])
@pytest.mark.parametrize("with_model", [True, False], ids=["by_model", "by_type"])
def test_rules_and_model_that_not_all_workers_have(
    processes: ClusterProcesses,
    device: DeviceRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seen_by: str,
    with_model: bool,
) -> None:
    """`/proc/self/cwd` are other files for each process; one worker has another model of the same name."""
    monkeypatch.chdir(device.folder)
    names = device.rules.name, device.model.name
    if seen_by:
        for name in names:
            shutil.copy(device.folder / name, processes.folder_of(seen_by))
    write_other_model(device, processes.folder_of("npu-2") / device.model.name)
    rules, model = (f"/proc/self/cwd/{name}" for name in names)
    words = "replay", device.npu, "-fr", rules, *(("--model", model) if with_model else ()), "--json"
    here = run(capsys, *words)
    if not with_model:
        monkeypatch.setattr(on_workers, "open_replay", refuse)
    there = run(capsys, *words, "--cluster", processes.address)
    for path in (processes.folder_of(host) / name for host in HOSTS for name in names):
        path.unlink(missing_ok=True)
    assert (there.code, there.out) == (here.code, here.out) == (0, here.out)
    assert len(here.json) == 6


def test_workers_without_engine(tmp_path: Path, device: DeviceRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of another host computes, or the client if there is none."""
    broken, home = tmp_path / "broken", tmp_path / "cluster"
    broken.mkdir()
    home.mkdir()
    (broken / "onnxruntime.py").write_text("raise ImportError")
    options = ReplayOptions(str(device.npu), str(device.rules))
    here = list(replay(options, lambda _done, _total: None))
    found = []
    with running_cluster(home, "able") as processes:
        processes.add_workers("unable", PYTHONPATH=str(broken))
        with find_cluster(processes.address) as cluster, monkeypatch.context() as patches:
            assert cluster is not None
            cluster._client.wait_for_workers(2, timeout=30)
            patches.setattr(on_workers, "open_replay", refuse)
            found.append(list(replay(options, lambda _done, _total: None, cluster)))
        processes.kill("able")
        with find_cluster(processes.address) as cluster:
            found.append(list(replay(options, lambda _done, _total: None, cluster)))
    assert list(map(repr, found)) == [repr(here)] * 2


def test_golden_values_confirm_a_computation_by_types(processes: ClusterProcesses, tmp_path: Path) -> None:
    files, _ = write_faulty_run(str(tmp_path / "run"), Case("residual", "fp16", 24, "no activation", "middle"))
    here = compared(files.target, files.golden, files.rules)
    there = compared(files.target, files.golden, files.rules, cluster=processes.address)
    assert repr(there.replays) == repr(here.replays)
    assert [finding.is_proved for finding in there.judgement.findings] == [True]


def test_golden_values_that_workers_do_not_have(
    processes: ClusterProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client computes."""
    files, _ = write_faulty_run(str(tmp_path / "run"), Case("residual", "fp16", 24, "no activation", "middle"))
    here = compared(files.target, files.golden, files.rules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("opdiff.core.filesystem.realpath", lambda path: path)
    (pairs,) = pair_only(CompareOptions(files.target, "/proc/self/cwd/run/golden", files.rules, mode=Mode.OFFLINE))
    assert isinstance(pairs, tuple)
    options = ReplayOptions(files.target, files.rules, operators=tuple(item.operator for item in here.replays))
    with find_cluster(processes.address) as cluster:
        there = list(replay(options, lambda _done, _total: None, cluster, GoldenValues(LazyPairs(pairs))))
    assert sorted(map(repr, there)) == sorted(map(repr, here.replays))
    assert "guilty" in {item.verdict for item in there}


def compared(target: str, golden_folder: str, rules: str, **options: Any) -> Comparison:
    wanted = CompareOptions(target, golden_folder, rules, mode=Mode.OFFLINE, replay=5, **options)
    (result,) = compare(wanted, lambda _done, _total: None)
    assert isinstance(result, ComparisonResult)
    return result.comparison
