"""A part of a network: operators by their number in the order of execution.

A group is taken whole when one of its operators is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    from opdiff.pair.fusion import Network

_MAX_DIGITS = 18


class Range(NamedTuple):
    """Every `step`-th operator from `start` to `end`, and `end` itself; `end` is `None` for the last one."""

    start: int = 1
    end: int | None = None
    step: int = 1

    def fit(self, last: int) -> Range:
        """The range in a network whose largest number is `last`.

        Raises:
            UsageError: it does not fit the network.
        """
        end = last if self.end is None else self.end
        if not 1 <= self.start <= last:
            raise UsageError(f"range: the start is {self.start}, and operators are numbered from 1 to {last}")
        if not self.start <= end <= last:
            raise UsageError(f"range: the end is {end}; it has to be from {self.start} to {last}")
        if not 1 <= self.step <= max(last - 1, 1):
            raise UsageError(f"range: the step is {self.step}; it has to be from 1 to {max(last - 1, 1)}")
        return Range(self.start, end, self.step)

    def takes(self, number: int) -> bool:
        """Whether an operator of this number is taken."""
        end = number if self.end is None else self.end
        return self.start <= number <= end and (number == end or (number - self.start) % self.step == 0)


class Select(NamedTuple):
    """Operators by number. Numbers that the network does not reach are ignored, unless all are."""

    wanted: frozenset[int]

    def fit(self, last: int) -> Select:
        """The numbers that can be there in a network whose largest is `last`.

        Raises:
            UsageError: none of them can.
        """
        inside = frozenset(number for number in self.wanted if number <= last)
        if not inside:
            raise UsageError(f"select: operators are numbered up to {last}, and all numbers given are larger")
        return Select(inside)

    def takes(self, number: int) -> bool:
        """Whether an operator of this number is taken."""
        return number in self.wanted


Selection = Range | Select


def parse_range(text: str) -> Range:
    """The range in `start,end,step`; an empty field is 1, the last operator, 1.

    Raises:
        UsageError: it is not of that form.
    """
    fields = [field.strip() for field in text.split(",")]
    if len(fields) != 3:
        raise UsageError(f"range {text!r}: three numbers `start,end,step` are expected")
    start, end, step = fields
    last = None if end in ("", "-1") else _number(end, text)
    return Range(_number(start or "1", text), last, _number(step or "1", text))


def parse_select(text: str) -> Select:
    """The numbers in `i,j,…`.

    Raises:
        UsageError: it is not of that form.
    """
    return Select(frozenset(_number(field.strip(), text) for field in text.split(",")))


def select(network: Network, selection: Selection) -> Network:
    """The network with only the groups taken; their numbers stay.

    Raises:
        UsageError: nothing can be taken.
    """
    last = max((operator.sequence for operator in network.operators()), default=0)
    fitted = selection.fit(last)
    groups = (group for group in network.groups if any(fitted.takes(op.sequence) for op in group.operators))
    return network._replace(groups=tuple(groups))


def _number(field: str, text: str) -> int:
    if not (field.isascii() and field.isdecimal()) or len(field) > _MAX_DIGITS:
        raise UsageError(f"{text!r}: {field!r} is not a number")
    return int(field)
