"""CSV files: numbers, formulas and characters outside UTF-8."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.report.cells import columns_of_rows, csv_lines, escape_formula, full_numbers, write_table

if TYPE_CHECKING:
    from pathlib import Path

ROW = (1.5e-8, 0.1, 3, None, "=1+1", 'a,"b"', "\udc80")


def test_cells_are_written(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_table(str(path), ["h"] * len(ROW), columns_of_rows([ROW]))
    assert path.read_bytes().split(b"\r\n")[1] == b'1.50000e-08,0.100000,3,,\'=1+1,"a,""b""",\\udc80'
    write_table(str(path), ["h"] * len(ROW), columns_of_rows([ROW]), full_numbers)
    assert path.read_bytes().split(b"\r\n")[1] == b'1.5e-08,0.1,3,,\'=1+1,"a,""b""",\\udc80'


def test_rows_of_several_parts(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_table(str(path), ["number", "name"], columns_of_rows((number, "a") for number in range(4001)))
    assert path.read_text().splitlines()[1:] == [f"{number},a" for number in range(4001)]


def test_failure_leaves_no_file(tmp_path: Path) -> None:
    def rows() -> list[tuple[str]]:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        write_table(str(tmp_path / "table.csv"), ["h"], columns_of_rows(row for _ in "a" for row in rows()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        pytest.param("\ufeff=1+1", "'\ufeff=1+1", id="byte order mark"),
        pytest.param("\u200b@SUM(A1)", "'\u200b@SUM(A1)", id="zero-width space"),
        pytest.param(" \u2060\u200e -2+3", "' \u2060\u200e -2+3", id="several"),
        pytest.param("a;\ufeff+1+1", "a;'\ufeff+1+1", id="after a semicolon"),
        pytest.param("\ufeffconv1", "\ufeffconv1", id="no formula"),
        pytest.param("-1.5", "-1.5", id="number"),
    ],
)
def test_formulas_after_invisible_characters(text: str, escaped: str) -> None:
    assert escape_formula(text) == escaped


CELLS = st.none() | st.floats() | st.integers() | st.text() | st.sampled_from(["", '"', "a,b", "=1", "-", "\r", "a\nb"])


@given(st.integers(2, 4).flatmap(lambda width: st.lists(st.tuples(*[CELLS] * width), max_size=5)))
def test_lines_are_those_of_the_standard_library(rows: list[tuple[str | float | None, ...]]) -> None:
    file = io.StringIO(newline="")
    escaped = [[escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    csv.writer(file).writerows(escaped)
    assert b"".join(csv_lines(columns, full_numbers) for columns in columns_of_rows(rows)) == file.getvalue().encode(
        "utf-8", "backslashreplace"
    )


@given(st.lists(st.floats() | st.floats(-1, 1) | st.sampled_from([1e-4, 9.9e-5, 1e16, 9e15, -1e-5, 0.0, -0.0, 1e300])))
def test_numbers_have_all_their_digits(numbers: list[float]) -> None:
    assert full_numbers(numbers) == [str(number) for number in numbers]
