"""TOML files in which the user declares pairs, shards, or the directories of ranks.

[[pair]]                            # overrides what it names and nothing else
target = "conv1:output:0"           # operator, input or output, number; `conv1` alone is `conv1:output:0`
golden = "Conv_0:output:0"
layout = "NCHW"                     # of the golden array, where it matters; may be left out

ranks = [0, 1, 2, 3]                # that share tensors, in the order of their parts; all, if left out
[[shard]]
tensor = "MatMul_3:output:0"        # or an operator alone; `*` stands for any characters
join = "concat"                     # or "add" (partial sums), or "copy"
axis = 1                            # of the golden tensor
blocks = 1                          # 3 for a projection to query, key and value, each of which is divided

[rank.0]
target = "/share/run/rank_0"         # a path, which all workers of a cluster must see, or a URL
golden = "/share/golden/rank_0"
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.errors import InputError
from opdiff.core.filesystem import read_input
from opdiff.core.pairing import ManualPair, parse_key
from opdiff.core.reasons import Status, because
from opdiff.core.shards import ShardRules

if TYPE_CHECKING:
    from opdiff.core.tensor import TensorKey

_MAX_NBYTES = 64 << 20


class RankSides(Struct, frozen=True, forbid_unknown_fields=True):
    """Directories of one rank."""

    target: str
    golden: str


class _RankTable(Struct, frozen=True, forbid_unknown_fields=True):
    rank: dict[str, RankSides]


def read_pairs(path: str) -> tuple[ManualPair, ...]:
    """Read a file of pairs.

    Raises:
        InputError: it cannot be read, or is not of the form above.
    """
    content = _read_toml(path)
    items = content.get("pair")
    if not isinstance(items, list) or set(content) != {"pair"}:
        raise InputError(path, because("rules.pair_tables"))
    pairs = tuple(_pair(item, f"pair {number}", path) for number, item in enumerate(items, 1))
    seen: set[TensorKey] = set()
    for pair in pairs:
        if pair.target.in_file_form in seen:
            raise InputError(path, because("rules.paired_twice", tensor=str(pair.target)))
        seen.add(pair.target.in_file_form)
    return pairs


def _pair(item: object, where: str, path: str) -> ManualPair:
    if not isinstance(item, dict) or not all(isinstance(value, str) for value in item.values()):
        raise InputError(path, because("rules.pair_texts", where=where))
    unknown = ", ".join(sorted(set(item) - {"target", "golden", "layout"}))
    if unknown:
        raise InputError(path, because("rules.pair_unknown_key", where=where, key=unknown))
    if not item.get("target") or not item.get("golden"):
        raise InputError(path, because("rules.pair_incomplete", where=where))
    return ManualPair(parse_key(item["target"]), parse_key(item["golden"]), item.get("layout", ""))


def read_shards(path: str) -> ShardRules:
    """Read a file of shards.

    Raises:
        InputError: it cannot be read, or has another form.
    """
    try:
        rules = msgspec.convert(_read_toml(path), ShardRules)
    except msgspec.ValidationError as error:
        raise InputError(path, because("rules.not_shards", error=str(error))) from error
    if len(set(rules.ranks)) < len(rules.ranks):
        raise InputError(path, because("rules.rank_twice"))
    if any(rule.blocks < 1 for rule in rules.shard):
        raise InputError(path, because("rules.blocks_at_least_one"))
    return rules


def read_rank_table(path: str) -> dict[int, RankSides]:
    """Read a file with the directories of ranks; paths are absolute or URLs.

    Raises:
        InputError: it cannot be read, or has another form.
    """
    try:
        table = msgspec.convert(_read_toml(path), _RankTable)
        ranks = {int(number): sides for number, sides in table.rank.items()}
    except ValueError as error:
        raise InputError(path, because("read.not_rank_table", error=str(error))) from error
    if not ranks:
        raise InputError(path, because("read.no_rank_in_table"))
    return {number: RankSides(_whole(ranks[number].target), _whole(ranks[number].golden)) for number in sorted(ranks)}


def _whole(path: str) -> str:
    return filesystem.abspath(path)


def _read_toml(path: str) -> dict[str, object]:
    try:
        return tomllib.loads(read_input(path, _MAX_NBYTES).decode())
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, because("rules.not_toml", error=str(error))) from error
