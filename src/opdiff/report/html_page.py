"""The HTML report: one file that needs no network, no server and no other file. See docs/report.md.

The page in assets/ is built from web/; a report is that page with the data of a comparison inserted.
"""

from __future__ import annotations

import os
from binascii import b2a_base64
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import open_atomic
from opdiff.report.payload import pack

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison
    from opdiff.report.changes import Changes

PAGE = os.path.join(os.path.dirname(__file__), "assets", "report.html")
_DATA_MARK = b"@@data@@"


def write_html(comparison: Comparison, path: str, changes: Changes | None = None) -> None:
    """Write the report; `changes` since an earlier comparison are shown if given."""
    with open(PAGE, "rb") as file:
        before, _, after = file.read().partition(_DATA_MARK)
    with open_atomic(path) as file:
        file.writelines((before, b2a_base64(pack(comparison, changes), newline=False), after))
