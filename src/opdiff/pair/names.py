"""Operators of a dump by the names that rule files and users know them by."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from opdiff.core.tensor import file_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opdiff.core.dump import Dump, DumpedOp

_WORD = r"[a-z]+|[0-9]+"
_ENOUGH = 32
# Looking for similar names costs milliseconds, and a run in which nothing fits has tens of thousands of them.
_MAX_SEARCHES = 256


class NameIndex:
    """Finds the name that is most like a given one, without looking at all of them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._found: dict[str, str | None] = {}
        self._by_token: dict[str, list[str]] = defaultdict(list)
        for name in names:
            for token in set(re.findall(_WORD, name.lower())):
                self._by_token[token].append(name)

    def nearest(self, name: str) -> str | None:
        """The most similar name; `None` when nothing is similar, or after very many searches."""
        if name not in self._found and len(self._found) < _MAX_SEARCHES:
            self._found[name] = self._search(name)
        return self._found.get(name)

    def _search(self, name: str) -> str | None:
        import difflib

        wanted = set(re.findall(_WORD, name.lower()))
        lists = sorted((self._by_token[token] for token in wanted if token in self._by_token), key=len)
        candidates = dict.fromkeys(found for names in lists for found in names[:_ENOUGH] if found != name)
        close = difflib.get_close_matches(name, list(candidates)[:_ENOUGH], n=1)
        return close[0] if close else None

    def hint(self, name: str) -> str:
        """`; the nearest name is …`, or nothing."""
        found = self.nearest(name)
        return f"; the nearest name is {found}" if found else ""


class DumpIndex:
    """The operators of a dump by name: as written, or as file names carry it."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self._flat: dict[str, DumpedOp] | None = None
        self._names: NameIndex | None = None

    def find(self, name: str) -> DumpedOp | None:
        """The operator of this name. One whose name was written to a file name is found by either form."""
        operators = self.dump.operators
        return operators.get(name) or operators.get(file_form(name)) or self._find_file_form(file_form(name))

    def _find_file_form(self, name: str) -> DumpedOp | None:
        if self._flat is None:
            self._flat = _by_flat_name(self.dump.operators)
        return self._flat.get(name)

    def hint(self, name: str) -> str:
        """`; the nearest name is …`, or nothing."""
        if self._names is None:
            self._names = NameIndex(self.dump.operators)
        return self._names.hint(file_form(name))


def _by_flat_name(operators: Mapping[str, DumpedOp]) -> dict[str, DumpedOp]:
    """Operators by flattened name; names that only differ in what was replaced are not told apart, so not found."""
    found: dict[str, list[DumpedOp]] = defaultdict(list)
    for name, operator in operators.items():
        found[file_form(name)].append(operator)
    return {name: same[0] for name, same in found.items() if len(same) == 1}
