"""Exceptions of opdiff.

    OpdiffError
    ├── UsageError      the command line asks for something impossible        exit code 2
    ├── InputError      a whole input cannot be used                          exit code 3
    ├── DumpError       one file, or one tensor in it, cannot be read         costs a row, never the run
    ├── ElementError    an element type has no known encoding                 costs a row
    ├── LayoutError     data cannot be converted from one layout to another   costs a row
    └── PluginError     a plug-in is missing, duplicated or broken            exit code 2

Facts are fields, `reason` is the whole error as a value, and `str` renders it in English. The arguments of the
constructor are the fields, so that an error survives pickling between processes. A problem may be given as a string,
as authors of plug-ins do; it is then quoted.
"""

from __future__ import annotations

from opdiff.core.reasons import Reason, because, quoted


def _as_reason(problem: Reason | str) -> Reason:
    return problem if isinstance(problem, Reason) else quoted(problem)


class OpdiffError(Exception):
    """Base of all expected errors."""

    @property
    def reason(self) -> Reason:
        """The error as a value, for the rows of a report."""
        raise NotImplementedError

    @property
    def brief(self) -> Reason:
        """The error without the path of its file, for output that shows the path elsewhere."""
        return self.reason

    def __str__(self) -> str:
        return str(self.reason)


class UsageError(OpdiffError):
    """An invalid request of the user."""

    def __init__(self, problem: Reason | str) -> None:
        self.problem = _as_reason(problem)
        super().__init__(self.problem)

    @property
    def reason(self) -> Reason:
        """The problem."""
        return self.problem


class InputError(OpdiffError):
    """An input (a file or a whole directory) that cannot be used at all."""

    def __init__(self, path: str, problem: Reason | str) -> None:
        self.path = path
        self.problem = _as_reason(problem)
        super().__init__(path, self.problem)

    @property
    def reason(self) -> Reason:
        """The path and the problem."""
        return because("core.in_file", path=self.path, problem=self.problem)


class DumpError(OpdiffError):
    """Bytes that contradict their format."""

    def __init__(self, path: str, problem: Reason | str, offset: int | None = None) -> None:
        self.path = path
        self.problem = _as_reason(problem)
        self.offset = offset
        super().__init__(path, self.problem, offset)

    @property
    def brief(self) -> Reason:
        """The problem and its offset."""
        if self.offset is None:
            return self.problem
        return because("core.at_byte", problem=self.problem, offset=self.offset)

    @property
    def reason(self) -> Reason:
        """The path, the problem and its offset."""
        return because("core.in_file", path=self.path, problem=self.brief)


class ElementError(OpdiffError):
    """An element type whose codes cannot be decoded to numbers, or numbers that it cannot represent."""

    def __init__(self, dtype: str, problem: Reason | str) -> None:
        self.dtype = dtype
        self.problem = _as_reason(problem)
        super().__init__(dtype, self.problem)

    @property
    def reason(self) -> Reason:
        """The element type and the problem."""
        return because("core.element_type", dtype=self.dtype, problem=self.problem)


class LayoutError(OpdiffError):
    """A storage layout that cannot hold, or cannot be converted to, the requested array."""

    def __init__(self, layout: str, problem: Reason | str) -> None:
        self.layout = layout
        self.problem = _as_reason(problem)
        super().__init__(layout, self.problem)

    @property
    def reason(self) -> Reason:
        """The layout and the problem."""
        return because("core.layout", layout=self.layout, problem=self.problem)


class PluginError(OpdiffError):
    """A plug-in that cannot be used; `kind` is what it extends (a layout, a conversion, …)."""

    def __init__(self, kind: str, name: str, problem: Reason | str) -> None:
        self.kind = kind
        self.name = name
        self.problem = _as_reason(problem)
        super().__init__(kind, name, self.problem)

    @property
    def reason(self) -> Reason:
        """Kind and name of the plug-in, and the problem."""
        return because("core.plugin", kind=self.kind, name=self.name, problem=self.problem)
