"""Flipped bits of headers and descriptions: a row whose numbers change needs a reason, and no operator is blamed.

The runs are right, so that every number that changes and every operator that is named is due to the flipped bit.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import OpdiffError
from opdiff.report.offline_table import reservations
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.pipeline import compare
from opdiff.workflows.compare.saved import load_saved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.comparison import Comparison, Row
    from opdiff.workflows.compare.options import CompareOptions

    Key = tuple[str, str]


class Answer(NamedTuple):
    """What a comparison says.

    Attributes:
        rows: numbers of each tensor, and whether the row has a reason or a note.
        named: operators at fault.
        words: remarks and warnings about the inputs.
    """

    rows: dict[Key, tuple[str, bool]]
    named: frozenset[str]
    words: frozenset[str]


class Flip(NamedTuple):
    """A flipped bit of a file, and what it changed."""

    path: Path
    offset: int
    bit: int
    verdict: str


def answer(run: CompareOptions | Path) -> Answer | None:
    """Compare in this process, or load a saved comparison; `None` if the inputs are refused."""
    try:
        comparison = load_saved([str(run)]) if isinstance(run, Path) else compared(run)
    except OpdiffError:
        return None
    if comparison is None:
        return None
    judgement = comparison.judgement
    if judgement.defects:
        raise AssertionError(judgement.defects)
    named = {finding.operator for finding in judgement.findings} | {judgement.first_bad, *judgement.candidates} - {""}
    words = frozenset(map(str, (*comparison.notes, *comparison.warnings)))
    return Answer(dict(map(_facts, comparison.rows)), frozenset(named), words)


def compared(options: CompareOptions) -> Comparison | None:
    """Compare in this process; `None` if the inputs are refused."""
    (result,) = compare(options, lambda _done, _total: None)
    if isinstance(result, ComparisonProblem):
        return None
    if result.defects:
        raise AssertionError(result.defects)
    return result.comparison


def _facts(row: Row) -> tuple[Key, tuple[str, bool]]:
    stats = [
        (each.minimum, each.maximum, each.mean, each.norm) for each in (row.target_stats, row.golden_stats) if each
    ]
    numbers = repr((row.metrics, row.documented, stats))
    has_words = bool(reservations(row) or row.reason)
    return (str(row.unit), f"{row.label.target} {row.key}"), (numbers, has_words)


def verdict_of(before: Answer, after: Answer | None) -> str:
    """Return `refused`, `unchanged`, `explained`, or the violated rule: `silent`, `blamed`, `vanished`."""
    if after is None:
        return "refused"
    if after.named - before.named:
        return "blamed"
    changed = {key for key, (numbers, _) in before.rows.items() if after.rows.get(key, ("", False))[0] != numbers}
    if any(key in after.rows and not after.rows[key][1] for key in changed):
        return "silent"
    new_words = after.words - before.words or any(
        has_words for key, (_, has_words) in after.rows.items() if key not in before.rows or not before.rows[key][1]
    )
    if changed - after.rows.keys() and not new_words:
        return "vanished"
    return "explained" if changed or new_words else "unchanged"


def flip_bits(path: Path, places: Iterable[tuple[int, int]], run: CompareOptions | Path) -> Iterator[Flip]:
    """Flip one bit at a time (offset, bit) and compare or load; the file is restored."""
    content = path.read_bytes()
    before = answer(run)
    if before is None:
        raise AssertionError(f"{path}: the clean run is refused")
    try:
        for offset, bit in places:
            flipped = bytearray(content)
            flipped[offset] ^= 1 << bit
            path.write_bytes(flipped)
            yield Flip(path, offset, bit, verdict_of(before, answer(run)))
    finally:
        path.write_bytes(content)


def places_in(nbytes: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield all bits of the first bytes of a file."""
    return ((offset, bit) for offset in range(start, nbytes) for bit in range(8))


def count(flips: Iterable[Flip]) -> Counter[str]:
    """Count verdicts."""
    return Counter(flip.verdict for flip in flips)
