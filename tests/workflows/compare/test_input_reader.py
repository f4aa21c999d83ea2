"""Dumps and rule files are read once by comparisons that share a reader; listing of long dumps by processes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.sample import write_sample
from opdiff.workflows.compare.graph_inputs import read_graph_inputs
from opdiff.workflows.compare.input_reader import InputReader, SharedReader
from opdiff.workflows.compare.options import CompareOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


def test_dumps_and_rules_are_read_once(tmp_path: Path) -> None:
    sample = write_sample(str(tmp_path), faults=[])
    reader = SharedReader()
    target = reader.dump(sample.target, with_rules=True)
    golden = reader.golden(sample.golden, (), with_rules=True)
    rules = reader.rules(sample.rules)
    shutil.rmtree(tmp_path)
    assert reader.dump(sample.target, with_rules=True) is target
    assert reader.golden(sample.golden, ("conv",), with_rules=True) is golden
    assert reader.golden(sample.target, (), with_rules=True) is target
    assert reader.rules(sample.rules) is rules
    with pytest.raises(InputError):
        reader.dump(sample.target, with_rules=False)


def test_arrays_under_looser_names_depend_on_the_names_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "conv_1.npy", np.zeros(3))
    reader = SharedReader()
    assert list(reader.golden(str(tmp_path), {"conv_1"}, with_rules=True).operators) == ["conv_1"]
    assert list(reader.golden(str(tmp_path), {"conv"}, with_rules=True).operators) == ["conv"]


# Listing of long dumps


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of processes that are started to list dumps; every dump has three folders to be listed by them."""
    numbers: list[int] = []

    def map_processes(function: Callable[[Any], Any], jobs: Sequence[Any], workers: int) -> Iterator[Any]:
        numbers.append(workers)
        return map(function, jobs)

    def read_graph_tree(root: str, map_jobs: Callable[..., Iterator[str]]) -> Any:
        assert [*map_jobs(str.upper, ["a", "b", "c"])] == ["A", "B", "C"]
        if root == "last":
            raise InputError(root, because("core.no_such_directory"))
        return root

    monkeypatch.setattr("opdiff.run.processes.map_processes", map_processes)
    monkeypatch.setattr("opdiff.read.graph.tree.read_graph_tree", read_graph_tree)
    return numbers


@pytest.mark.parametrize(
    ("paths", "workers", "expected"),
    [
        (["a", "b"], 2, [2, 2]),
        (["a", "b"], 1, []),
        (["s3://bucket/a", "https://host/b", "ssh://host/c"], 2, []),
        (["s3://bucket/a", "b"], 2, [2]),
    ],
    ids=["local", "one-worker", "remote", "one-of-two-remote"],
)
def test_processes_list_local_dumps_only(
    started: list[int], paths: list[str], workers: int, expected: list[int]
) -> None:
    assert len([*InputReader().graph_trees(paths, workers)]) == len(paths)
    assert started == expected


@pytest.mark.parametrize(
    ("in_process", "workers", "expected"), [(False, 2, [2, 2]), (True, 2, []), (True, 0, []), (False, 1, [])]
)
def test_programs_that_allow_no_processes_list_dumps_themselves(
    started: list[int], in_process: bool, workers: int, expected: list[int]
) -> None:
    options = CompareOptions("first", "last", workers=workers, in_process=in_process)
    with pytest.raises(InputError, match="last"):
        read_graph_inputs(options, InputReader())
    assert started == expected
