"""Comparisons of many operators, with metrics that make them slow or kill their workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_dumps import Case, numbers, perturbed, rule

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray

GOLDEN = numbers(4, 6)
SLOW = """
import pathlib, time
def compare(my, golden, args):
    pathlib.Path({mark!r}).touch()
    time.sleep({seconds})
    return "1", ""
"""


def write_many(case: Case, count: int, golden: AnyArray = GOLDEN) -> Path:
    """Write operators `op0`, `op1`, …, each with other errors, and return their rule file."""
    for number in range(count):
        case.npu(f"op{number}", perturbed(golden, seed=number))
        case.npy(f"op{number}", golden)
    return case.rules(*(rule(f"op{number}") for number in range(count)))


def write_metric(case: Case, text: str) -> Path:
    """Write a metric of the user, `Own`, and return the value of `-c`."""
    return case.add(case.root / "own" / "algorithm", "alg_Own.py", text.encode()).parent.parent


def write_slow(case: Case, count: int, seconds: float) -> tuple[Path, list[object]]:
    """Write a comparison that takes so long for each operator; return a file that exists once it runs, and options."""
    mark = case.root / "mark"
    metric = write_metric(case, SLOW.format(mark=str(mark), seconds=seconds))
    return mark, ["-fr", write_many(case, count), "-c", metric]
