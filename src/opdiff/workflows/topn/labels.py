"""Right classes of samples: a text or CSV file of `label` or `name,label` lines, or a NumPy array."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.core.dtypes import Kind
from opdiff.core.errors import DumpError, ElementError, InputError
from opdiff.core.filesystem import read_input
from opdiff.core.reasons import Status, because
from opdiff.measure.topn import NO_CLASS
from opdiff.read import read_operator
from opdiff.workflows.topn.sample_pairs import input_name, without_output_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.reasons import Reason
    from opdiff.measure.topn import Classes
    from opdiff.workflows.topn.samples import Sample

_MAX_FILE_NBYTES = 256 << 20
_SEPARATOR = re.compile(r"[,;\t]|\s+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


class Labels(Struct, frozen=True):
    """Labels of a file; `names` is empty if they are in the order of the samples."""

    path: str
    names: tuple[str, ...]
    classes: Classes


class MatchedLabels(Struct, frozen=True):
    """The label of each sample, `NO_CLASS` if the sample has none, and remarks."""

    classes: Classes
    notes: tuple[Reason, ...] = ()


def read_labels(path: str) -> Labels:
    """Read a file of labels.

    Raises:
        InputError: the file cannot be read, or a line is not a label.
    """
    if path.endswith(".npy"):
        return Labels(path, (), _read_array(path))
    try:
        raw = read_input(path, _MAX_FILE_NBYTES)
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    lines = [line.strip() for line in raw.decode("utf-8-sig", errors="replace").splitlines()]
    fields = [(number, _fields(line)) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if len(fields) > 1 and not _INTEGER.fullmatch(fields[0][1][-1]) and _INTEGER.fullmatch(fields[1][1][-1]):
        del fields[0]  # titles of the columns
    _require_labels(path, fields)
    classes = np.array([int(line[-1]) for _, line in fields], np.int64)
    return Labels(path, tuple(line[0] for _, line in fields if len(line) == 2), classes)


def _fields(line: str) -> list[str]:
    """Return name and label, or the label alone; names may have blanks."""
    separators = list(_SEPARATOR.finditer(line))
    if not separators:
        return [line]
    last = separators[-1]
    return [line[: last.start()].strip().strip("\"'"), line[last.end() :].strip("\"'")]


def _require_labels(path: str, fields: Sequence[tuple[int, list[str]]]) -> None:
    if not fields:
        raise InputError(path, because("topn.no_labels"))
    for number, line in fields:
        if not _INTEGER.fullmatch(line[-1]):
            raise InputError(path, because("topn.not_a_label", line=number, text=line[-1][:80]))
        if len(line) != len(fields[0][1]):
            raise InputError(path, because("topn.mixed_labels", line=number))


def _read_array(path: str) -> Classes:
    try:
        tensor = read_operator(path).outputs[0]
        values = tensor.array()
    except (DumpError, ElementError) as error:
        raise InputError(path, error.brief) from error
    shape = tensor.spec.shape
    if tensor.spec.dtype.kind is not Kind.INTEGER or len([extent for extent in shape if extent != 1]) > 1:
        raise InputError(path, because("topn.label_array", dtype=tensor.spec.dtype.name, shape=shape))
    return values.reshape(-1).astype(np.int64)


def match_labels(labels: Labels, samples: Sequence[Sample], classes: int, offset: int) -> MatchedLabels:
    """Return the label of each sample.

    Raises:
        InputError: labels and samples do not fit together, or a label is not one of the classes.
    """
    if not labels.names and len(labels.classes) != len(samples):
        counts = {"labels": len(labels.classes), "samples": len(samples)}
        raise InputError(labels.path, because("topn.label_count", **counts))
    found = _by_name(labels, samples) if labels.names else list(map(int, labels.classes))
    used = [label + offset for label in found if label is not None]
    if not 0 <= min(used) <= max(used) < classes:
        facts = {"low": min(used), "high": max(used), "last": classes - 1}
        raise InputError(labels.path, because("topn.label_range", **facts))
    missing = len(found) - len(used)
    matched = np.array([NO_CLASS if label is None else label + offset for label in found], np.int64)
    return MatchedLabels(matched, (because("topn.without_label", count=missing),) if missing else ())


def _by_name(labels: Labels, samples: Sequence[Sample]) -> list[int | None]:
    known = {input_name(name): int(label) for name, label in zip(labels.names, labels.classes, strict=True)}
    found = [_find(sample.name, known) for sample in samples]
    if all(label is None for label in found):
        example = {"label_name": labels.names[0], "sample": samples[0].name}
        raise InputError(labels.path, because("topn.no_label_matches", **example))
    return found


def _find(name: str, known: dict[str, int]) -> int | None:
    base = input_name(name)
    return next((known[form] for form in (base, without_output_number(base)) if form in known), None)
