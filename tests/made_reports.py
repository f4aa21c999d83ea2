"""Saved comparisons for the tests of reports: with strange names, with a judgement, with many rows."""

from __future__ import annotations

import random
from typing import Any

from made_comparisons import comparison, failed_operator, label, measured, metrics, pairing
from opdiff.core.comparison import Birth, ErrorKind, Finding, GraphNode, Judgement, Level, OpLabel, Verdict
from opdiff.core.dump import DumpKind
from opdiff.core.graphmode import Colour, DataMode, GraphRow
from opdiff.core.graphmode import Verdict as GraphVerdict
from opdiff.core.reasons import because, quoted
from opdiff.core.tensor import Slot, TensorKey
from opdiff.judge.advice import remedies_of
from opdiff.judge.limits import Limits
from opdiff.report.graph_json import SavedGraph
from opdiff.report.rows import ReportRow, SavedComparison, Side, saved
from opdiff.workflows.compare.graph_reports import judged_graphs

GOOD: dict[str, Any] = {
    "cosine": 0.999999, "finite_cosine": 0.999999, "relative_euclidean_distance": 1e-4, "norm_ratio": 1.0,
    "special_mismatches": 0, "max_ulp": 3,
}  # fmt: skip
BAD = GOOD | {"cosine": 0.5, "relative_euclidean_distance": 0.9}
OFF = GOOD | {"norm_ratio": 1.03}


def row(name: str, slot: Slot = Slot.OUTPUT, **figures: Any) -> ReportRow:
    """A measured row of an operator."""
    of = pairing(label(name, f"golden_{name}"), key=TensorKey(name, slot, 0))
    return saved(comparison(measured(of, metrics=metrics(**GOOD | figures)))).rows[0]


def kept(*rows: ReportRow) -> SavedComparison:
    sides = Side("/dump/npu", DumpKind.NPU, quantized=False), Side("/golden", DumpKind.ARRAYS, quantized=False)
    return SavedComparison(*sides, because("pair.scenario_original"), rows)


def not_compared(name: str, reason: str = "no dump file") -> ReportRow:
    return saved(comparison(failed_operator(quoted(reason), label(name)))).rows[0]


def strange_names(names: list[str]) -> SavedComparison:
    return kept(*(row(name, **BAD) for name in names))


FAULT = Finding(
    operator="b",
    op_type="Conv2D",
    tensor="b:output:0",
    level=Level.WRONG,
    kind=ErrorKind.SCALE,
    evidence=(because("judge.scaled", scale=2.0),),
    remedies=remedies_of(ErrorKind.SCALE, (), ()),
    share=0.93,
    path=("b", "c"),
    passes=("ConvBatchnormFusionPass",),
)


def with_judgement() -> SavedComparison:
    """A network in which an error is born in b, and reaches c."""
    nodes = (
        GraphNode("a", "Conv2D"),
        GraphNode("b", "Conv2D", ("a:0", ""), ("b_conv", "b_bn"), ("ConvBatchnormFusionPass",)),
        GraphNode("c", "Conv2D", ("b:0",)),
        GraphNode("d", "Conv2D", ("c:0", "a:0"), is_guess=True),
    )
    verdicts = (
        Verdict(Level.EXACT, because("judge.all_equal")),
        Verdict(Level.WRONG, quoted("far too much"), Birth.BORN, 7.5),
        Verdict(Level.WRONG, quoted("too much"), Birth.INHERITED),
        Verdict(Level.NOISE, quoted("little")),
    )
    judgement = Judgement("", verdicts, (FAULT,), "b", "b", (because("judge.advice", remedy=FAULT.remedies[0]),))
    plain = kept(row("a"), row("b", **BAD), row("c", **BAD), row("d"))
    return plain._replace(graph=nodes, judgement=judgement)


def with_network(operators: int) -> SavedComparison:
    """A long network with branches."""
    plain = many_rows(2 * operators)
    names = [row.label.target for row in plain.rows[::2]]
    inputs = ({number - 1, number - 1 - number % 5} for number in range(operators))
    nodes = (
        GraphNode(name, "Conv2D", tuple(f"{names[before]}:0" for before in sorted(fed) if before >= 0))
        for name, fed in zip(names, inputs, strict=True)
    )
    return plain._replace(graph=tuple(nodes))


def many_rows(count: int, worst: float = 0.5) -> SavedComparison:
    """Two rows for each operator of a network of any size; errors grow towards the end."""
    random_numbers = random.Random(count)
    template = row("x")
    assert template.metrics is not None
    rows = []
    for number in range(count):
        name = f"model/layer_{number // 40}/block_{number // 2}/conv"
        error = worst * (number / count) ** 8 * random_numbers.random()
        figures = template.metrics._replace(
            cosine=1 - error,
            relative_euclidean_distance=error,
            mean_relative_error=error * random_numbers.random(),
            worst_target=random_numbers.random(),
            worst_golden=random_numbers.random(),
        )
        key = TensorKey(name, Slot.OUTPUT if number % 2 else Slot.INPUT, 0)
        made = OpLabel(number // 2, number, "Conv2D", name, name)
        rows.append(template._replace(label=made, key=key, golden_key=key, metrics=figures))
    return kept(*rows)


def many_tokens(ranks: int, tokens: int, operators: int) -> SavedComparison:
    """A run in graph mode of any size; the last token of every rank is bad."""
    template = row("x", **GOOD | {"is_equal": True}).metrics
    assert template is not None
    wrong = template._replace(is_equal=False, cosine=0.5, relative_euclidean_distance=0.9, snr_db=0.9)
    evidence = because("pair.same_name_in_dumps")
    parts = []
    for rank in range(ranks):
        rows = [
            (
                GraphRow(
                    token, f"layer_{number}", Slot.OUTPUT, 0, number, DataMode.REAL, None, None,
                    metrics=wrong if token == tokens - 1 else template, evidence=evidence, confidence=1.0,
                ),
                GraphVerdict("PASS", "Yes", Colour.GREEN),
            )
            for token in range(tokens)
            for number in range(operators)
        ]  # fmt: skip
        about = "/dump/ge", "/dump/fx", because("pair.scenario_graph_fx"), DataMode.REAL
        parts.append(SavedGraph(*about, rank, None, tuple(rows)))
    return judged_graphs(parts, Limits())
