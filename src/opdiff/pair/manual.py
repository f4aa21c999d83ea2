"""Pairings that the user wrote down; they override what they name and nothing else.

[[pair]]
target = "conv1:output:0"       # operator, input or output, number; `conv1` alone is `conv1:output:0`
golden = "Conv_0:output:0"
layout = "NCHW"                 # of the golden array, where it matters; may be left out

A tensor without a row of its own gets one.
"""

from __future__ import annotations

import re
import tomllib

from opdiff.comparison import OpLabel, Pairing, Unpaired
from opdiff.errors import InputError, UsageError
from opdiff.model import Slot, TensorKey
from opdiff.pair.names import flat
from opdiff.values import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.comparison import DumpedOp
    from opdiff.model import Tensor
    from opdiff.pair.names import DumpIndex

    Row = Pairing | Unpaired
    Place = tuple[str, Slot, int]

_KEY = re.compile(r"(.+?)(?::(input|output):([0-9]{1,9}))?")
_MAX_BYTES = 64 << 20


class ManualPair(NamedTuple):
    """One pairing of the user's."""

    target: TensorKey
    golden: TensorKey
    layout: str = ""


def read_pairs(path: str) -> tuple[ManualPair, ...]:
    """The pairings in a TOML file.

    Raises:
        InputError: it cannot be read, or is not of the form above.
    """
    try:
        with open(path, "rb") as file:
            content = tomllib.loads(file.read(_MAX_BYTES).decode())
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not valid TOML: {error}") from error
    items = content.get("pair")
    if not isinstance(items, list) or set(content) != {"pair"}:
        raise InputError(path, "a list of [[pair]] tables is expected, and nothing else")
    pairs = tuple(_pair(item, f"pair {number}", path) for number, item in enumerate(items, 1))
    _refuse_repeats(pairs, path)
    return pairs


def _pair(item: object, where: str, path: str) -> ManualPair:
    if not isinstance(item, dict) or not all(isinstance(value, str) for value in item.values()):
        raise InputError(path, f"{where}: a table of texts is expected")
    unknown = ", ".join(sorted(set(item) - {"target", "golden", "layout"}))
    if unknown:
        raise InputError(path, f"{where}: {unknown} means nothing here; target, golden and layout do")
    if not item.get("target") or not item.get("golden"):
        raise InputError(path, f"{where}: both target and golden have to be given")
    return ManualPair(parse_key(item["target"]), parse_key(item["golden"]), item.get("layout", ""))


def _refuse_repeats(pairs: Sequence[ManualPair], path: str) -> None:
    seen: set[Place] = set()
    for pair in pairs:
        if _place(pair.target) in seen:
            raise InputError(path, f"{pair.target} is paired twice")
        seen.add(_place(pair.target))


def parse_key(text: str) -> TensorKey:
    """The tensor in `operator:output:0`, `operator:input:1`, or `operator`, which is its output 0."""
    match = _KEY.fullmatch(text)
    if match is None:
        return TensorKey(text, Slot.OUTPUT, 0)
    name, slot, index = match.groups()
    return TensorKey(name, Slot(slot or "output"), int(index or 0))


def override(rows: Iterable[Row], pairs: Sequence[ManualPair], target: DumpIndex, golden: DumpIndex) -> tuple[Row, ...]:
    """The rows with the user's pairings in the place of what was there for the same tensor of the target.

    Raises:
        UsageError: a pairing names a tensor that is not there.
    """
    wanted = {_place(pair.target): pair for pair in pairs}
    result: list[Row] = []
    for row in rows:
        pair = None if row.key is None else wanted.pop(_place(row.key), None)
        result.append(row if pair is None else _row(row.label, row.key or pair.target, pair, target, golden))
    for pair in wanted.values():
        _add(result, pair, target, golden)
    return tuple(result)


def _place(key: TensorKey) -> Place:
    return flat(key.op), key.slot, key.index


def _row(label: OpLabel, key: TensorKey, pair: ManualPair, target: DumpIndex, golden: DumpIndex) -> Row:
    ours, theirs = _tensor(target, pair.target, "target"), _tensor(golden, pair.golden, "golden side")
    label = label._replace(golden=pair.golden.op)
    if isinstance(ours, str) or isinstance(theirs, str):
        reasons = [found for found in (ours, theirs) if isinstance(found, str)]
        described = None if isinstance(ours, str) else ours
        return Unpaired(label, key, described, f"paired by the user with {pair.golden}, but {'; '.join(reasons)}")
    return Pairing(label, key, pair.golden, ours, theirs, pair.layout, (), "paired by the user")


def _add(rows: list[Row], pair: ManualPair, target: DumpIndex, golden: DumpIndex) -> None:
    """Put in a pairing of a tensor that had no row: behind the operator's other rows, else at the end."""
    dump = _operator(target, pair.target, "target")
    wanted = flat(pair.target.op)
    places = [number for number, row in enumerate(rows) if flat(row.key.op if row.key else row.label.target) == wanted]
    if places:
        rows.insert(places[-1] + 1, _row(rows[places[-1]].label, pair.target, pair, target, golden))
        return
    number = max((row.label.index for row in rows), default=-1) + 1
    label = OpLabel(number, 0, dump.op_type, pair.target.op, pair.golden.op)
    rows.append(_row(label, pair.target, pair, target, golden))


def _tensor(index: DumpIndex, key: TensorKey, side: str) -> Tensor | str:
    """The tensor, or why it cannot be read. Which tensors a torn file has is not known, so any may be meant."""
    operator = _operator(index, key, side)
    tensors = operator.tensors(key.slot)
    if key.index in tensors:
        return tensors[key.index]
    if operator.problem:
        return f"{key.op} of the {side} cannot be read: {operator.problem}"
    there = ", ".join(map(str, sorted(tensors))) or "none"
    raise UsageError(f"pairs: the {side} has no {key}; its {key.slot}s are {there}")


def _operator(index: DumpIndex, key: TensorKey, side: str) -> DumpedOp:
    operator = index.find(key.op)
    if operator is None:
        raise UsageError(f"pairs: the {side} has no operator {key.op}{index.hint(key.op)}")
    return operator
