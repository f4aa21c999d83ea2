"""Parts of the rows, and reports that several processes make of them."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pyarrow import parquet

from made_reports import judged_comparison, many_tokens, row
from opdiff.core import row_store
from opdiff.core.dump import Unit
from opdiff.core.row_store import RowStore
from opdiff.report import parts
from opdiff.report.html_page import write_html
from opdiff.report.parquet_table import write_parquet
from opdiff.report.parts import part_reference, whole_units
from opdiff.run import map_jobs

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from opdiff.core.comparison import Comparison


@given(st.lists(st.integers(1, 9), max_size=8), st.integers(1, 12), st.integers(0, 100))
def test_parts_end_with_units_and_have_all_rows(lengths: list[int], min_rows: int, more: int) -> None:
    units = [number for number, length in enumerate(lengths) for _ in range(length)]
    rows = [replace(row(f"op{number}"), unit=Unit(0, unit, None)) for number, unit in enumerate(units)]
    max_rows = min_rows + more
    found = list(whole_units(judged_comparison(*rows), min_rows, max_rows))
    assert [number for part in found for number in part] == list(range(len(rows)))
    assert found
    ends = {sum(lengths[: number + 1]) for number in range(len(lengths))}
    for part in found[:-1]:
        assert len(part) == max_rows or (part.stop in ends and len(part) >= min_rows)
    assert all(len(part) <= max_rows for part in found)
    # A part is no longer than it has to be.
    assert all(
        len(part) == max_rows or not any(part.start + min_rows <= end < part.stop for end in ends) for part in found
    )


def stored(made: Comparison, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """Return a comparison whose rows are in a file."""
    monkeypatch.setattr(row_store, "MAX_ROWS_IN_MEMORY", 1)
    monkeypatch.setattr(row_store, "_ROWS_PER_BLOCK", 3)
    rows = RowStore()
    rows.add(made.rows)
    return replace(made, rows=rows.finish())


def test_stored_rows_are_loaded_with_their_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = many_tokens(1, 3, 4)
    in_file = stored(made, monkeypatch)
    part = part_reference(in_file, range(2, 9)).load()
    assert tuple(part.rows) == tuple(made.rows[2:9])
    assert tuple(part.verdicts) == tuple(made.judgement.verdicts[2:9])
    assert tuple(part.results) == tuple(made.judgement.documented[2:9])


def test_blocks_of_many_rows_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = many_tokens(1, 3, 4)
    write_html(made, str(tmp_path / "one.html"))
    monkeypatch.setattr("opdiff.report.html_page.MAX_ROWS_IN_MEMORY", 1)
    monkeypatch.setattr("opdiff.report.html_page.BytesIO", None)
    write_html(made, str(tmp_path / "two.html"))
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_reports_of_several_processes_are_those_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = many_tokens(1, 6, 4)
    monkeypatch.setattr(parts, "_MIN_PART_ROWS", 1)
    monkeypatch.setattr(parts, "_MIN_JOB_ROWS", 2)
    write_html(made, str(tmp_path / "one.html"))
    write_parquet(made, str(tmp_path / "one.parquet"))
    in_file, by_processes = stored(made, monkeypatch), partial(map_jobs, workers=2)
    write_html(in_file, str(tmp_path / "several.html"), by_processes)
    write_parquet(in_file, str(tmp_path / "several.parquet"), by_processes)
    names = ("one", "several")
    one, several = (
        re.findall(rb'id="(block-\d+)">([^<]*)<', (tmp_path / f"{name}.html").read_bytes()) for name in names
    )
    assert len(one) == len(made.units)
    assert several == one
    first, second = (parquet.read_table(tmp_path / f"{name}.parquet") for name in names)
    assert first.to_pylist() == second.to_pylist()
