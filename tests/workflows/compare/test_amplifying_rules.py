"""Rule files in which operators form long chains: time and size of the result grow with the file, not faster."""

from __future__ import annotations

import pytest

from made_dumps import Case, describe, numbers, rule
from opdiff import api

LENGTH = 400
VALUES = numbers(1, 4)


@pytest.mark.parametrize("op_type", ["Cast", "Reshape", "Relu"])
@pytest.mark.parametrize("dumped", [True, False], ids=["dumped", "only the last is dumped"])
def test_a_chain_of_inserted_operators_is_not_repeated_by_every_row(case: Case, op_type: str, *, dumped: bool) -> None:
    rules = [rule("a", outputs=(describe("a", 0),))]
    for number in range(LENGTH):
        reads = f"c{number - 1}:0" if number else "a:0"
        rules.append(rule(f"c{number}", op_type, originals=(), inputs=(reads,), outputs=(describe("a", 0),)))
        if dumped or number == LENGTH - 1:
            case.npu(f"c{number}", VALUES, inputs=(VALUES,), op_type=op_type)
    case.npu("a", VALUES)
    case.npy("a", VALUES)
    values = api.compare(case.target, case.golden, rules=case.rules(*rules)).values
    evidence = [str(row.evidence) for row in values.rows if row.evidence]
    assert len(evidence) >= 2
    assert max(map(len, evidence)) < 300
    assert max(len(str(row.reason or "")) for row in values.rows) < 400
