"""Comparisons of graph mode as Python programs have them, and as they are saved."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import opdiff
from command_line import run
from graph_dumps import STAMP, floats, saved
from opdiff.core.errors import InputError
from opdiff.core.graphmode import DataMode
from opdiff.report.graph_json import load_graph_json
from opdiff.report.rows import Environment
from opdiff.sample.names import fx_name

if TYPE_CHECKING:
    from pathlib import Path

    from graph_dumps import GraphCase


@pytest.mark.parametrize("mode", ["real", "statistics", "md5"])
def test_what_is_saved_is_what_is_compared(case: GraphCase, mode: str) -> None:
    case.one(floats([1, 2, math.nan, -math.inf]), floats([1, 2.5, math.nan, 3]))
    table = case.table("--data_mode", mode)
    target, golden = (str(side) for side in (case.target, case.fx))
    found = opdiff.compare_graphs(target, golden, options=opdiff.GraphOptions(mode=DataMode(mode)))
    loaded = opdiff.GraphComparison.load(table.path.with_suffix(".json"))
    (part,) = loaded.parts
    assert part.environment.time
    # Who compared is told in files only. NaN is not equal to itself.
    assert repr((part._replace(environment=Environment()),)) == repr(found.parts)
    assert [verdict.result for _, verdict in found.rows] == [row["Result"] for row in table.rows]
    assert loaded.summary() == found.summary()
    assert found.summary()
    assert not found.defects


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("opdiff.torchair", "opdiff.comparison", "does not say that its schema is 'opdiff.torchair'"),
        ('"version": 2', '"version": 3', "it is of version 3"),
        ('"token": 0', '"token": "0"', "cannot be GraphRow.token"),
        ('"evidence": ', '"role": ', "GraphRow has not exactly its fields: role"),
        ('"dtype": "float32"', '"dtype": 32', "cannot be Figures.dtype"),
        ('"verdict"', '"vote"', "not an object of row and verdict"),
        ('"rows"', '"lines"', "has not exactly its fields"),
    ],
)
def test_what_is_not_a_saved_comparison(case: GraphCase, tmp_path: Path, old: str, new: str, problem: str) -> None:
    case.one(floats([1, 2]), floats([1, 2]))
    text = case.table().path.with_suffix(".json").read_text()
    assert old in text
    changed = tmp_path / "changed.json"
    changed.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=problem):
        load_graph_json(str(changed))


def test_arguments_that_are_no_tensors_are_no_damage(case: GraphCase) -> None:
    case.one(floats([1, 2]), floats([1, 2]))
    folder = next(case.fx.rglob("*.npy")).parent
    (folder / fx_name("add", "aten.add.Tensor", "INPUT", (1,), STAMP)).write_bytes(saved(np.array(None)))
    outcome = run(case.capsys, "inspect", str(case.fx))
    assert "arguments that are no tensors" in outcome.out
    assert "cannot be read" not in outcome.out


def test_a_reduced_tree_tells_the_types_that_tensors_had(case: GraphCase) -> None:
    case.one(floats([1, 2]).astype(np.float16), floats([1, 2]))
    run(case.capsys, "reduce", str(case.target), "--settle", "0")
    outcome = run(case.capsys, "inspect", str(case.target))
    assert "float16" in outcome.out
    assert "float64" not in outcome.out


def test_fields_of_a_saved_comparison_may_stand_in_any_order(case: GraphCase, tmp_path: Path) -> None:
    case.one(floats([1, 2]), floats([1, 2.5]))
    path = case.table().path.with_suffix(".json")
    turned = tmp_path / "turned.json"
    document = json.loads(path.read_text(), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    turned.write_text(json.dumps(document))
    assert load_graph_json(str(turned)) == load_graph_json(str(path))
