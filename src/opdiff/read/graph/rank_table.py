"""Files that say where the dump of each rank is, for ranks on several hosts.

[rank.0]
target = "npu-1:/data/run/rank_0"        # HOST:PATH, a path that every worker sees, or a URL
golden = "npu-1:/data/golden/rank_0"
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.core.remote.urls import host_url
from opdiff.read.toml_file import read_toml


class RankSides(Struct, frozen=True, forbid_unknown_fields=True):
    """Directories of one rank."""

    target: str
    golden: str


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    rank: dict[str, RankSides]


def read_rank_table(path: str) -> dict[int, RankSides]:
    """Read a file of the form above; paths are absolute or URLs.

    Raises:
        InputError: it cannot be read, or has another form.
    """
    try:
        table = msgspec.convert(read_toml(path), _Table)
        ranks = {int(number): sides for number, sides in table.rank.items()}
    except ValueError as error:
        raise InputError(path, because("read.not_rank_table", error=str(error))) from error
    if not ranks:
        raise InputError(path, because("read.no_rank_in_table"))
    return {number: RankSides(_whole(ranks[number].target), _whole(ranks[number].golden)) for number in sorted(ranks)}


def _whole(path: str) -> str:
    return filesystem.abspath(host_url(path))
