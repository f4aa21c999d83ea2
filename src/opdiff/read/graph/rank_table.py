"""Files that say where the dump of each rank is, for ranks on several hosts.

[rank.0]
target = "npu-1:/data/run/rank_0"        # HOST:PATH, a path that every worker sees, or a URL
golden = "npu-1:/data/golden/rank_0"
"""

from __future__ import annotations

import tomllib

import msgspec
from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.errors import InputError
from opdiff.core.input_file import read_input
from opdiff.core.reasons import because
from opdiff.core.remote.hosts import host_url

_MAX_NBYTES = 16 << 20


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
        content = tomllib.loads(read_input(path, _MAX_NBYTES).decode())
        table = msgspec.convert(content, _Table)
        ranks = {int(number): sides for number, sides in table.rank.items()}
    except OSError as error:
        raise InputError(path, because("core.cannot_read", error=error.strerror)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, because("read.not_rank_table", error=str(error))) from error
    if not ranks:
        raise InputError(path, because("read.no_rank_in_table"))
    return {number: RankSides(_whole(ranks[number].target), _whole(ranks[number].golden)) for number in sorted(ranks)}


def _whole(path: str) -> str:
    return filesystem.abspath(host_url(path))
