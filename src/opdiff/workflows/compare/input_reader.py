"""Reading of dumps and rule files, each once, for comparisons that share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.read.dump import read_dump
from opdiff.read.golden_arrays import read_golden
from opdiff.read.rules import read_rules

if TYPE_CHECKING:
    from collections.abc import Collection

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile


class InputReader:
    """Reads dumps and rule files, and remembers them by their paths; they must not change meanwhile."""

    def __init__(self) -> None:
        self._dumps: dict[tuple[str, bool], Dump] = {}
        self._rules: dict[str, RuleFile] = {}

    def rules(self, path: str) -> RuleFile:
        """Return a rule file, as `read_rules` does."""
        if path not in self._rules:
            self._rules[path] = read_rules(path)
        return self._rules[path]

    def dump(self, path: str, *, with_rules: bool) -> Dump:
        """Return a dump, as `read_dump` does."""
        key = path, with_rules
        if key not in self._dumps:
            self._dumps[key] = read_dump(path, with_rules=with_rules)
        return self._dumps[key]

    def golden(self, path: str, names: Collection[str], *, with_rules: bool) -> Dump:
        """Return golden data, as `read_golden` does; arrays under looser names depend on `names`."""
        try:
            return self.dump(path, with_rules=with_rules)
        except InputError:
            return read_golden(path, names, with_rules=with_rules)
