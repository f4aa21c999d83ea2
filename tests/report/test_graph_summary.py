"""Summary over ranks and tokens of graph mode."""

from __future__ import annotations

from msgspec.structs import replace

from made_comparisons import comparison, failed_operator, label
from opdiff.core.comparison import Mode
from opdiff.core.dump import Unit
from opdiff.core.judgement import Colour, DocumentedResult
from opdiff.core.reasons import because
from opdiff.report.graph_summary import Tally, tally_lines


def test_reasons_are_grouped_by_code() -> None:
    found = [because("pair.no_file", side="golden", name=name) for name in ("x", "y")] + [because("core.no_nan")]
    rows = [replace(failed_operator(reason, label()), unit=Unit(0, 1, None)) for reason in found]
    made = comparison(*rows)
    documented = tuple(DocumentedResult("", "", Colour.NONE) for _ in rows)
    tally = Tally.of(replace(made, mode=Mode.GRAPH, judgement=replace(made.judgement, documented=documented)))
    first, second = (str(reason) for reason in found[::2])
    assert list(tally_lines(tally))[1:4] == ["not compared: 3 rows", f"  2 x, such as: {first}", f"  1 x {second}"]
    assert tally.as_json()["reasons"] == [
        {"count": 2, "code": "pair.no_file", "reason": first},
        {"count": 1, "code": "core.no_nan", "reason": second},
    ]
