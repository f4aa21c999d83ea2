"""What the name of a file says. See docs/formats/file-names.md for the patterns.

Nothing is opened here. A name that fits no pattern gives `None`; it is not guessed at.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from opdiff.core.tensor import Slot

# The runtime replaces blanks, dots and slashes in names; everything else stays, but for control characters.
_WORD = r"[^./\\\s\x00-\x1f\x7f]+"
_DIGITS = r"[0-9]{1,255}"
_DUMP = re.compile(rf"({_WORD})\.({_WORD})((?:\.{_DIGITS}){{2,7}})(\.csv|\.npz|_min_max\.npz)?")
_GOLDEN = re.compile(rf"([^/\\\x00-\x1f\x7f]+?)\.([0-9]{{1,9}})(?:\.({_DIGITS}))?\.(npy|npz|pb|quant)")
_FX = rf"([^/.-]+)-([^/]+?)\.(INPUT|OUTPUT)\.({_DIGITS})(?:\.({_DIGITS}))?\.({_DIGITS})\.npy"
_CONVERTED = rf"(.+)\.(input|output)\.({_DIGITS})(?:\.[0-9x]+)?\.npy"
_DIGITS_ONLY = rf"{_DIGITS}(?:\.npy)?"
_LXSLICE = r"_lxslice([0-9]+)"
_LXSLICE_AT_END = r"_lxslice[0-9]+$"
_SUB_GRAPH = r".*sgt_graph_[0-9]+_(?=.)"
# Microseconds since the epoch have 16 digits, a date and time 14; identifiers never come near.
_TIMESTAMP_DIGITS = 14
# Where the timestamp is among the numeric fields when none of them is long enough to tell.
_USUAL_PLACE = {2: 1, 3: 2, 4: 3, 5: 1, 6: 2, 7: 2}
_FFTS_PLUS = 4
# What the documented script puts behind names when it reduces dumps to their smallest and largest numbers.
_REDUCED = "_min_max"
_REDUCED_ARCHIVE = f"{_REDUCED}.npz"
# Files of a dump directory that are not dumps.
COMPANIONS = frozenset({"mapping.csv", "convert_failed_file_list.txt"})


class DumpName(NamedTuple):
    """`{op_type}.{op_name}[.{dump_number}].{task_id}[.{stream_id}].{timestamp}[.{type}.{context}.{thread}[.{device}]]`.

    Numbers that a name does not have are `None`. `suffix` is `.csv` for statistics, `.npz` for an archive that was
    converted, `_min_max.npz` for one that was reduced.
    """

    op_type: str
    op_name: str
    task_id: int
    stream_id: int | None
    timestamp: int
    dump_number: int | None = None
    task_type: int | None = None
    context_id: int | None = None
    thread_id: int | None = None
    device_id: int | None = None
    suffix: str = ""

    @property
    def kind(self) -> str:
        """The pattern that the name fits."""
        return "npu"

    @property
    def statistics(self) -> bool:
        """Whether the file is a table of statistics."""
        return self.suffix == ".csv"

    @property
    def reduced(self) -> bool:
        """Whether the file has the smallest and largest numbers of tensors instead of their data."""
        return self.suffix == _REDUCED_ARCHIVE

    @property
    def is_slice(self) -> bool:
        """Whether the file holds one slice of an operator that FFTS+ cut up."""
        return self.task_type == _FFTS_PLUS

    @property
    def is_manual(self) -> bool:
        """Whether the slice was cut by hand (its number is in the name) and not by the scheduler."""
        return self.is_slice and "_lxslice" in self.op_name

    @property
    def slice_number(self) -> int:
        """Which slice it is: the thread's number, or the whole number at the end of a manual slice's name."""
        if self.is_manual:
            return int(re.findall(_LXSLICE, self.op_name)[-1])
        return self.thread_id or 0

    @property
    def is_debug(self) -> bool:
        """Whether the file holds overflow debug records instead of an operator's data."""
        return self.op_type == "Opdebug" and self.op_name == "Node_OpDebug"


class GoldenName(NamedTuple):
    """`{op_name}.{output_index}[.{timestamp}].npy`, or `.npz`, `.pb`, `.quant`; `reduced` to smallest and largest."""

    op_name: str
    index: int  # type: ignore[assignment]  # hides tuple.index
    timestamp: int | None
    suffix: str
    reduced: bool = False

    @property
    def kind(self) -> str:
        """The pattern that the name fits."""
        return "golden"


class FxName(NamedTuple):
    """`{node}-{target}.INPUT|OUTPUT.{index}[.{element}].{timestamp}.npy`; `reduced` to smallest and largest."""

    node: str
    target: str
    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index
    element: int | None
    timestamp: int
    reduced: bool = False

    @property
    def kind(self) -> str:
        """The pattern that the name fits."""
        return "fx"

    @property
    def op_name(self) -> str:
        """Node and target, as graph texts write them."""
        return f"{self.node}-{self.target}"


