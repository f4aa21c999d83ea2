"""Fixtures of several workflows: commands, a comparison in a temporary folder, and a cluster of several hosts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from cluster_processes import running_hosts
from command_line import run
from conversions import Convert
from made_dumps import Case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cluster_processes import ClusterProcesses
    from command_line import Command


@pytest.fixture
def opdiff(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command in this process."""
    return partial(run, capsys)


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Convert:
    return Convert(tmp_path / "in", tmp_path / "out", capsys)


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Case:
    return Case(tmp_path, capsys)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """A cluster with a worker for each of `HOSTS`."""
    with running_hosts(tmp_path_factory.mktemp("cluster")) as found:
        yield found
