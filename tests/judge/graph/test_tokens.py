"""Levels of graph mode: token by token by the judge, and by the colour where there is no data."""

from __future__ import annotations

import pytest

from made_reports import BAD, row
from opdiff.core.comparison import Birth, GraphNode, Level
from opdiff.core.graphmode import Colour, DataMode, GraphRow, Verdict
from opdiff.core.reasons import because, quoted
from opdiff.core.tensor import Slot
from opdiff.judge.graph.tokens import GraphToken, judge_tokens
from opdiff.judge.limits import Limits

GREEN, YELLOW, RED = (Verdict("PASS", "Yes", Colour.GREEN), Verdict("FAIL", "No", Colour.YELLOW, (quoted("far off"),)),
                      Verdict("FAIL", "No", Colour.RED))  # fmt: skip


def token(
    number: int, *rows: tuple[str, Slot, Verdict], mode: DataMode = DataMode.STATISTICS, reason: str = "", rank: int = 0
) -> GraphToken:
    graph_rows = [
        GraphRow(number, op, slot, 0, place, mode, None, None, reason=quoted(reason) if reason else None)
        for place, (op, slot, _) in enumerate(rows)
    ]
    reported = [row(op, slot)._replace(metrics=None) for op, slot, _ in rows]
    verdicts = [verdict for _, _, verdict in rows]
    return GraphToken(f"rank {rank}, token {number}", (number, rank, 0), reported, graph_rows, verdicts)


def measured(number: int, *, bad: bool, rank: int = 0) -> GraphToken:
    made = row("a", **(BAD | {"snr_db": 0.9}) if bad else {"is_equal": True})
    graph_row = GraphRow(number, "a", Slot.OUTPUT, 0, 0, DataMode.REAL, None, None, metrics=made.metrics)
    return GraphToken(f"rank {rank}, token {number}", (number, rank, 0), [made], [graph_row], [GREEN])


@pytest.mark.parametrize(
    ("mode", "verdict", "level"),
    [
        (DataMode.STATISTICS, GREEN, Level.NOISE),
        (DataMode.STATISTICS, Verdict("PASS", "Yes", Colour.YELLOW), Level.SUSPICIOUS),
        (DataMode.STATISTICS, YELLOW, Level.SUSPICIOUS),
        (DataMode.STATISTICS, RED, Level.WRONG),
        (DataMode.MD5, GREEN, Level.EXACT),
        (DataMode.MD5, RED, Level.WRONG),
        (DataMode.REAL, GREEN, Level.EXACT),
    ],
)
def test_without_data_the_colour_decides(mode: DataMode, verdict: Verdict, level: Level) -> None:
    (found,) = judge_tokens([token(0, ("a", Slot.OUTPUT, verdict), mode=mode)], Limits()).judgement.verdicts
    assert found.level is level
    assert found.rule


def test_tokens_are_judged_by_their_own_network() -> None:
    """The same operators, told in another order: the error is born in the one that the other reads."""

    def of(number: int, *, reads: tuple[str, str]) -> GraphToken:
        made = [row(name, **(BAD | {"snr_db": 0.9})) for name in ("a", "b")]
        graph_rows = [
            GraphRow(number, name, Slot.OUTPUT, 0, 0, DataMode.REAL, None, None, metrics=item.metrics)
            for name, item in zip(("a", "b"), made, strict=True)
        ]
        nodes = [GraphNode(name, "Relu", (source,)) for name, source in zip(("a", "b"), reads, strict=True)]
        return GraphToken(f"token {number}", (number, 0, 0), made, graph_rows, [GREEN, GREEN], nodes)

    tokens = [of(0, reads=("x:0", "a:0")), of(1, reads=("b:0", "x:0")), of(2, reads=("x:0", "a:0"))]
    origins = [verdict.origin for verdict in judge_tokens(tokens, Limits()).judgement.verdicts]
    assert origins == [*(Birth.BORN, Birth.INHERITED), *(Birth.INHERITED, Birth.BORN), *(Birth.BORN, Birth.INHERITED)]


def test_errors_are_born_where_inputs_are_good() -> None:
    rows = ("a", Slot.INPUT, GREEN), ("a", Slot.OUTPUT, RED), ("b", Slot.INPUT, RED), ("b", Slot.OUTPUT, RED)
    judgement = judge_tokens([token(0, *rows)], Limits()).judgement
    origins = [Birth.NONE, Birth.BORN, Birth.NONE, Birth.INHERITED]
    assert [verdict.origin for verdict in judgement.verdicts] == origins
    assert judgement.first_bad == "a"


def test_the_first_token_counts_not_the_first_rank() -> None:
    bad, good = ("b", Slot.OUTPUT, RED), ("b", Slot.OUTPUT, GREEN)
    tokens = [token(0, good), token(1, bad), token(0, ("c", Slot.OUTPUT, RED), rank=1)]
    judgement = judge_tokens(tokens, Limits()).judgement
    assert judgement.first_bad == "c"
    assert judgement.advice == (because("judge.look_first", operator="c", unit="rank 1, token 0"),)


def test_what_is_wrong_comes_before_what_is_suspicious() -> None:
    tokens = [token(0, ("a", Slot.OUTPUT, YELLOW)), token(1, ("b", Slot.OUTPUT, RED))]
    assert judge_tokens(tokens, Limits()).judgement.first_bad == "b"


def test_the_same_finding_of_many_tokens_is_one() -> None:
    tokens = [measured(0, bad=False), measured(1, bad=True, rank=1), measured(1, bad=True)]
    judgement, found = judge_tokens(tokens, Limits())
    assert [finding.operator for finding in judgement.findings] == ["a"]
    assert found == ((2, 1),)
    assert judgement.advice[0] == because("judge.look_first", operator="a", unit="rank 0, token 1")


def test_a_finding_is_told_of_the_first_token_in_which_it_is_wrong() -> None:
    tokens = [measured(0, bad=True), measured(1, bad=True), measured(2, bad=True)]
    slight = row("a", **BAD | {"snr_db": 30.0, "cosine": 0.9999})
    graph_row = tokens[0].graph_rows[0]._replace(metrics=slight.metrics)
    tokens[0] = tokens[0]._replace(rows=[slight], graph_rows=[graph_row])
    judgement, found = judge_tokens(tokens, Limits())
    assert [verdict.level for verdict in judgement.verdicts] == [Level.SUSPICIOUS, Level.WRONG, Level.WRONG]
    assert [finding.level for finding in judgement.findings] == [Level.WRONG]
    assert found == ((1, 2, 0),)


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        (DataMode.STATISTICS, "judge.all_statistics_agree"),
        (DataMode.MD5, "judge.all_checksums_equal"),
    ],
)
def test_good_runs_claim_no_more_than_was_compared(mode: DataMode, code: str) -> None:
    advice = judge_tokens([token(0, ("a", Slot.OUTPUT, GREEN), mode=mode)], Limits()).judgement.advice
    assert advice[0] == because(code, count=1)


def test_rows_with_a_reason_cannot_be_compared() -> None:
    made = token(0, ("a", Slot.OUTPUT, RED), reason="no partner")
    row = made.rows[0]._replace(reason=quoted("no partner"))  # type: ignore[attr-defined]  # they are rows of reports
    judgement = judge_tokens([made._replace(rows=[row])], Limits()).judgement
    assert [verdict.rule for verdict in judgement.verdicts] == [quoted("no partner")]
    assert judgement.verdicts[0].level is Level.NOT_COMPARABLE
    assert judgement.advice == (because("judge.nothing_compared"),)