class ConvertedName(NamedTuple):
    """`{dump name}.input|output.{index}[.{d0xd1x…}].npy`: one tensor that was converted from a dump."""

    dump: DumpName
    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index

    @property
    def kind(self) -> str:
        """The pattern that the name fits."""
        return "converted"

    @property
    def reduced(self) -> bool:
        """A converted tensor is whole."""
        return False

    @property
    def op_name(self) -> str:
        """The operator's name as the dump file carried it."""
        return self.dump.op_name

    @property
    def timestamp(self) -> int:
        """The dump's time."""
        return self.dump.timestamp


FileName = DumpName | GoldenName | FxName | ConvertedName


def parse_name(name: str) -> FileName | None:
    """What a file's base name says, if it fits a pattern."""
    if name.endswith(f"{_REDUCED}.npy"):
        whole = name.replace(f"{_REDUCED}.npy", ".npy")
        parsed = _parse_fx(whole) or _parse_golden(whole)
        return parsed._replace(reduced=True) if parsed else None
    if name.endswith(".npy"):
        return _parse_converted(name) or _parse_fx(name) or _parse_golden(name)
    if name.endswith((".pb", ".quant")):
        return _parse_golden(name)
    return parse_dump_name(name) or (_parse_golden(name) if name.endswith(".npz") else None)


def parse_dump_name(name: str) -> DumpName | None:
    """What the name of a dump file says, if it is one."""
    match = _DUMP.fullmatch(name)
    if match is None:
        return None
    op_type, op_name, fields, suffix = match.groups()
    numbers = fields.split(".")[1:]
    place = _timestamp_place(numbers)
    if place is None:
        return None
    before, after = [int(n) for n in numbers[:place]], [int(n) for n in numbers[place + 1 :]]
    return DumpName(
        op_type,
        op_name,
        task_id=before[-1] if len(before) == 1 else before[-2],
        stream_id=before[-1] if len(before) > 1 else None,
        timestamp=int(numbers[place]),
        dump_number=before[0] if len(before) == 3 else None,
        task_type=after[0] if after else None,
        context_id=after[1] if after else None,
        thread_id=after[2] if after else None,
        device_id=after[3] if len(after) == 4 else None,
        suffix=suffix or "",
    )


def is_hashed(name: str) -> bool:
    """Whether the name is a hash, whose real name stands in `mapping.csv`."""
    return name[:1].isdecimal() and re.fullmatch(_DIGITS_ONLY, name) is not None


def without_slices(op_name: str) -> str:
    """The name without the numbers of its slices."""
    return re.sub(_LXSLICE, "", op_name) if "_lxslice" in op_name else op_name


def operator_name(op_name: str, *, with_rules: bool = False) -> str | None:
    """The operator that a name field means, without the scheduler's additions; `None` when that cannot be told.

    `with_rules` is for names that a fusion rule file will be asked for: it knows the sub-graph's prefix.
    """
    if "_lxslice" in op_name:
        if with_rules:
            return without_slices(op_name)
        if len(re.findall(_LXSLICE, op_name)) == 1:
            op_name = re.sub(_LXSLICE_AT_END, "", op_name)
    if "_sgt_graph" in op_name:
        op_name = re.sub(_SUB_GRAPH, "", op_name)
    return None if "_lxslice" in op_name else op_name


def _timestamp_place(numbers: list[str]) -> int | None:
    """Where the timestamp is; `None` if what stands around it makes no dump name."""
    long_ones = (place for place, number in enumerate(numbers) if len(number) >= _TIMESTAMP_DIGITS)
    place = next(long_ones, _USUAL_PLACE[len(numbers)])
    before, after = place, len(numbers) - place - 1
    return place if 1 <= before <= 3 and after in (0, 3, 4) else None


def _parse_converted(name: str) -> ConvertedName | None:
    if ".input." not in name and ".output." not in name:
        return None
    match = re.fullmatch(_CONVERTED, name)
    dump = parse_dump_name(match[1]) if match else None
    return ConvertedName(dump, Slot(match[2]), int(match[3])) if match and dump else None


def _parse_fx(name: str) -> FxName | None:
    match = re.fullmatch(_FX, name) if "PUT." in name else None
    if match is None:
        return None
    node, target, slot, index, element, timestamp = match.groups()
    return FxName(node, target, Slot(slot.lower()), int(index), int(element) if element else None, int(timestamp))


def _parse_golden(name: str) -> GoldenName | None:
    match = _GOLDEN.fullmatch(name)
    if match is None:
        return None
    op_name, index, timestamp, suffix = match.groups()
    return GoldenName(op_name, int(index), int(timestamp) if timestamp else None, suffix)
