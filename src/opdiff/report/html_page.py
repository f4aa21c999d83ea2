"""The report: one HTML file that needs no network, no server and no other file. See docs/report.md.

The page is built from web/ and stands in assets/; a report is that page with the data of a comparison in its middle.
"""

from __future__ import annotations

import os
from binascii import b2a_base64
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import whole_file
from opdiff.report.payload import Edges, pack

if TYPE_CHECKING:
    from opdiff.report.changes import Changes
    from opdiff.report.rows import SavedComparison

PAGE = os.path.join(os.path.dirname(__file__), "assets", "report.html")
_PLACE = b"@@data@@"


def write_html(kept: SavedComparison, path: str, edges: Edges, changes: Changes | None = None) -> None:
    """Write the whole report.

    Args:
        kept: the comparison.
        path: the file.
        edges: where the bins of histograms begin.
        changes: what is different from an earlier comparison, if that is to be shown.
    """
    with open(PAGE, "rb") as file:
        before, _, after = file.read().partition(_PLACE)
    with whole_file(path) as file:
        file.writelines((before, b2a_base64(pack(kept, edges, changes), newline=False), after))
