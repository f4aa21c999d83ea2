"""Defects of the judge: after an unexpected error, its operator has no verdict; the others do."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from opdiff.core.reasons import Reason, because

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


def result_or_defect(work: Callable[[], Result], defects: list[str]) -> Result | Reason:
    """Return the result of `work`, or the reason why there is none; the traceback is appended to `defects`."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001  an unexpected error is shown as a defect
        from traceback import format_exc

        defects.append(format_exc())
        return because("judge.defect", error=repr(error))
