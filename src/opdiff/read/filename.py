"""Parser of dump file names; returns `None` for names that fit no pattern. See docs/formats/file-names.md."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.tensor import Slot

# The runtime replaces blanks, dots and slashes in names and keeps all other characters but control characters.
_WORD = r"[^./\\\s\x00-\x1f\x7f]+"
_DIGITS = r"[0-9]{1,255}"
_DUMP = rf"({_WORD})\.({_WORD})((?:\.{_DIGITS}){{2,7}})(\.csv|\.npz|_min_max\.npz)?"
# The usual form, with a name, task, stream and timestamp.
_USUAL_DUMP = re.compile(rf"({_WORD})\.({_WORD})\.([0-9]{{1,13}})\.([0-9]{{1,13}})\.([0-9]{{14,255}})")
_GOLDEN = re.compile(rf"([^/\\\x00-\x1f\x7f]+?)\.([0-9]{{1,9}})(?:\.({_DIGITS}))?\.(npy|npz|pb|quant)")
_FX = re.compile(rf"([^/.-]+)-([^/]+?)\.(INPUT|OUTPUT)\.({_DIGITS})(?:\.({_DIGITS}))?\.({_DIGITS})\.npy")
_FX_SLOTS = {"INPUT": Slot.INPUT, "OUTPUT": Slot.OUTPUT}
_CONVERTED = rf"(.+)\.(input|output)\.({_DIGITS})(?:\.[0-9x]+)?\.npy"
# Dump of a kernel that failed: stream, task, type and number of the core, and a date to the millisecond.
_DATE_MS = r"20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])[0-9]{9}"
_EXCEPTION = rf"({_WORD})\.({_DIGITS})\.({_DIGITS})\.{_DIGITS}\.{_DIGITS}\.({_DATE_MS})"
_EXCEPTION_INFO = rf"(exception_info)\.({_DIGITS})\.({_DIGITS})(?:\.{_DIGITS})*?\.([0-9]{{14,255}})"
_DIGITS_ONLY = rf"{_DIGITS}(?:\.npy)?"
_LXSLICE = r"_lxslice([0-9]+)"
_LXSLICE_AT_END = r"_lxslice[0-9]+$"
_SUB_GRAPH = r".*sgt_graph_[0-9]+_(?=.)"
# Microseconds since the epoch have 16 digits, a date and time 14 or 17; identifiers are much shorter.
_MIN_TIMESTAMP_DIGITS = 14
# Index of the timestamp by the number of numeric fields, if none of them is that long.
_DEFAULT_TIMESTAMP_INDEX = {2: 1, 3: 2, 4: 3, 5: 1, 6: 2, 7: 2}
_FFTS_PLUS = 4
# Suffix of files that the documented script reduced to minimum and maximum.
_REDUCED = "_min_max"
_REDUCED_ARCHIVE, _REDUCED_ARRAY = f"{_REDUCED}.npz", f"{_REDUCED}.npy"
GOLDEN_MANIFEST = "opdiff-golden.json"
"""File with which `golden` states the origin of a directory."""

# Known files of dump directories that are not dumps.
COMPANIONS = frozenset({"mapping.csv", "convert_failed_file_list.txt", GOLDEN_MANIFEST})


class DumpName(Struct, frozen=True, gc=False):
    """`{op_type}.{op_name}[.{dump_number}].{task_id}[.{stream_id}].{timestamp}[.{type}.{context}.{thread}[.{device}]]`.

    Exception dumps have the kernel as `op_name`, and no type. Numbers that a name does not have are `None`. `suffix` is
    `.csv` for statistics, `.npz` for a converted archive, `_min_max.npz` for a reduced one.
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
    def statistics(self) -> bool:
        """Whether the file has statistics instead of data."""
        return self.suffix == ".csv"

    @property
    def reduced(self) -> bool:
        """Whether the file has minimum and maximum of tensors instead of their data."""
        return self.suffix == _REDUCED_ARCHIVE

    @property
    def is_slice(self) -> bool:
        """Whether the file has one slice of an operator that FFTS+ scheduling divided."""
        return self.task_type == _FFTS_PLUS

    @property
    def is_manual(self) -> bool:
        """Whether the slice was defined manually, with its number in the name, and not by the scheduler."""
        return self.is_slice and "_lxslice" in self.op_name

    @property
    def slice_number(self) -> int:
        """Number of the slice: the thread number, or the number in the name of a manual slice."""
        if self.is_manual:
            return int(re.findall(_LXSLICE, self.op_name)[-1])
        return self.thread_id or 0

    @property
    def is_debug(self) -> bool:
        """Whether the file has overflow debug records instead of an operator's data."""
        return self.op_type == "Opdebug" and self.op_name == "Node_OpDebug"


class GoldenName(Struct, frozen=True, gc=False):
    """`{op_name}.{output_index}[.{timestamp}].npy`, or `.npz`, `.pb`, `.quant`; `reduced` to minimum and maximum."""

    op_name: str
    index: int
    timestamp: int | None
    suffix: str
    reduced: bool = False


class FxName(Struct, frozen=True, gc=False):
    """`{node}-{target}.INPUT|OUTPUT.{index}[.{element}].{timestamp}.npy`; `reduced` to minimum and maximum."""

    node: str
    target: str
    slot: Slot
    index: int
    element: int | None
    timestamp: int
    reduced: bool = False

    @property
    def op_name(self) -> str:
        """Node and target, as graph texts write them."""
        return f"{self.node}-{self.target}"

    @property
    def tensor(self) -> tuple[object, ...]:
        """Key of the tensor in its graph, where names of nodes are unique."""
        return self.node, self.target, self.slot, self.index, self.element


