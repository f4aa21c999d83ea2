"""The dump of the step before, whose data an output may still hold."""

from __future__ import annotations

import os

from opdiff.core import filesystem
from opdiff.core.errors import OpdiffError
from opdiff.pair.dump_index import DumpIndex
from opdiff.read.dump import read_dump


def read_earlier_step(folder: str) -> DumpIndex | None:
    """Read the dump of the step before the step of a folder `{model_id}/{step}`; `None` if there is none."""
    parent, name = os.path.split(folder.rstrip("/"))
    if not name.isdecimal():
        return None
    try:
        steps = [int(item.name) for item in filesystem.list_folder(parent) if item.name.isdecimal()]
        earlier = max((step for step in steps if step < int(name)), default=None)
        return None if earlier is None else DumpIndex(read_dump(os.path.join(parent, str(earlier)), with_rules=True))
    except (OpdiffError, OSError):
        return None
