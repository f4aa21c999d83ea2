"""One tensor of one operator, element by element: the way of `opdiff op` and `opdiff compare -op`.

dumps, rules ──pair──► Pairing ──walk──► blocks ──measure──► Detail ──write──► tables, .npy
└──detective──► Explanation, …
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from opdiff.align.walk import walk_pair
from opdiff.core import codes as elements
from opdiff.core.comparison import Measured, Pairing, Unpaired
from opdiff.core.errors import InputError, UsageError
from opdiff.core.formatting import format_number
from opdiff.core.tensor import Slot, TensorKey
from opdiff.measure.detail import Examination, compare_block, real_shape
from opdiff.run import usable_cores
from opdiff.workflows.compare.batch import is_possible, measure_batch
from opdiff.workflows.compare.inputs import NotCompared
from opdiff.workflows.compare.job import Extras, MeasureJob, measure_pairing
from opdiff.workflows.compare.pipeline import conversions, map_pairs
from opdiff.workflows.convert.write.elements import (
    element_names,
    remove_old,
    row_form,
    rows_text,
    write_array,
    write_mapping,
    write_rows,
    write_summary,
)
from opdiff.workflows.element_diff.detective import Suspect, investigate
from opdiff.workflows.element_diff.detective.hypotheses import axis_letters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.align.walk import Walk, WalkedPair
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Metrics
    from opdiff.core.tensor import Shape
    from opdiff.measure.detail import Detail, Element, ElementBlock
    from opdiff.workflows.compare.inputs import CompareOptions
    from opdiff.workflows.compare.pipeline import Pairs
    from opdiff.workflows.convert.write.elements import ElementNames, RowForm
    from opdiff.workflows.element_diff.detective import Explanation

    Progress = Callable[[int, int], None]

BLOCK = 1 << 16
# Pages that were read are given back after so many blocks.
_RELEASE_EVERY = 64
# Beyond this many elements their tables are written only when they are asked for.
MANY_ELEMENTS = 1 << 24


class SingleOptions(NamedTuple):
    """Which tensor, and what is wanted of it.

    Attributes:
        name: an operator, or one of its tensors, as `conv1:output:0`.
        slot: inputs or outputs, where the name does not tell.
        number: which of them.
        most: how many of the worst elements.
        max_rows: rows of a table of elements.
        tables: whether to write tables of all elements; `None`: unless there are very many.
    """

    name: str
    slot: Slot = Slot.OUTPUT
    number: int = 0
    most: int = 20
    max_rows: int = 1_000_000
    tables: bool | None = None


class TensorLine(NamedTuple):
    """What a comparison says about one tensor of the operator."""

    key: TensorKey
    dtype: str
    shape: Shape
    metrics: Metrics | None
    reason: str


class SingleReport(NamedTuple):
    """Everything about one tensor; see the values that it is made of."""

    key: TensorKey
    golden_key: TensorKey
    op_type: str
    rule: str
    target_path: str
    golden_path: str
    target_dtype: str
    golden_dtype: str
    letters: str
    steps: tuple[str, ...]
    doubt: str
    tensors: tuple[TensorLine, ...]
    metrics: Metrics | None
    overflow: bool | None
    detail: Detail
    explanations: tuple[Explanation, ...]
    files: tuple[str, ...]
    notes: tuple[str, ...]


def examine_operator(
    options: CompareOptions, wanted: SingleOptions, progress: Progress = lambda _done, _all: None
) -> SingleReport:
    """Compare one tensor element by element, and write what there is to write to the output folder.

    Raises:
        UsageError: there is no such operator or tensor, or the options contradict each other or the data.
        InputError: a side or a rule file cannot be used, or the tensor cannot be compared.
        DumpError, ElementError, LayoutError: the tensor cannot be read or aligned.
    """
    if os.path.isdir(options.fusion_rules):
        raise UsageError("one operator is looked at with one rule file; give that of its model instead of a directory")
    (pairs,) = map_pairs(options, every_operator=False)
    if isinstance(pairs, NotCompared):
        raise InputError(pairs.path, pairs.reason)
    pairing = find_pairing(pairs, wanted)
    custom = conversions(options)
    lines, measured = _overview(pairs, pairing, options)
    pair = walk_pair(pairing, custom)
    detail = _examine(pair, wanted.most, progress)
    suspects = [_suspect(row, pairing) for row in pairs if isinstance(row, Pairing) and row is not pairing]
    letters = axis_letters(pairing.layout, len(pair.golden.shape))
    writer = _Writer(pair, detail, element_names(options.output, pairing.key), wanted)
    files, notes = writer.write(pairing, letters)
    return SingleReport(
        key=pairing.key,
        golden_key=pairing.golden_key,
        op_type=pairing.label.op_type,
        rule=pairing.rule,
        target_path=pairing.target.data.source.path,
        golden_path=pairing.golden.data.source.path,
        target_dtype=pair.target.dtype.name,
        golden_dtype=pair.golden.dtype.name,
        letters=letters,
        steps=(*pairing.target.data.notes, *pairing.golden.data.notes, *pair.steps),
        doubt=pair.doubt,
        tensors=lines,
        metrics=measured.metrics,
        overflow=measured.overflow,
        detail=detail,
        explanations=investigate(pairing, suspects, custom),
        files=files,
        notes=notes,
    )


def find_pairing(pairs: Pairs, wanted: SingleOptions) -> Pairing:
    """The pairing that is asked for, by the name of the target's operator or of the golden one.

    Raises:
        UsageError: there is no such operator or tensor; the nearest names are told.
        InputError: it has no counterpart.
    """
    name, slot, number = _parse_key(wanted)
    rows = [row for row in pairs if name in _names(row)]
    rows = rows or [row for row in pairs if _safe(name) in map(_safe, _names(row))]
    if not rows:
        raise UsageError(_unknown(name, pairs))
    for row in rows:
        if row.key is None or (row.key.slot, row.key.index) == (slot, number):
            if isinstance(row, Pairing):
                return row
            raise InputError(str(row.key or name), row.reason)
    there = ", ".join(f"{row.key.slot}:{row.key.index}" for row in rows if row.key is not None)
    raise UsageError(f"{name} has no {slot} {number} here; there are {there}")


def _parse_key(wanted: SingleOptions) -> tuple[str, Slot, int]:
    name, _, rest = wanted.name.rpartition(":")
    op, _, slot = name.rpartition(":")
    if op and slot in set(Slot) and rest.isdecimal():
        return op, Slot(slot), int(rest)
    return wanted.name, wanted.slot, wanted.number


def _names(row: Pairing | Unpaired) -> list[str]:
    """By what a row can be asked for: its own operator before the golden one."""
    if row.key is None:
        return row.label.target.split(",")
    return [row.key.op, row.golden_key.op] if isinstance(row, Pairing) and row.key.slot is Slot.OUTPUT else [row.key.op]


def _safe(name: str) -> str:
    """A name as file names carry it."""
    return name.translate(str.maketrans(" ./\\", "____"))


def _unknown(name: str, pairs: Pairs) -> str:
    from difflib import get_close_matches

    known = dict.fromkeys(known for row in pairs for known in _names(row) if known != "*")
    near = get_close_matches(name, known, 3) or [other for other in known if name.lower() in other.lower()][:3]
    if not near:
        return f"there is no operator {name!r} among the {len(known)} that can be compared"
    return f"there is no operator {name!r}; did you mean {' or '.join(near)}?"


def _suspect(row: Pairing, pairing: Pairing) -> Suspect:
    key = row.key
    same = key.op == pairing.key.op and key.slot is Slot.INPUT and pairing.key.slot is Slot.INPUT
    name = f"{row.golden_key}, the golden tensor of {key.slot}:{key.index}" if same else str(row.golden_key)
    return Suspect(name, row.golden.data, same)


def _overview(pairs: Pairs, pairing: Pairing, options: CompareOptions) -> tuple[tuple[TensorLine, ...], Measured]:
    """All tensors of the operator in short, and the one that is looked at."""
    rows = [row for row in pairs if row.key is not None and row.key.op == pairing.key.op]
    extras = Extras(conversions=conversions(options))
    jobs = [MeasureJob(number, row, extras) for number, row in enumerate(rows) if isinstance(row, Pairing)]
    done: dict[int, Measured] = {}
    left: Sequence[MeasureJob] = jobs
    if is_possible(jobs):
        batch = measure_batch(jobs, options.workers or usable_cores(), lambda _done: None)
        done |= {job.number: measured for job, measured in batch.done}
        left = batch.left
    done |= {job.number: measure_pairing(job)[0] for job in left}
    lines = tuple(_line(row, done.get(number)) for number, row in enumerate(rows))
    return lines, next(measured for measured in done.values() if measured.pairing is pairing)


def _line(row: Pairing | Unpaired, measured: Measured | None) -> TensorLine:
    key, target = row.key, row.target.data if row.target else None
    if key is None:
        raise AssertionError("rows of whole operators are left out before")
    if measured is None:
        shape, dtype = (target.spec.shape, target.spec.dtype.name) if target else ((), "")
        return TensorLine(key, dtype, shape, None, row.reason if isinstance(row, Unpaired) else "")
    return TensorLine(key, measured.target_dtype, measured.shape, measured.metrics, measured.reason)


def _iter_blocks(pair: WalkedPair, start: int, stop: int, size: int = BLOCK) -> Iterator[ElementBlock]:
    """The elements in order; `start` and `stop` count them as the tensors do: a complex one once."""
    target, golden = pair.target, pair.golden
    parts = len(real_shape((), target.dtype)) + 1
    stop = min(stop, target.count)
    for number, first in enumerate(range(start, stop, size), 1):
        last = min(first + size, stop)
        sides = target.block(first, last), golden.block(first, last)
        yield compare_block(first * parts, sides[0], target.dtype, sides[1], golden.dtype)
        if number % _RELEASE_EVERY == 0:
            pair.release()


def _examine(pair: WalkedPair, most: int, progress: Progress) -> Detail:
    examination = Examination(real_shape(pair.shape, pair.target.dtype), most)
    for block in _iter_blocks(pair, 0, pair.target.count):
        examination.add(block)
        progress(block.start + block.absolute.size, pair.target.count)
    pair.release()
    return examination.detail()


def _iter_numbers(walk: Walk) -> Iterator[AnyArray]:
    for number, start in enumerate(range(0, walk.count, BLOCK), 1):
        yield elements.decode(walk.block(start, start + BLOCK), walk.dtype)
        if number % _RELEASE_EVERY == 0:
            walk.stored.release()


class _Writer(NamedTuple):
    """Everything that is written about one tensor."""

    pair: WalkedPair
    detail: Detail
    names: ElementNames
    wanted: SingleOptions

    def write(self, pairing: Pairing, letters: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Write the files; returns their paths, and what is to be known about them."""
        shape = self.detail.shape
        form = row_form(letters, shape, self.pair.target.dtype, self.pair.golden.dtype)
        remove_old(self.names)
        if self.names.full:
            write_mapping(self.names)
        paths = [self._array("", self.pair.target), self._array("_golden", self.pair.golden)]
        worst = (("absolute", self.detail.worst_absolute), ("relative", self.detail.worst_relative))
        paths += [self._worst(f"_{which}_error_topn.csv", found, form) for which, found in worst]
        path = self.names.path("_summary.txt")
        write_summary(path, self._facts(pairing, form))
        paths.append(path)
        many = self.wanted.tables is None and self.detail.count > MANY_ELEMENTS
        if self.wanted.tables is False or many:
            note = f"the tables of all {self.detail.count} elements were left out; --tables writes them"
            return tuple(paths), (note,) if many else ()
        return (*paths, *self._tables(form)), ()

    def _array(self, ending: str, walk: Walk) -> str:
        path = self.names.path(f"{ending}.npy")
        empty = elements.decode(walk.block(0, 0), walk.dtype)
        write_array(path, empty.dtype.str, walk.shape, _iter_numbers(walk))
        return path

    def _worst(self, ending: str, found: tuple[Element, ...], form: RowForm) -> str:
        import numpy as np

        path = self.names.path(ending)
        columns = [[item[place] for item in found] for place in range(2, 6)]
        whole = np.array([item.index for item in found], np.intp)
        write_rows(path, form, [rows_text(form, whole, self.detail.shape, columns)] if found else [])
        return path

    def _facts(self, pairing: Pairing, form: RowForm) -> tuple[tuple[str, str], ...]:
        detail = self.detail
        return (
            ("TotalCount", str(detail.count)),
            ("NPUDump", pairing.label.target.replace(",", " ")),
            ("GroundTruth", pairing.label.golden.replace(",", " ")),
            ("Format", form.position),
            ("MinAbsoluteError", format_number(detail.min_absolute)),
            ("MaxAbsoluteError", format_number(detail.max_absolute)),
            ("MinRelativeError", format_number(detail.min_relative)),
            ("MaxRelativeError", format_number(detail.max_relative)),
        )

    def _tables(self, form: RowForm) -> Iterator[str]:
        """All elements, in files of limited length."""
        parts = len(self.detail.shape) - len(self.pair.shape) + 1
        step = self.wanted.max_rows // parts
        for start in range(0, self.pair.target.count, step):
            path = self.names.path(f"_{start * parts}.csv")
            blocks = _iter_blocks(self.pair, start, start + step)
            write_rows(path, form, (_block_text(form, block, self.detail.shape) for block in blocks))
            yield path


def _block_text(form: RowForm, block: ElementBlock, shape: Shape) -> str:
    import numpy as np

    target, golden = block.target.listed(), block.golden.listed()
    absolute: list[float] | list[int] = block.absolute.tolist()
    if block.target.are_integers and block.golden.are_integers:
        absolute = [abs(int(ours) - int(theirs)) for ours, theirs in zip(target, golden, strict=True)]
    numbers: AnyArray = np.arange(block.start, block.start + len(target))
    return rows_text(form, numbers, shape, [target, golden, absolute, block.relative.tolist()])