class ConvertedName(Struct, frozen=True):
    """`{dump name}.input|output.{index}[.{d0xd1x…}].npy`: one tensor that was converted from a dump."""

    dump: DumpName
    slot: Slot
    index: int

    @property
    def reduced(self) -> bool:
        """Always false."""
        return False

    @property
    def op_name(self) -> str:
        """Name of the operator in the dump file."""
        return self.dump.op_name

    @property
    def timestamp(self) -> int:
        """Timestamp of the dump file."""
        return self.dump.timestamp


FileName = DumpName | GoldenName | FxName | ConvertedName


def parse_name(name: str) -> FileName | None:
    """Parse the base name of a file; `None` if it fits no pattern."""
    if name.endswith(_REDUCED_ARRAY):
        whole = name.replace(_REDUCED_ARRAY, ".npy")
        parsed = _parse_fx(whole) or _parse_golden(whole)
        return replace(parsed, reduced=True) if parsed else None
    if name.endswith(".npy"):
        return _parse_converted(name) or _parse_fx(name) or _parse_golden(name)
    if name.endswith((".pb", ".quant")):
        return _parse_golden(name)
    return parse_dump_name(name) or (_parse_golden(name) if name.endswith(".npz") else None)


def parse_dump_name(name: str) -> DumpName | None:
    """Parse the base name of an NPU dump file; `None` for other names."""
    usual = _USUAL_DUMP.fullmatch(name)
    if usual is not None and not usual[2].isdecimal():
        op_type, op_name, task_id, stream_id, timestamp = usual.groups()
        return DumpName(op_type, op_name, int(task_id), int(stream_id), int(timestamp))
    if (exception := _parse_exception(name)) is not None:
        return exception
    match = re.fullmatch(_DUMP, name)
    if match is None:
        return None
    op_type, op_name, fields, suffix = match.groups()
    numbers = fields[1:].split(".")
    position = _timestamp_index(numbers)
    if position is None:
        return None
    values = [*map(int, numbers)]
    before, after = values[:position], values[position + 1 :]
    task_type, context_id, thread_id = after[:3] or (None, None, None)
    return DumpName(
        op_type,
        op_name,
        before[-1] if len(before) == 1 else before[-2],
        before[-1] if len(before) > 1 else None,
        values[position],
        before[0] if len(before) == 3 else None,
        task_type,
        context_id,
        thread_id,
        after[3] if len(after) == 4 else None,
        suffix or "",
    )


def is_hashed(name: str) -> bool:
    """Return whether the name is a hash; `mapping.csv` has the real name."""
    return name[:1].isdecimal() and re.fullmatch(_DIGITS_ONLY, name) is not None


def without_slices(op_name: str) -> str:
    """Return the name without slice numbers."""
    return re.sub(_LXSLICE, "", op_name) if "_lxslice" in op_name else op_name


def operator_name(op_name: str, *, with_rules: bool = False) -> str | None:
    """Return the operator's name without the additions of the scheduler; `None` if that is ambiguous.

    `with_rules` keeps the sub-graph prefix, which fusion rule files have, too.
    """
    if "_lxslice" in op_name:
        if with_rules:
            return without_slices(op_name)
        if len(re.findall(_LXSLICE, op_name)) == 1:
            op_name = re.sub(_LXSLICE_AT_END, "", op_name)
    if "_sgt_graph" in op_name:
        op_name = re.sub(_SUB_GRAPH, "", op_name)
    return None if "_lxslice" in op_name else op_name


def _timestamp_index(numbers: list[str]) -> int | None:
    """Return the index of the timestamp; `None` if the fields around it are not those of a dump name."""
    index = _DEFAULT_TIMESTAMP_INDEX[len(numbers)]
    for position, number in enumerate(numbers):
        if len(number) >= _MIN_TIMESTAMP_DIGITS:
            index = position
            break
    after = len(numbers) - index - 1
    return index if 1 <= index <= 3 and after in (0, 3, 4) else None


def _parse_exception(name: str) -> DumpName | None:
    """Parse the name of an exception dump, which has a kernel in place of type and name of the operator."""
    # Its second field is a number, and most names of operators do not begin with a digit.
    if not name.partition(".")[2][:1].isdigit():
        return None
    match = re.fullmatch(_EXCEPTION_INFO if name.startswith("exception_info.") else _EXCEPTION, name)
    if match is None:
        return None
    kernel, stream, task, timestamp = match.groups()
    return DumpName("", kernel, int(task), int(stream), int(timestamp))


def _parse_converted(name: str) -> ConvertedName | None:
    if ".input." not in name and ".output." not in name:
        return None
    match = re.fullmatch(_CONVERTED, name)
    dump = parse_dump_name(match[1]) if match else None
    return ConvertedName(dump, Slot(match[2]), int(match[3])) if match and dump else None


def _parse_fx(name: str) -> FxName | None:
    match = _FX.fullmatch(name) if "PUT." in name else None
    if match is None:
        return None
    node, target, slot, index, element, timestamp = match.groups()
    return FxName(node, target, _FX_SLOTS[slot], int(index), int(element) if element else None, int(timestamp))


def _parse_golden(name: str) -> GoldenName | None:
    match = _GOLDEN.fullmatch(name)
    if match is None:
        return None
    op_name, index, timestamp, suffix = match.groups()
    return GoldenName(op_name, int(index), int(timestamp) if timestamp else None, suffix)
