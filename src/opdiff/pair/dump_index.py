"""Operators and tensors of a dump, looked up by the names that rule files and users give.

Names of fused operators may be those of their originals, joined.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.dump import DumpKind
from opdiff.core.reasons import Status, all_of, because, statuses_of
from opdiff.core.tensor import Slot, TensorKey, file_safe_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import StatedTensor, Tensor

_WORD = r"[a-z]+|[0-9]+"
_MAX_CANDIDATES = 32
# A search takes milliseconds, and a run in which no name fits needs tens of thousands of searches.
_MAX_SEARCHES = 256
_NUMBER_FOLLOWS = re.compile(r"_?[0-9]")
_MAX_NAME_LENGTH = 4096


class NameIndex:
    """Search for the most similar name among names that share a word or a number with the given name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._found: dict[str, str | None] = {}
        self._by_token: dict[str, list[str]] = defaultdict(list)
        for name in names:
            for token in set(re.findall(_WORD, name.lower())):
                self._by_token[token].append(name)

    def nearest(self, name: str) -> str | None:
        """Return the most similar name; `None` when no name is similar, or after `_MAX_SEARCHES` searches."""
        if name not in self._found and len(self._found) < _MAX_SEARCHES:
            self._found[name] = self._search(name)
        return self._found.get(name)

    def _search(self, name: str) -> str | None:
        import difflib

        wanted = set(re.findall(_WORD, name.lower()))
        lists = sorted((self._by_token[token] for token in wanted if token in self._by_token), key=len)
        candidates = dict.fromkeys(found for names in lists for found in names[:_MAX_CANDIDATES] if found != name)
        similar = difflib.get_close_matches(name, list(candidates)[:_MAX_CANDIDATES], n=1)
        return similar[0] if similar else None


class DumpIndex:
    """Operators of a dump by name, as written or in its file form."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump

    def find(self, name: str) -> DumpedOp | None:
        """Return the operator of this name, in either form."""
        operators = self.dump.operators
        return (
            operators.get(name) or operators.get(file_safe_name(name)) or self._by_file_form.get(file_safe_name(name))
        )

    @cached_property
    def _by_file_form(self) -> dict[str, DumpedOp]:
        """Operators by the file form of their names; forms that several names share are left out."""
        found: dict[str, list[DumpedOp]] = defaultdict(list)
        for name, operator in self.dump.operators.items():
            found[file_safe_name(name)].append(operator)
        return {name: same[0] for name, same in found.items() if len(same) == 1}

    @cached_property
    def _names(self) -> NameIndex:
        return NameIndex(self.dump.operators)

    def nearest(self, name: str) -> str | None:
        """Return the most similar name of the dump, or `None`."""
        return self._names.nearest(file_safe_name(name))


def with_nearest(reason: Reason, nearest: str | None) -> Reason:
    """Return a reason together with the most similar name, where there is one."""
    return reason if nearest is None else all_of((reason, because("pair.nearest_name", name=nearest)))


class Found(Struct, frozen=True):
    """A golden tensor.

    Attributes:
        key: the tensor.
        tensor: its description.
        evidence: leads from the original to the golden tensor; empty if the names are equal.
        stated: what the golden rule file states about it.
    """

    key: TensorKey
    tensor: Tensor
    evidence: tuple[Reason, ...] = ()
    stated: StatedTensor | None = None


def find_output(index: DumpIndex, name: str, number: int) -> Found | Reason:
    """Return an output of a golden operator, or the reason why there is none."""
    operator = index.find(name)
    if operator is None:
        return with_nearest(
            because("pair.no_file", Status.NO_GOLDEN_FILE, side="golden", name=name), index.nearest(name)
        )
    tensor = operator.outputs.get(number)
    if tensor is not None:
        return Found(TensorKey(name, Slot.OUTPUT, number), tensor)
    return _missing_output(operator, name, number, index.dump.kind)


def is_unreadable(missing: Reason) -> bool:
    """Return whether a golden tensor is missing because its file cannot be read: no other tensor stands in for it."""
    return Status.UNREADABLE in statuses_of(missing)


def _missing_output(operator: DumpedOp, name: str, number: int, kind: DumpKind) -> Reason:
    if operator.problem:
        return because("pair.file_unreadable", Status.UNREADABLE, side="golden", name=name, problem=operator.problem)
    code = "pair.no_golden_output_file" if kind is DumpKind.ARRAYS else "pair.no_golden_output"
    return because(code, index=number, name=name, available=tuple(sorted(operator.outputs)))


def split_joined_name(name: str, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    """Split a name into known names, the longest first part that can be continued to the end; empty if impossible.

    A name is never cut before a number: `Sub_7` is not `Sub`.
    """
    if len(name) > _MAX_NAME_LENGTH:
        return ()
    # For each position from which the end can be reached: the end of the first part.
    ends: dict[int, int] = {len(name): 0}
    for start in range(len(name) - 1, -1, -1):
        for end in range(len(name), start, -1):
            if end in ends and is_known(name[start:end]) and not _NUMBER_FOLLOWS.match(name, end):
                ends[start] = end
                break
    parts: list[str] = []
    position = 0
    while position < len(name) and position in ends:
        parts.append(name[position : ends[position]])
        position = ends[position]
    return tuple(parts)
