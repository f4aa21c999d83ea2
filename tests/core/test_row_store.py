"""Rows that do not fit in memory are those that were added, in their order."""

from __future__ import annotations

import errno
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opdiff.core import row_store
from opdiff.core.comparison import DataMode, Row, SideInfo
from opdiff.core.judgement import Judgement, Level, Origin, Outcome, Verdict, verdict_code
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import because
from opdiff.core.row_store import (
    Block,
    EncodedRows,
    RowStore,
    StoredPart,
    StoredRows,
    StoredValues,
    encode_blocks,
    store_blocks,
)
from opdiff.core.rows_file import Extent, RowsFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 5)
    monkeypatch.setattr(row_store, "_ROWS_PER_BLOCK", 3)


def make_row(number: int, path: str = "file") -> Row:
    return Row(OpLabel(number, 0, "Add", f"op{number}", "op"), target=SideInfo(path), reason=because("x", count=number))


ROWS = tuple(map(make_row, range(20)))


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
    with pytest.raises(IndexError):
        found[count]


def test_rows_are_stored_without_the_names_of_their_fields() -> None:
    (block,) = encode_blocks([make_row(1)])
    assert isinstance(block.content, bytes)
    assert b"op1" in block.content
    assert b"golden" not in block.content


@pytest.mark.usefixtures("small")
def test_the_file_has_no_name_and_is_closed(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    found = stored(ROWS, tmp_path)
    assert list((tmp_path / "new").iterdir()) == []
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1
    del found
    assert not set(os.listdir("/proc/self/fd")) - before


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("row", [make_row(1 << 70), make_row(1, "name\udcff")], ids=["large integer", "other bytes"])
def test_rows_that_cannot_be_encoded_are_kept(row: Row, tmp_path: Path) -> None:
    rows = (*map(make_row, range(7)), row, make_row(8))
    assert tuple(stored(rows, tmp_path)) == rows


def test_only_the_rows_that_cannot_be_encoded_are_kept() -> None:
    rows = [make_row(1 << 70 if number in (7, 300) else number) for number in range(500)]
    blocks = list(encode_blocks(rows))
    kept = [block.content for block in blocks if isinstance(block.content, tuple)]
    assert kept == [(rows[7],), (rows[300],)]
    assert sum(block.count for block in blocks) == len(rows)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("large", [False, True], ids=["encoded", "kept"])
def test_encoded_rows_are_numbered_behind_those_before(tmp_path: Path, large: bool) -> None:
    rows = [*map(make_row, range(8)), *([replace(make_row(8), timestamp=1 << 70)] if large else [])]
    store = RowStore(str(tmp_path))
    store.add(rows[:2])
    store.add(EncodedRows(tuple(encode_blocks(rows[2:])), {DataMode.REAL: 100}))
    store.add(rows[:1])
    found = store.finish()
    assert [row.label.index for row in found] == [0, 1, *range(102, 100 + len(rows)), 0]
    assert [row.timestamp for row in found] == [row.timestamp for row in (*rows, rows[0])]
    assert [row.label.target for row in found] == [row.label.target for row in (*rows, rows[0])]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("start", "stop"), [(0, 20), (2, 3), (3, 6), (5, 17), (20, 20), (4, 4)])
def test_a_part_is_loaded_by_another_process(tmp_path: Path, start: int, stop: int) -> None:
    found = stored(ROWS, tmp_path)
    assert isinstance(found, StoredRows)
    part = found.part(start, stop)
    assert len(pickle.dumps(part)) < 2_000
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        assert pool.submit(StoredPart.load, part).result() == ROWS[start:stop]


@pytest.mark.usefixtures("small")
def test_other_values_are_stored_beside_rows(tmp_path: Path) -> None:
    found = stored(ROWS, tmp_path)
    assert isinstance(found, StoredRows)
    labels = found.beside(OpLabel)
    labels.append(encode_blocks([row.label for row in found]))
    assert list(labels) == [row.label for row in ROWS]
    assert tuple(found) == ROWS


