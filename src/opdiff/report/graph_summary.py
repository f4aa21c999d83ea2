"""Summary over all ranks and tokens of graph mode: numbers of failing tensors, and the first of them."""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field

from opdiff.core.reasons import Language, because, render
from opdiff.core.row_store import runs_of
from opdiff.core.tensor import Slot
from opdiff.report.graph_table import api_name
from opdiff.report.summary_text import GOOD_COSINE, ReasonGroups, reason_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import DocumentedResult
    from opdiff.core.reasons import Reason

SCHEMA = "opdiff.torchair.summary"
_MAX_TOKENS = 12
# Number of tokens up to which columns have the full title.
_MAX_WIDE_TOKENS = 7
_WIDE_COLUMN, _NARROW_COLUMN = 10, 5


class RowPosition(Struct, frozen=True):
    """Position of a row in the run."""

    token: int
    rank: int
    graph: int
    timestamp: int
    op: str
    tensor: str


class Tally(Struct):
    """Counts over all ranks, graphs and tokens, and the first failing tensors.

    Attributes:
        counts: rows with PASS, with FAIL and not compared, by rank and token.
        uncompared: rows that could not be compared, by reason.
        first: the first tensor that fails.
        low_cosine: the first failing tensor with a cosine below 0.99; others may fail because of noise near zero.
        origin: the first output that fails although all inputs of its operator pass.
        golden_only: number of golden operators that were not compared with any target.
        has_ranks: whether the dumps have ranks.
    """

    counts: dict[tuple[int | None, int], Counter[str]] = field(default_factory=dict)
    uncompared: ReasonGroups = field(default_factory=ReasonGroups)
    first: RowPosition | None = None
    low_cosine: RowPosition | None = None
    origin: RowPosition | None = None
    golden_only: int = 0
    has_ranks: bool = False

    @classmethod
    def of(cls, comparison: Comparison) -> Tally:
        """Count the rows of a comparison in graph mode; stored rows are read only where one of them does not pass."""
        tally = cls()
        # Inputs come before the outputs of their operator.
        failed_inputs: set[tuple[object, ...]] = set()
        for run, numbers in runs_of(comparison.rows):
            results = comparison.judgement.documented[numbers.start : numbers.stop]
            if run.unit is not None and all(result.result == "PASS" for result in results):
                tally._counter(run.unit)["PASS"] += len(results)
                continue
            for row, result in zip(comparison.rows[numbers.start : numbers.stop], results, strict=True):
                if row.key and row.key.slot is Slot.INPUT and result.result != "PASS":
                    failed_inputs.add(_operator(row))
                if row.golden_only:
                    tally.golden_only += 1
                elif row.unit is not None:
                    tally._add(row, row.unit, result, is_origin=row.is_output and _operator(row) not in failed_inputs)
        return tally

    def _counter(self, unit: Unit) -> Counter[str]:
        """Return the counts of the rank and token of a unit."""
        self.has_ranks = self.has_ranks or unit.rank is not None
        if (unit.rank, unit.token) not in self.counts:
            self.counts[unit.rank, unit.token] = Counter()
        return self.counts[unit.rank, unit.token]

    def _add(self, row: Row, unit: Unit, result: DocumentedResult, *, is_origin: bool) -> None:
        self._counter(unit)["not compared" if row.reason else result.result] += 1
        if row.reason is not None:
            self.uncompared.add(row)
        elif result.result == "FAIL":
            position = RowPosition(*unit.order, row.timestamp, row.label.target, api_name(row))
            self.first = _earlier(self.first, position)
            cosine = row.documented.cosine if row.documented else None
            if cosine is not None and cosine < GOOD_COSINE:
                self.low_cosine = _earlier(self.low_cosine, position)
            if is_origin:
                self.origin = _earlier(self.origin, position)

    def total(self, outcome: str) -> int:
        """Return the number of rows with this outcome."""
        return sum(counter[outcome] for counter in self.counts.values())

    @property
    def compared(self) -> int:
        """Number of rows that have a result."""
        return self.total("PASS") + self.total("FAIL")

    def as_json(self) -> dict[str, object]:
        """Return the contents of the summary file."""
        cells = sorted(self.counts.items(), key=lambda item: (item[0][0] or 0, item[0][1]))
        return {
            "pass": self.total("PASS"),
            "fail": self.total("FAIL"),
            "not_compared": self.total("not compared"),
            "golden_only": self.golden_only,
            "first_bad_token": None if self.first is None else self.first.token,
            "first_bad_rank": None if self.first is None or not self.has_ranks else self.first.rank,
            "first_bad_operator": None if self.first is None else self.first.op,
            "first_bad_tensor": None if self.first is None else self.first.tensor,
            "first_low_cosine": None if self.low_cosine is None else self.low_cosine.tensor,
            "first_operator_with_good_inputs": None if self.origin is None else self.origin.op,
            "by_rank_and_token": [
                {
                    "rank": rank, "token": token,
                    "pass": counter["PASS"], "fail": counter["FAIL"], "not_compared": counter["not compared"],
                }
                for (rank, token), counter in cells
            ],
            "reasons": [
                {"count": group.rows, "code": group.code, "reason": group.example}
                for group in self.uncompared.listed()
            ],
        }  # fmt: skip


