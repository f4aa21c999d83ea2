"""CSV files: numbers, formulas and characters outside UTF-8."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opdiff.report.cells import write_formatted_table, write_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROW = (1.5e-8, 0.1, 3, None, "=1+1", 'a,"b"', "\udc80")


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (write_table, b'1.5e-08,0.1,3,,=1+1,"a,""b""",\\udc80'),
        (write_formatted_table, b'1.50000e-08,0.100000,3,,\'=1+1,"a,""b""",\\udc80'),
    ],
    ids=["plain", "formatted"],
)
def test_cells_are_written(write: Callable[..., None], expected: bytes, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write(str(path), ["h"] * len(ROW), [ROW])
    assert path.read_bytes() == b"h,h,h,h,h,h,h\r\n" + expected + b"\r\n"


def test_failure_leaves_no_file(tmp_path: Path) -> None:
    def rows() -> list[tuple[str]]:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        write_table(str(tmp_path / "table.csv"), ["h"], (row for _ in "a" for row in rows()))
    assert not list(tmp_path.iterdir())
