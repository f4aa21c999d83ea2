"""Levels of graph mode: unit by unit by the judge, and by the colour where there is no data."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from made_reports import BAD
from made_reports import row as measured_row
from opdiff.core.comparison import DataMode, GraphNode, ModelGraph, Row, SideInfo
from opdiff.core.dump import Unit
from opdiff.core.judgement import Agreement, Judgement, Level, Origin
from opdiff.core.metrics import DocumentedMetrics, TensorStats
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import Reason, because, quoted
from opdiff.core.tensor import Slot, TensorKey
from opdiff.judge.comparison_judgement import judge

# The largest number of the target; that of the golden tensor is 1.
GREEN, YELLOW, RED = 1.0, 1.02, 2.0
WRONG = BAD | {"snr_db": 0.9}


def row(op: str, largest: float, slot: Slot = Slot.OUTPUT, *, token: int = 0, rank: int = 0) -> Row:
    """A row that was compared by statistics."""
    sides = SideInfo(stats=TensorStats(-1.0, largest, 0.0, 1.0)), SideInfo(stats=TensorStats(-1.0, 1.0, 0.0, 1.0))
    key = TensorKey(op, slot, 0)
    return Row(
        OpLabel(0, 0, "Add", op, op), key, key, *sides, data_mode=DataMode.STATISTICS, unit=Unit(rank, token, None)
    )


def measured(op: str = "a", *, token: int = 0, rank: int = 0, **numbers: Any) -> Row:
    """A row that was compared by its data; without numbers both sides are equal."""
    documented = DocumentedMetrics(1.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    made = measured_row(op, **numbers or {"is_equal": True})
    return replace(made, documented=documented, unit=Unit(rank, token, None))


@pytest.mark.parametrize(("largest", "level"), [(GREEN, Level.NOISE), (YELLOW, Level.SUSPICIOUS), (RED, Level.WRONG)])
def test_the_colour_decides_by_statistics(largest: float, level: Level) -> None:
    (found,) = judge([row("a", largest)]).verdicts
    assert found.level is level
    assert found.rule


@pytest.mark.parametrize(("checksum", "level"), [("00ff", Level.EXACT), ("00fe", Level.SUSPICIOUS)])
def test_checksums_are_equal_or_show_no_size_of_an_error(checksum: str, level: Level) -> None:
    sides = SideInfo(stats=TensorStats(crc32="00ff")), SideInfo(stats=TensorStats(crc32=checksum))
    made = replace(row("a", GREEN), data_mode=DataMode.MD5, target=sides[0], golden=sides[1])
    assert judge([made]).verdicts[0].level is level


def test_two_empty_tensors_are_equal() -> None:
    assert judge([replace(row("a", GREEN), data_mode=DataMode.REAL)]).verdicts[0].level is Level.EXACT


def test_units_are_judged_by_their_own_network() -> None:
    """The same operators in another order: the error originates in the one that the other reads."""
    reads = [("x:0", "a:0"), ("b:0", "x:0"), ("x:0", "a:0")]
    rows = [measured(name, token=token, **WRONG) for token in range(3) for name in ("a", "b")]
    graphs = [
        ModelGraph(
            tuple(GraphNode(name, "Relu", (source,)) for name, source in zip(("a", "b"), sources, strict=True)),
            (Unit(0, token, None),),
        )
        for token, sources in enumerate(reads)
    ]
    origins = [verdict.origin for verdict in judge(rows, graphs).verdicts]
    assert origins == [
        *(Origin.CREATED, Origin.INHERITED),
        *(Origin.INHERITED, Origin.CREATED),
        *(Origin.CREATED, Origin.INHERITED),
    ]


def test_errors_originate_where_inputs_are_good() -> None:
    rows = [row("a", GREEN, Slot.INPUT), row("a", RED), row("b", RED, Slot.INPUT), row("b", RED)]
    judgement = judge(rows)
    origins = [Origin.NONE, Origin.CREATED, Origin.NONE, Origin.INHERITED]
    assert [verdict.origin for verdict in judgement.verdicts] == origins
    assert judgement.first_bad == "a"


def test_the_first_token_precedes_the_first_rank() -> None:
    judgement = judge([row("b", GREEN), row("b", RED, token=1), row("c", RED, rank=1)])
    assert judgement.first_bad == "c"
    assert because("judge.look_first", operator="c", unit="rank 1, token 0") in judgement.advice
    assert "judge.within_noise" not in {sentence.code for sentence in judgement.advice}


def test_wrong_rows_come_before_suspicious_ones() -> None:
    assert judge([row("a", YELLOW), row("b", RED, token=1)]).first_bad == "b"


def test_the_same_finding_of_many_units_is_one() -> None:
    judgement = judge([measured(), measured(token=1, rank=1, **WRONG), measured(token=1, **WRONG)])
    (finding,) = judgement.findings
    assert finding.operator == "a"
    assert finding.units == (Unit(0, 1, None), Unit(1, 1, None))
    assert because("judge.look_first", operator="a", unit="rank 0, token 1") in judgement.advice


def test_the_operator_to_start_with_is_that_of_the_first_finding() -> None:
    """The first bad rows may be of another rank: statistics alone are no finding, and the next command examines one."""
    judgement = judge([row("c", RED), measured(rank=1, token=1, **WRONG)])
    assert (judgement.first_bad, judgement.first_unit) == ("c", "rank 0, token 0")
    (finding,) = judgement.findings
    assert (finding.operator, finding.units) == ("a", (Unit(1, 1, None),))
    assert because("judge.look_first", operator="a", unit="rank 1, token 1") in judgement.advice
    assert "c" not in {sentence.fact("operator") for sentence in judgement.advice}


def test_a_finding_is_described_by_the_first_unit_in_which_it_is_wrong() -> None:
    slight = measured(**BAD | {"snr_db": 30.0, "cosine": 0.9999})
    judgement = judge([slight, measured(token=1, **WRONG), measured(token=2, **WRONG)])
    assert [verdict.level for verdict in judgement.verdicts] == [Level.SUSPICIOUS, Level.WRONG, Level.WRONG]
    (finding,) = judgement.findings
    assert finding.level is Level.WRONG
    assert [unit.token for unit in finding.units] == [1, 2, 0]


def test_advice_of_a_good_run_by_statistics_names_what_was_compared() -> None:
    judgement = judge([replace(row("a", GREEN), data_mode=DataMode.STATISTICS)])
    reservation = because("judge.statistics_only", count=1, total=1)
    assert judgement.advice[:2] == (reservation, because("judge.all_statistics_agree", count=1))
    assert judgement.outcome == "unsure"


def test_data_and_statistics_are_counted_apart() -> None:
    judgement = judge([row("a", GREEN), row("b", GREEN), measured("c")])
    agreed = because("judge.data_and_statistics_agree", data=1, statistics=2)
    assert judgement.advice[:2] == (because("judge.statistics_only", count=2, total=3), agreed)


def by_checksums(name: str, checksum: str, token: int = 0) -> Row:
    sides = SideInfo(stats=TensorStats(crc32="00ff")), SideInfo(stats=TensorStats(crc32=checksum))
    made = replace(row(name, GREEN, token=token), data_mode=DataMode.MD5)
    return replace(made, target=sides[0], golden=sides[1])


def test_advice_by_checksums_is_that_they_are_equal() -> None:
    judgement = _in_network(*(by_checksums(name, "00ff") for name in "abc"))
    assert judgement.advice == (
        because("judge.all_checksums_equal", count=3),
        because("judge.coverage", compared=3, operators=3),
    )
    assert (judgement.outcome, judgement.outputs.agreement) == ("clean", Agreement.UNKNOWN)


def test_advice_by_checksums_is_how_many_differ_where_first_and_what_to_do_next() -> None:
    sums = {"a": "00ff", "b": "00fe", "c": "00fe"}
    judgement = _in_network(*(by_checksums(name, sums[name], token) for token in (1, 2) for name in "abc"))
    assert judgement.advice == (
        because("judge.checksums_differ_in", count=4, total=6, operator="b", unit="rank 0, token 1"),
        Reason("judge.checksums_next"),
        because("judge.coverage", compared=6, operators=6),
    )
    assert (judgement.outcome, judgement.outputs.agreement) == ("suspicious", Agreement.UNKNOWN)


def _in_network(*rows: Row) -> Judgement:
    """Judge tokens of a network with outputs of `b` and `c`, which read `a`."""
    units = tuple(dict.fromkeys(row.unit for row in rows if row.unit))
    sources = {"a": "x:0", "b": "a:0", "c": "a:0"}
    return judge(rows, [ModelGraph(tuple(GraphNode(name, "Relu", (sources[name],)) for name in sources), units)])


def test_statistics_do_not_show_that_outputs_match() -> None:
    judgement = _in_network(row("a", GREEN), row("b", GREEN), row("c", GREEN))
    assert judgement.outputs.agreement is Agreement.UNKNOWN
    assert "judge.outputs_statistics" in {sentence.code for sentence in judgement.advice}


def test_statistics_that_differ_do_not_show_by_how_much_outputs_differ() -> None:
    sentences = {sentence.code: sentence for sentence in _in_network(row("a", GREEN), row("b", RED)).advice}
    assert sentences["judge.outputs_statistics_differ"].fact("tensor") == "b:output:0"
    assert "judge.outputs_significant" not in sentences


def test_a_wrong_output_of_one_token_outweighs_a_missing_one_of_another() -> None:
    missing = replace(row("c", GREEN), reason=quoted("no file"))
    wrong = measured("a", token=1), measured("b", token=1, **WRONG), measured("c", token=1)
    outputs = _in_network(measured("a"), measured("b"), missing, *wrong).outputs
    assert (outputs.agreement, outputs.tensor, outputs.missing) == (Agreement.SIGNIFICANT, "b:output:0", ("c",))


def test_rows_with_a_reason_are_not_comparable() -> None:
    judgement = judge([replace(row("a", RED), reason=quoted("no partner"))])
    assert [verdict.rule for verdict in judgement.verdicts] == [quoted("no partner")]
    assert judgement.verdicts[0].level is Level.NOT_COMPARABLE
    assert judgement.advice == (because("judge.nothing_compared"),)


@pytest.mark.parametrize("numbers", [{"is_equal": True}, WRONG])
def test_a_golden_operator_without_a_target_changes_nothing_else(numbers: dict[str, Any]) -> None:
    rows = measured("a"), measured("b", **numbers), measured("c")
    lost = Row(OpLabel(0, 0, "", "*", "d"), reason=quoted("no target"), unit=Unit(0, 0, None), golden_only=True)
    alone, both = _in_network(*rows), _in_network(lost, *rows)
    assert tuple(both.verdicts)[1:] == tuple(alone.verdicts)
    assert (both.findings, both.outputs, both.coverage) == (alone.findings, alone.outputs, alone.coverage)
