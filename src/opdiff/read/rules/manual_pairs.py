"""Files of pairs that the user declares; they override what they name and nothing else.

[[pair]]
target = "conv1:output:0"       # operator, input or output, number; `conv1` alone is `conv1:output:0`
golden = "Conv_0:output:0"
layout = "NCHW"                 # of the golden array, where it matters; may be left out
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.pairing import ManualPair, parse_key
from opdiff.core.reasons import because
from opdiff.read.toml_file import read_toml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.tensor import TensorKey


def read_pairs(path: str) -> tuple[ManualPair, ...]:
    """Read the pairings of a TOML file.

    Raises:
        InputError: it cannot be read, or is not of the form above.
    """
    content = read_toml(path)
    items = content.get("pair")
    if not isinstance(items, list) or set(content) != {"pair"}:
        raise InputError(path, because("rules.pair_tables"))
    pairs = tuple(_pair(item, f"pair {number}", path) for number, item in enumerate(items, 1))
    _refuse_repeats(pairs, path)
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


def _refuse_repeats(pairs: Sequence[ManualPair], path: str) -> None:
    seen: set[TensorKey] = set()
    for pair in pairs:
        if pair.target.in_file_form in seen:
            raise InputError(path, because("rules.paired_twice", tensor=str(pair.target)))
        seen.add(pair.target.in_file_form)
