"""Comparisons of graph mode in Python, and their saved form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import opdiff
from command_line import run
from graph_dumps import STAMP, floats, saved
from opdiff.core.comparison import DataMode
from opdiff.core.errors import UsageError
from opdiff.sample.names import fx_name

if TYPE_CHECKING:
    from graph_dumps import GraphCase


@pytest.mark.parametrize("mode", DataMode)
def test_loading_restores_the_comparison(case: GraphCase, mode: DataMode) -> None:
    case.one(floats([1, 2, math.nan, -math.inf]), floats([1, 2.5, math.nan, 3]))
    table = case.table("--data_mode", mode)
    found = opdiff.compare(case.target, case.fx, options=opdiff.CompareOptions(data_mode=mode))
    loaded = opdiff.Comparison.load(case.out)
    # Compared as strings, since NaN is not equal to itself.
    assert repr((loaded.rows, loaded.judgement, loaded.notes)) == repr((found.rows, found.judgement, found.notes))
    assert [result.result for result in found.judgement.documented] == [row["Result"] for row in table.rows]
    assert loaded.summary() == found.summary()
    assert found.summary()
    assert not found.defects
    with pytest.raises(UsageError, match="several tables"):
        found.write_csv(case.out / "table.csv")


def test_arguments_other_than_tensors_are_not_reported(case: GraphCase) -> None:
    case.one(floats([1, 2]), floats([1, 2]))
    folder = next(case.fx.rglob("*.npy")).parent
    (folder / fx_name("add", "aten.add.Tensor", "INPUT", (1,), STAMP)).write_bytes(saved(np.array(None)))
    outcome = run(case.capsys, "inspect", str(case.fx))
    assert "arguments that are not tensors" in outcome.out
    assert "cannot be read" not in outcome.out


def test_reduced_files_keep_the_types_of_tensors(case: GraphCase) -> None:
    case.one(floats([1, 2]).astype(np.float16), floats([1, 2]))
    run(case.capsys, "reduce", str(case.target), "--settle", "0")
    outcome = run(case.capsys, "inspect", str(case.target))
    assert "float16" in outcome.out
    assert "float64" not in outcome.out
