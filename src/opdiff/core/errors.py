"""Everything opdiff raises on purpose.

    OpdiffError
    ├── UsageError      the command line asks for something impossible        exit code 2
    ├── InputError      a whole input cannot be used                          exit code 3
    ├── DumpError       one file, or one tensor in it, cannot be read         costs a row, never the run
    ├── ElementError    an element type has no known encoding                 costs a row
    ├── LayoutError     data cannot be brought from one layout to another     costs a row
    └── PluginError     a plug-in is missing, doubled or broken               exit code 2

Facts are fields and `__str__` builds the sentence, so that an error survives pickling between processes.
"""

from __future__ import annotations


class OpdiffError(Exception):
    """Base of all expected errors."""


class UsageError(OpdiffError):
    """A request that cannot be carried out as it was written."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


class InputError(OpdiffError):
    """An input (a file or a whole directory) that nothing can be done with."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class DumpError(OpdiffError):
    """Bytes that are not what the format promises."""

    def __init__(self, path: str, problem: str, offset: int | None = None) -> None:
        super().__init__(path, problem, offset)
        self.path = path
        self.problem = problem
        self.offset = offset

    @property
    def brief(self) -> str:
        """The problem and its place, for where the path is shown already."""
        return self.problem if self.offset is None else f"{self.problem} (byte {self.offset})"

    def __str__(self) -> str:
        where = "" if self.offset is None else f" at byte {self.offset}"
        return f"{self.path}{where}: {self.problem}"


class ElementError(OpdiffError):
    """An element type whose codes cannot be turned into numbers, or numbers into codes."""

    def __init__(self, dtype: str, problem: str) -> None:
        super().__init__(dtype, problem)
        self.dtype = dtype
        self.problem = problem

    def __str__(self) -> str:
        return f"element type {self.dtype}: {self.problem}"


class LayoutError(OpdiffError):
    """A storage layout that cannot hold, or cannot be turned into, what was asked for."""

    def __init__(self, layout: str, problem: str) -> None:
        super().__init__(layout, problem)
        self.layout = layout
        self.problem = problem

    def __str__(self) -> str:
        return f"layout {self.layout}: {self.problem}"


class PluginError(OpdiffError):
    """A plug-in that cannot be used; `kind` is what it plugs into (a layout, a conversion, …)."""

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(kind, name, problem)
        self.kind = kind
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}: {self.problem}"
