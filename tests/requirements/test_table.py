"""The table of requirements is the one that the tests make, and each row says something of its own."""

from __future__ import annotations

import re
from collections import Counter

from requirements.requirement import PAGE, make_page

_ROW = re.compile(r"^\| ([NCOST]\d+) \| (.+?) \| (.+) \| `(\w+)` \|$", re.MULTILINE)


def test_the_page_has_the_rows_of_the_tests() -> None:
    assert PAGE.read_text() == make_page(), "run `make requirements`"


def test_rows_are_complete_and_different() -> None:
    rows = _ROW.findall(make_page())
    assert len(rows) == len({number for number, *_ in rows}) >= 196
    assert [row for row, times in Counter((place, text) for _, place, text, _ in rows).items() if times > 1] == []
