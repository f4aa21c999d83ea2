"""Steps after measuring whose failure must not cost the measured numbers."""

from __future__ import annotations

from traceback import format_exc
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from opdiff.core.errors import OpdiffError
from opdiff.core.reasons import Reason, because, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.comparison import Comparison

Result = TypeVar("Result")
Fallback = TypeVar("Fallback")


class OptionalSteps:
    """Runs steps, and keeps a note about each step that failed.

    Attributes:
        notes: what failed and why, for users.
        defects: tracebacks of unexpected errors.
        has_lost_file: whether a file could not be written because of its disk or folder.
    """

    def __init__(self) -> None:
        self.notes: list[Reason] = []
        self.defects: list[str] = []
        self.has_lost_file = False

    def attempt(self, step: Reason, work: Callable[[], Result], fallback: Fallback) -> Result | Fallback:
        """Return the result of `work`, or the fallback and a note if it fails."""
        try:
            return work()
        except OpdiffError as error:
            problem = error.reason
        except OSError as error:
            self.has_lost_file = True
            problem = quoted(str(error))
        except MemoryError:
            problem = because("measure.no_memory")
        except Exception as error:  # noqa: BLE001  the numbers are complete; an unexpected error is shown as a defect
            self.defects.append(format_exc())
            problem = because("compare.defect", error=repr(error))
        self.notes.append(because("compare.step_failed", step=step, problem=problem))
        return fallback

    def noted(self, comparison: Comparison) -> Comparison:
        """Return the comparison with notes about the steps that failed, and with their defects."""
        if not self.notes:
            return comparison
        judgement = replace(comparison.judgement, defects=(*comparison.judgement.defects, *self.defects))
        return replace(comparison, notes=(*comparison.notes, *self.notes), judgement=judgement)