def append_labels(path: str, first: int) -> tuple[Block, ...]:
    return store_blocks(encode_blocks([make_row(first + number).label for number in range(50)]), path)


def test_processes_append_blocks_at_the_same_time(tmp_path: Path) -> None:
    file = RowsFile(str(tmp_path))
    with ProcessPoolExecutor(3, mp_context=get_context("forkserver")) as pool:
        found = list(pool.map(append_labels, [file.path] * 30, range(0, 3000, 100)))
    labels = StoredValues(file, OpLabel)
    for blocks in found:
        assert all(isinstance(block.content, Extent) for block in blocks)
        labels.append(blocks)
    assert [label.index for label in labels] == [
        first + number for first in range(0, 3000, 100) for number in range(50)
    ]


@pytest.mark.usefixtures("small")
def test_rows_of_other_processes_are_in_the_file_of_the_store(tmp_path: Path) -> None:
    rows = [*map(make_row, range(12))]
    store, file = RowStore(str(tmp_path)), RowsFile(str(tmp_path))
    for start in (0, 6):
        store.add(EncodedRows(store_blocks(encode_blocks(rows[start : start + 6]), file.path), file=file))
    del file
    found = store.finish()
    assert list(found) == rows
    assert isinstance(found, StoredRows)
    assert found.part(4, 9).load() == tuple(rows[4:9])


@pytest.mark.usefixtures("small")
def test_rows_of_another_file_are_copied(tmp_path: Path) -> None:
    """Ranks with few rows come before one whose rows were stored by other processes."""
    rows = [*map(make_row, range(20))]
    store, file = RowStore(str(tmp_path)), RowsFile(str(tmp_path))
    store.add(rows[:9])
    store.add(EncodedRows(store_blocks(encode_blocks(rows[9:]), file.path), file=file))
    del file
    assert list(store.finish()) == rows


def test_a_file_that_is_not_needed_is_not_created(tmp_path: Path) -> None:
    RowsFile(str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []


def test_blocks_that_cannot_be_stored_keep_their_data(tmp_path: Path) -> None:
    blocks = tuple(encode_blocks([make_row(1).label]))
    assert store_blocks(blocks, str(tmp_path / "missing")) == blocks
    kept = tuple(encode_blocks([make_row(1 << 70).label]))
    assert store_blocks(kept, RowsFile(str(tmp_path)).path) == kept


@pytest.mark.usefixtures("small")
def test_a_full_disk_is_named_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="No space left") as caught:
        stored(ROWS, tmp_path)
    assert caught.value.filename == str(tmp_path / "new")


def test_codes_of_values_are_known_without_decoding(tmp_path: Path) -> None:
    verdicts = [Verdict(level, because("x"), origin) for level in Level for origin in Origin]
    file = RowsFile(str(tmp_path))
    stored_verdicts = StoredValues(file, Verdict)
    stored_verdicts.append(store_blocks(encode_blocks(verdicts, verdict_code), file.path))
    expected = [(verdict.level, verdict.origin) for verdict in verdicts]
    assert list(Judgement("", tuple(verdicts)).marks()) == expected
    judgement = Judgement("", stored_verdicts)
    assert list(judgement.marks()) == expected
    assert judgement.outcome is Outcome.WRONG
    # Not all values have a code: they are decoded.
    stored_verdicts.append(encode_blocks(verdicts[:1]))
    assert stored_verdicts.codes == b""
    assert list(judgement.marks()) == [*expected, expected[0]]


def test_bytes_that_are_written_in_part_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, limits = os.write, [3, 100]
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[: limits.pop(0)]))
    file = RowsFile(str(tmp_path))
    extent = file.append(b"whole")
    assert extent.read(file.descriptor) == b"whole"
    assert extent.offset == 3
    limits += [1, 1, 1]
    with pytest.raises(OSError, match="Input/output error") as caught:
        file.append(b"whole")
    assert caught.value.filename == str(tmp_path)
