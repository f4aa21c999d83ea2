"""Samples and the command line for all tests of requirements."""

from __future__ import annotations

import csv
from functools import partial
from typing import TYPE_CHECKING

import pytest

from command_line import Capture, run
from opdiff.sample import Sample, write_sample
from opdiff.sample.graph_mode import GraphSample, write_graph_sample
from opdiff.sample.stages import StageSample, write_stage_sample

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Command

    Table = Callable[[Path], list[dict[str, str]]]


@pytest.fixture
def command(capsys: Capture) -> Command:
    """Return a function that runs a command line in this process."""
    return partial(run, capsys)


@pytest.fixture(scope="session")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Write dumps of an original and of an offline model, with known faults. Tests do not change them."""
    return write_sample(str(tmp_path_factory.mktemp("offline")))


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> StageSample:
    """Write a quantized model in all stages, with a fault in the conversion. Tests do not change it."""
    return write_stage_sample(str(tmp_path_factory.mktemp("stages")))


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Write the same dumps as `offline`, without faults."""
    return write_sample(str(tmp_path_factory.mktemp("sound")), faults=())


@pytest.fixture(scope="session")
def fusion(tmp_path_factory: pytest.TempPathFactory) -> StageSample:
    """Write a quantized model in all stages, whose fused operator of `block2/conv1` has a factor of 1.25."""
    return write_stage_sample(str(tmp_path_factory.mktemp("fusion")), ("fusion",))


@pytest.fixture(scope="session")
def torchair(tmp_path_factory: pytest.TempPathFactory) -> GraphSample:
    """Write dumps of GE and FX. Tests do not change them."""
    return write_graph_sample(str(tmp_path_factory.mktemp("torchair")))


@pytest.fixture
def table() -> Table:
    """Return a function that reads the one result table of a folder. Columns of one name keep the first value."""

    def read(folder: Path) -> list[dict[str, str]]:
        (path,) = folder.glob("*.csv")
        with path.open(newline="") as file:
            head, *lines = csv.reader(file)
        return [dict(zip(reversed(head), reversed(line), strict=True)) for line in lines]

    return read
