"""Tables of graph mode: their JSON is written by another process, and nothing is left of what was not finished."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from opdiff.core.graphmode import Colour, DataMode, GraphRow, SideFacts, Verdict
from opdiff.core.reasons import quoted
from opdiff.core.tensor import Slot
from opdiff.report.graph_json import SavedGraph, load_graph_json
from opdiff.workflows.compare import graph_outputs as graph_writing
from opdiff.workflows.compare.graph_outputs import GraphTables
from opdiff.workflows.compare.graph_pipeline import GraphOptions

if TYPE_CHECKING:
    from pathlib import Path


def part(rank: int, rows: int = 2) -> SavedGraph:
    made = [
        GraphRow(
            0,
            f"op_{number}",
            Slot.OUTPUT,
            0,
            number,
            DataMode.MD5,
            SideFacts("/t/a", "Add"),
            None,
            reason=quoted("alone"),
        )
        for number in range(rows)
    ]
    verdict = Verdict("FAIL", "No", Colour.RED)
    return SavedGraph("/t", "/g", quoted("s"), DataMode.MD5, rank, None, tuple((row, verdict) for row in made))


def test_each_table_has_its_json_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_writing, "_MANY_ROWS", 2)
    parts = [part(rank, rows=1 + rank) for rank in range(4)]
    with GraphTables(GraphOptions(output=str(tmp_path))) as tables:
        for made in parts:
            tables.add(made)
        tables.start()
        paths = tables.finish()
    assert [load_graph_json(path.replace(".csv", ".json")) for path in paths] == parts
    assert len(os.listdir(tmp_path)) == 8


def test_one_worker_writes_all_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_writing, "_MANY_ROWS", 1)
    monkeypatch.delattr(os, "fork")
    with GraphTables(GraphOptions(output=str(tmp_path), workers=1)) as tables:
        tables.add(part(0))
        tables.finish()
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize(
    ("many", "rows"), [(1, 2), (1, 20_000), (1000, 2)], ids=["written", "being written", "waiting"]
)
def test_who_leaves_early_leaves_whole_tables_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int, rows: int
) -> None:
    monkeypatch.setattr(graph_writing, "_MANY_ROWS", many)
    with GraphTables(GraphOptions(output=str(tmp_path))) as tables:
        tables.add(part(0, rows))
        while rows == 2 and not all(beside.is_done() for beside, _ in tables._started):
            pass
    (table,) = os.listdir(tmp_path)
    assert table.endswith(".csv")
