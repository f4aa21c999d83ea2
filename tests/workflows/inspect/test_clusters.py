"""Inspection on a cluster: workers read the files, with the report of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.sample import write_sample
from opdiff.sample.graph_mode import ge_dump, write_graph_sample
from opdiff.workflows.inspect import contents

if TYPE_CHECKING:
    from pathlib import Path

    from cluster_processes import ClusterProcesses
    from command_line import Command


def refuse(*_arguments: object) -> None:
    """Stand for what only workers may do."""
    raise AssertionError("read by the client")


def write_dumps(folder: Path) -> Path:
    """Write dumps of both modes with defects: cut off, constant, reduced, not finite."""
    made = write_sample(str(folder / "sample"))
    graph = write_graph_sample(str(folder / "graph"), ranks=2)
    npu = sorted((folder / "sample" / "npu").glob("Conv2D.*"))
    npu[0].write_bytes(npu[0].read_bytes()[:-8])
    odd = folder / "odd"
    odd.mkdir()
    for number, value in enumerate((0.0, 1.0, np.nan)):
        values = np.full(50, value, np.float32)
        (odd / f"Add.Add_{number}.1.6.{1706596911000000 + number}").write_bytes(ge_dump([values], [values]))
    assert made.rules
    assert graph.target
    return folder


@pytest.mark.parametrize("depth", [(), ("--no-data",), ("--stats",)], ids=["samples", "headers", "values"])
def test_report_of_a_directory(
    processes: ClusterProcesses,
    tmp_path: Path,
    opdiff: Command,
    monkeypatch: pytest.MonkeyPatch,
    depth: tuple[str, ...],
) -> None:
    """Paths are relative, and workers have other current folders."""
    write_dumps(tmp_path / "dumps")
    monkeypatch.chdir(tmp_path)
    here = opdiff("inspect", tmp_path / "dumps", *depth, "--json")
    monkeypatch.setattr(contents, "read_folder", refuse)
    monkeypatch.setattr(contents, "_constant", refuse)
    there = opdiff("inspect", "dumps", *depth, "--json", "--cluster", processes.address)
    assert here.code == 0, here
    assert (there.code, there.out) == (0, here.out), there
    codes = {finding["code"] for finding in here.json["findings"]}
    assert "unreadable" in codes
    assert ("all-zero" in codes, "not-finite" in codes) == (not depth or depth == ("--stats",), depth == ("--stats",))


def test_file(processes: ClusterProcesses, tmp_path: Path, opdiff: Command) -> None:
    values = np.arange(8, dtype=np.float32)
    name = "Add.Add_1.1.6.1706596911000001"
    (tmp_path / name).write_bytes(ge_dump([values], [values]))
    here = opdiff("inspect", tmp_path / name, "--stats", "--json")
    there = opdiff("inspect", tmp_path / name, "--stats", "--json", "--cluster", processes.address)
    assert (there.code, there.out) == (0, here.out), there
