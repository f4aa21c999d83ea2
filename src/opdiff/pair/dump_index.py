"""Operators of a dump, looked up by the names that rule files and users give."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from opdiff.core.reasons import all_of, because
from opdiff.core.tensor import file_safe_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.reasons import Reason

_WORD = r"[a-z]+|[0-9]+"
_MAX_CANDIDATES = 32
# A search takes milliseconds, and a run in which no name fits needs tens of thousands of searches.
_MAX_SEARCHES = 256


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
        self._by_file_form: dict[str, DumpedOp] | None = None
        self._names: NameIndex | None = None

    def find(self, name: str) -> DumpedOp | None:
        """Return the operator of this name, in either form."""
        operators = self.dump.operators
        return operators.get(name) or operators.get(file_safe_name(name)) or self._find_file_form(file_safe_name(name))

    def _find_file_form(self, name: str) -> DumpedOp | None:
        if self._by_file_form is None:
            self._by_file_form = _index_file_forms(self.dump.operators)
        return self._by_file_form.get(name)

    def nearest(self, name: str) -> str | None:
        """Return the most similar name of the dump, or `None`."""
        if self._names is None:
            self._names = NameIndex(self.dump.operators)
        return self._names.nearest(file_safe_name(name))

    def with_hint(self, reason: Reason, name: str) -> Reason:
        """Return the reason for a missing name, with the most similar name of the dump where there is one."""
        return with_nearest(reason, self.nearest(name))


def with_nearest(reason: Reason, nearest: str | None) -> Reason:
    """Return a reason together with the most similar name, where there is one."""
    return reason if nearest is None else all_of((reason, because("pair.nearest_name", name=nearest)))


def _index_file_forms(operators: Mapping[str, DumpedOp]) -> dict[str, DumpedOp]:
    """Return operators by the file form of their names; forms that several names share are left out."""
    found: dict[str, list[DumpedOp]] = defaultdict(list)
    for name, operator in operators.items():
        found[file_safe_name(name)].append(operator)
    return {name: same[0] for name, same in found.items() if len(same) == 1}
