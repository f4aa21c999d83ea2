"""Selection of operators by their numbers in the order of execution.

A group is selected if one of its operators is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.errors import UsageError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from opdiff.pair.groups import GroupedModel

_MAX_DIGITS = 18


class Range(Struct, frozen=True):
    """Every `step`-th operator from `start` to `end`, and `end` itself; `None` is the last operator."""

    start: int = 1
    end: int | None = None
    step: int = 1

    def fit(self, last: int) -> Range:
        """Return the range for a model whose largest number is `last`.

        Raises:
            UsageError: the range exceeds the model.
        """
        end = last if self.end is None else self.end
        if not 1 <= self.start <= last:
            raise UsageError(because("pair.range_start", start=self.start, last=last))
        if not self.start <= end <= last:
            raise UsageError(because("pair.range_end", end=end, start=self.start, last=last))
        if not 1 <= self.step <= max(last - 1, 1):
            raise UsageError(because("pair.range_step", step=self.step, limit=max(last - 1, 1)))
        return Range(self.start, end, self.step)

    def includes(self, number: int) -> bool:
        """Return whether the operator of this number is selected."""
        end = number if self.end is None else self.end
        return self.start <= number <= end and (number == end or (number - self.start) % self.step == 0)


class Select(Struct, frozen=True):
    """Operators by number. Numbers beyond the last operator are ignored, unless all are."""

    numbers: frozenset[int]

    def fit(self, last: int) -> Select:
        """Return the selection for a model whose largest number is `last`.

        Raises:
            UsageError: all numbers are larger.
        """
        inside = frozenset(number for number in self.numbers if number <= last)
        if not inside:
            raise UsageError(because("pair.selected_beyond", last=last))
        return Select(inside)

    def includes(self, number: int) -> bool:
        """Return whether the operator of this number is selected."""
        return number in self.numbers


Selection = Range | Select


def parse_range(text: str) -> Range:
    """Parse `start,end,step`; empty fields are 1, the last operator, 1.

    Raises:
        UsageError: the string has another form.
    """
    fields = [field.strip() for field in text.split(",")]
    if len(fields) != 3:
        raise UsageError(because("pair.range_numbers", text=text))
    start, end, step = fields
    last = None if end in ("", "-1") else _parse_number(end, text)
    return Range(_parse_number(start or "1", text), last, _parse_number(step or "1", text))


def parse_select(text: str) -> Select:
    """Parse `i,j,…`.

    Raises:
        UsageError: the string has another form.
    """
    fields = [field.strip() for field in text.split(",")]
    name = next((field for field in fields if field[:1].isalpha()), "")
    if name:
        raise UsageError(because("pair.not_selected_by_name", text=text, field=name))
    return Select(frozenset(_parse_number(field, text) for field in fields))


def select(model: GroupedModel, selection: Selection) -> GroupedModel:
    """Return the model with the selected groups only; they keep their numbers.

    Raises:
        UsageError: the selection exceeds the model.
    """
    last = max((operator.sequence for operator in model.operators()), default=0)
    fitted = selection.fit(last)
    groups = (group for group in model.groups if any(fitted.includes(op.sequence) for op in group.operators))
    return replace(model, groups=tuple(groups))


def _parse_number(field: str, text: str) -> int:
    if not (field.isascii() and field.isdecimal()) or len(field) > _MAX_DIGITS:
        raise UsageError(because("pair.not_a_number", text=text, field=field))
    return int(field)
