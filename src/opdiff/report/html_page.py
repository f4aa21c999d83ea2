"""The HTML report: one file that needs no network, no server and no other file. See docs/report.md.

The page in assets/ is built from web/; a report is that page with the data of a comparison inserted.
"""

from __future__ import annotations

import os
from binascii import b2a_base64
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import open_atomic
from opdiff.report.page_rows import page_part
from opdiff.report.payload import pack

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.report.changes import Changes

PAGE = os.path.join(os.path.dirname(__file__), "assets", "report.html")
_DATA_MARK = b"@@data@@"


def write_html(comparison: Comparison, path: str, changes: Changes | None = None, start: int | None = None) -> None:
    """Write the report.

    Args:
        comparison: its content.
        path: its file.
        changes: changes since an earlier comparison, which are shown if given.
        start: number of the row that is shown first; `None` for the overview.

    A long comparison in graph mode is shown in part, unless the others refer to all of its rows.
    """
    shown = comparison if changes or start is not None else page_part(comparison)
    with open(PAGE, "rb") as file:
        before, _, after = file.read().partition(_DATA_MARK)
    with open_atomic(path) as file:
        file.writelines((before, b2a_base64(pack(shown, changes, start), newline=False), after))
