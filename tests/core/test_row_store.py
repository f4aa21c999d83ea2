"""Rows that do not fit in memory are those that were added, in their order."""

from __future__ import annotations

import os
from copy import copy
from typing import TYPE_CHECKING

import pytest

from opdiff.core import row_store
from opdiff.core.comparison import OpLabel, Row, SideInfo
from opdiff.core.reasons import because
from opdiff.core.row_store import RowStore, StoredRows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 5)
    monkeypatch.setattr(row_store, "_ROWS_PER_BLOCK", 3)


def make_row(number: int, path: str = "file") -> Row:
    return Row(OpLabel(number, 0, "Add", f"op{number}", "op"), target=SideInfo(path), reason=because("x", count=number))


def stored(rows: Sequence[Row], folder: Path, step: int = 2) -> Sequence[Row]:
    store = RowStore(str(folder / "new"))
    for start in range(0, len(rows), step):
        store.add(rows[start : start + step])
    return store.finish()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("step", [1, 2, 100])
@pytest.mark.parametrize("count", [0, 5, 6, 7, 20])
def test_rows_are_those_that_were_added(count: int, step: int, tmp_path: Path) -> None:
    rows = tuple(map(make_row, range(count)))
    found = stored(rows, tmp_path, step)
    assert isinstance(found, StoredRows) == (count > 5)
    assert len(found) == count
    assert tuple(found) == rows
    assert [found[number] for number in range(-count, count)] == [*rows, *rows]
    assert found[2:-1] == rows[2:-1]
    assert copy(found) == rows


@pytest.mark.usefixtures("small")
def test_the_file_has_no_name_and_is_closed(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    found = stored(tuple(map(make_row, range(20))), tmp_path)
    assert list((tmp_path / "new").iterdir()) == []
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    del found
    assert not set(os.listdir("/proc/self/fd")) - before


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("row", [make_row(1 << 70), make_row(1, "name\udcff")], ids=["large integer", "other bytes"])
def test_rows_that_cannot_be_encoded_are_kept(row: Row, tmp_path: Path) -> None:
    rows = (*map(make_row, range(7)), row, make_row(8))
    assert tuple(stored(rows, tmp_path)) == rows


@pytest.mark.usefixtures("small")
def test_an_index_beyond_the_end_is_refused(tmp_path: Path) -> None:
    found = stored(tuple(map(make_row, range(7))), tmp_path)
    with pytest.raises(IndexError):
        found[7]