def tally_lines(tally: Tally, language: Language = Language.ENGLISH) -> Iterator[str]:
    """Yield the summary for a terminal."""
    counts = {"passed": tally.total("PASS"), "failed": tally.total("FAIL")}
    yield render(because("report.graph_compared", count=tally.compared, **counts), language)
    if tally.uncompared:
        yield render(because("report.graph_not_compared", count=len(tally.uncompared)), language)
        yield from reason_lines(tally.uncompared.listed(language), language)
    if tally.golden_only:
        yield render(because("report.graph_golden_only", count=tally.golden_only), language)
    yield from (render(reason, language) for reason in _first_failures(tally))
    yield from _grid(tally, language)


def _first_failures(tally: Tally) -> Iterator[Reason]:
    if tally.first is None:
        if tally.compared:
            yield because("report.graph_no_failure")
        return
    yield because("report.graph_first_token", token=tally.first.token)
    if tally.has_ranks:
        yield because("report.graph_first_rank", rank=tally.first.rank)
    yield because("report.graph_first_operator", operator=tally.first.op, tensor=tally.first.tensor)
    if tally.low_cosine is not None:
        where = {"tensor": tally.low_cosine.tensor, "where": _where(tally.low_cosine, tally)}
        yield because("report.graph_first_low_cosine", limit=GOOD_COSINE, **where)
    if tally.origin is not None:
        yield because("report.graph_first_origin", operator=tally.origin.op, where=_where(tally.origin, tally))


def _where(position: RowPosition, tally: Tally) -> str:
    return f"token {position.token}" + (f", rank {position.rank}" if tally.has_ranks else "")


def _grid(tally: Tally, language: Language) -> Iterator[str]:
    """Yield a table of failures by rank and token, if there are several ranks or tokens."""
    tokens: Sequence[int] = sorted({token for _, token in tally.counts})
    ranks = sorted({rank for rank, _ in tally.counts}, key=lambda rank: rank or 0)
    if len(tokens) < 2 and len(ranks) < 2:
        return
    shown = tokens[:_MAX_TOKENS]
    title = because("report.graph_failures")
    if len(tokens) > _MAX_TOKENS:
        title = because("report.graph_failures_first", count=len(tokens), shown=_MAX_TOKENS)
    yield render(title, language)
    is_wide = len(shown) <= _MAX_WIDE_TOKENS
    lines = [("rank", *(f"token {token}" for token in shown)) if is_wide else ("rank / token", *map(str, shown))]
    for rank in ranks:
        cells = (tally.counts.get((rank, token)) for token in shown)
        failures = ("-" if counter is None else str(counter["FAIL"]) for counter in cells)
        lines.append(("-" if rank is None else str(rank), *failures))
    min_width = _WIDE_COLUMN if is_wide else _NARROW_COLUMN
    width = max(min_width, 1 + max(len(cell) for line in lines for cell in line[1:]))
    title_width = max(6, *(len(line[0]) for line in lines))
    yield from (f"  {line[0]:<{title_width}}{''.join(f'{cell:>{width}}' for cell in line[1:])}" for line in lines)


def _operator(row: Row) -> tuple[object, ...]:
    return row.unit, row.label.target, row.timestamp


def _earlier(first: RowPosition | None, other: RowPosition) -> RowPosition:
    return other if first is None else min(first, other, key=attrgetter("token", "rank", "graph", "timestamp"))
