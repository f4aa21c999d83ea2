"""What all ranks and tokens of graph mode come to, in a few lines: where the first error is, and how many there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.tensor import Slot
from opdiff.report.graph_columns import api_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.graphmode import GraphRow
    from opdiff.report.graph_columns import Judged

_MOST = 3
_LONGEST = 160
_MAX_TOKENS = 12
# So many columns with their whole title fit a terminal.
_FEW_TOKENS = 7
_WIDE, _NARROW = 10, 5
_LOW_COSINE = 0.99


class Place(NamedTuple):
    """Where a row is; sorts by token, rank, graph and time."""

    token: int
    rank: int
    graph: int
    timestamp: int
    op: str
    tensor: str


@dataclass(slots=True)
class Tally:
    """Counts over all ranks, graphs and tokens, and the first places where something is wrong.

    Attributes:
        counts: PASS, FAIL and not compared, by rank and token.
        reasons: why rows could not be compared.
        first: the first tensor that is not PASS.
        low: the first tensor whose cosine is below 0.99; the relative error alone also fails for noise around zero.
        born: the first output that is not PASS although all inputs of its operator are.
        golden_only: golden operators that nothing was compared with.
    """

    counts: dict[tuple[int | None, int], Counter[str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    first: Place | None = None
    low: Place | None = None
    born: Place | None = None
    golden_only: int = 0
    has_ranks: bool = False

    def add(self, rank: int | None, graph: int | None, judged: Judged) -> None:
        """Take in the rows of one graph of one rank."""
        self.has_ranks = self.has_ranks or rank is not None
        bad_inputs = {_op(row) for row, verdict in judged if row.slot is Slot.INPUT and verdict.result != "PASS"}
        for row, verdict in judged:
            if row.golden_only:
                self.golden_only += 1
                continue
            outcome = "not compared" if row.reason else verdict.result
            if (rank, row.token) not in self.counts:
                self.counts[rank, row.token] = Counter()
            self.counts[rank, row.token][outcome] += 1
            if row.reason:
                self.reasons[str(row.reason)] += 1
            elif verdict.result == "FAIL":
                place = Place(row.token, rank or 0, graph or 0, row.timestamp, row.op, api_name(row))
                self.first = _earlier(self.first, place)
                if row.real is not None and row.real.cosine is not None and row.real.cosine < _LOW_COSINE:
                    self.low = _earlier(self.low, place)
                if row.slot is Slot.OUTPUT and _op(row) not in bad_inputs:
                    self.born = _earlier(self.born, place)

    def total(self, outcome: str) -> int:
        """How many rows had this outcome."""
        return sum(counter[outcome] for counter in self.counts.values())

    @property
    def compared(self) -> int:
        """How many rows have a result."""
        return self.total("PASS") + self.total("FAIL")

    def as_json(self) -> dict[str, object]:
        """The whole as JSON has it."""
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
            "first_low_cosine": None if self.low is None else self.low.tensor,
            "first_operator_with_good_inputs": None if self.born is None else self.born.op,
            "by_rank_and_token": [
                {
                    "rank": rank, "token": token,
                    "pass": found["PASS"], "fail": found["FAIL"], "not_compared": found["not compared"],
                }
                for (rank, token), found in cells
            ],
            "reasons": [{"count": count, "reason": reason} for reason, count in self.reasons.most_common()],
        }  # fmt: skip


def tally_lines(tally: Tally) -> Iterator[str]:
    """The summary for a terminal. Names in it are those of files: whoever prints makes them safe."""
    yield f"compared: {tally.compared} tensors, {tally.total('PASS')} PASS, {tally.total('FAIL')} FAIL"
    missing = tally.total("not compared")
    if missing:
        yield f"not compared: {missing} rows"
        for reason, count in tally.reasons.most_common(_MOST):
            yield f"  {count} x {_short(reason)}"
        if len(tally.reasons) > _MOST:
            yield f"  and {len(tally.reasons) - _MOST} other reasons"
    if tally.golden_only:
        yield f"golden operators that nothing was compared with: {tally.golden_only}"
    yield from _first_lines(tally)
    yield from _grid(tally)


def _first_lines(tally: Tally) -> Iterator[str]:
    if tally.first is None:
        if tally.compared:
            yield "no tensor fails"
        return
    yield f"first bad token: {tally.first.token}"
    if tally.has_ranks:
        yield f"first bad rank: {tally.first.rank}"
    yield f"first bad operator: {tally.first.op} ({tally.first.tensor})"
    if tally.low is not None:
        yield f"first tensor with a cosine below {_LOW_COSINE}: {tally.low.tensor} ({_where(tally.low, tally)})"
    if tally.born is not None:
        yield f"first operator whose inputs pass and whose output fails: {tally.born.op} ({_where(tally.born, tally)})"


def _where(place: Place, tally: Tally) -> str:
    return f"token {place.token}" + (f", rank {place.rank}" if tally.has_ranks else "")


def _grid(tally: Tally) -> Iterator[str]:
    """Failures by rank and token, where there are several of either."""
    tokens: Sequence[int] = sorted({token for _, token in tally.counts})
    ranks = sorted({rank for rank, _ in tally.counts}, key=lambda rank: rank or 0)
    if len(tokens) < 2 and len(ranks) < 2:
        return
    shown = tokens[:_MAX_TOKENS]
    more = f" (of {len(tokens)} tokens the first {_MAX_TOKENS})" if len(tokens) > _MAX_TOKENS else ""
    yield f"FAIL by rank and token{more}:"
    is_wide = len(shown) <= _FEW_TOKENS
    lines = [("rank", *(f"token {token}" for token in shown)) if is_wide else ("rank / token", *map(str, shown))]
    for rank in ranks:
        cells = (tally.counts.get((rank, token)) for token in shown)
        lines.append(("-" if rank is None else str(rank), *("-" if one is None else str(one["FAIL"]) for one in cells)))
    least = _WIDE if is_wide else _NARROW
    width = max(least, 1 + max(len(cell) for line in lines for cell in line[1:]))
    first = max(6, *(len(line[0]) for line in lines))
    yield from (f"  {line[0]:<{first}}{''.join(f'{cell:>{width}}' for cell in line[1:])}" for line in lines)


def _op(row: GraphRow) -> tuple[int, str, int]:
    return row.token, row.op, row.timestamp


def _earlier(first: Place | None, other: Place) -> Place:
    if first is None:
        return other
    return min(first, other, key=lambda place: (place.token, place.rank, place.graph, place.timestamp))


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
