"""The HTML report: one file that needs no network, no server and no other file. See docs/report.md.

The page in assets/ is built from web/; a report is that page with the data of a comparison inserted: before the
script what the first view needs, behind it the rows in blocks, which the page reads when it needs them.
"""

from __future__ import annotations

import os
from binascii import b2a_base64
from contextlib import contextmanager
from io import BytesIO
from itertools import count
from typing import IO, TYPE_CHECKING

from opdiff.core.atomic_file import copy_bytes, open_atomic
from opdiff.core.row_store import MAX_ROWS_IN_MEMORY
from opdiff.report.page_rows import MAX_PAGE_ROWS, page_part
from opdiff.report.parts import write_parts
from opdiff.report.payload import PagePayload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from opdiff.core.comparison import Comparison
    from opdiff.core.row_store import MapJobs
    from opdiff.report.changes import Changes
    from opdiff.report.parts import PartWriter

PAGE = os.path.join(os.path.dirname(__file__), "assets", "report.html")
_DATA_MARK, _BLOCKS_MARK = b"@@data@@", b"@@blocks@@"


def write_html(
    comparison: Comparison,
    path: str,
    map_jobs: MapJobs = map,
    changes: Changes | None = None,
    start: int | None = None,
) -> None:
    """Write the report.

    Args:
        comparison: its content.
        path: its file.
        map_jobs: a `map` that may use other processes.
        changes: changes since an earlier comparison, which are shown if given.
        start: number of the row that is shown first; `None` for the overview.

    A very long comparison in graph mode is shown in part, unless the others refer to all of its rows.
    """
    shown = comparison if changes or start is not None else page_part(comparison)
    with _open(shown, path, changes, start) as page:
        write_parts(shown, [page], map_jobs)


def open_whole(comparison: Comparison, path: str) -> AbstractContextManager[PartWriter] | None:
    """Open the report for all rows of a comparison; `None` if the page would not show all of them."""
    return _open(comparison, path) if len(comparison.rows) <= MAX_PAGE_ROWS else None


@contextmanager
def _open(
    comparison: Comparison, path: str, changes: Changes | None = None, start: int | None = None
) -> Iterator[PartWriter]:
    with open(PAGE, "rb") as page:
        before, _, rest = page.read().partition(_DATA_MARK)
    between, _, after = rest.partition(_BLOCKS_MARK)
    with open_atomic(path) as file, _open_buffer(len(comparison.rows), path) as blocks:
        numbers = count()

        def add_block(block: bytes) -> None:
            tag = b'<script type="text/plain" id="block-%d">' % next(numbers)
            blocks.writelines((tag, b2a_base64(block, newline=False), b"</script>\n"))

        payload = PagePayload(comparison, add_block, changes, start)
        yield payload.blocks()
        file.writelines((before, b2a_base64(payload.packed(), newline=False), between))
        blocks.seek(0)
        copy_bytes(blocks, file)
        file.write(after)


def _open_buffer(row_count: int, path: str) -> IO[bytes]:
    """Return a buffer for the blocks, until the part of the page before them is known."""
    if row_count <= MAX_ROWS_IN_MEMORY:
        return BytesIO()
    from tempfile import TemporaryFile

    return TemporaryFile(dir=os.path.dirname(os.path.abspath(path)))
