"""Comparisons for tests of reports: with unusual names, with a judgement, with many rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from made_comparisons import failed_operator, label, measured, metrics, pairing
from opdiff.core.comparison import Comparison, GraphNode, Mode, ModelGraph, Row, Side
from opdiff.core.dump import DumpKind, Unit
from opdiff.core.judgement import ErrorKind, Finding, Judgement, Level, Origin, Verdict
from opdiff.core.metrics import DocumentedMetrics
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import because, quoted
from opdiff.core.tensor import Slot, TensorKey
from opdiff.judge.advice import remedies_of
from opdiff.judge.comparison_judgement import judge
from opdiff.judge.coverage import coverage_of
from opdiff.judge.network import build_network
from opdiff.measure.pictures import SampledValues, draw_picture

if TYPE_CHECKING:
    from opdiff.core.pictures import TensorPicture

GOOD: dict[str, Any] = {
    "cosine": 0.999999, "finite_cosine": 0.999999, "relative_euclidean_distance": 1e-4, "norm_ratio": 1.0,
    "special_mismatches": 0, "max_ulp": 3,
}  # fmt: skip
BAD = GOOD | {"cosine": 0.5, "relative_euclidean_distance": 0.9}
OFF = GOOD | {"norm_ratio": 1.03}


def row(name: str, slot: Slot = Slot.OUTPUT, **values: Any) -> Row:
    """Return a measured row of an operator."""
    of = pairing(label(name, f"golden_{name}"), key=TensorKey(name, slot, 0))
    return measured(of, metrics=metrics(**GOOD | values))


def picture(number: int, shape: tuple[int, ...], labels: str = "", *, specials: bool = False) -> TensorPicture:
    """Return the picture of a tensor of random numbers in a row, the target 20 % too large."""
    golden = np.random.default_rng(number).normal(size=shape)
    target = 1.2 * golden
    if specials:
        target.reshape(-1)[:3] = np.nan, np.inf, -np.inf
    x, y = target.reshape(-1), golden.reshape(-1)
    values = SampledValues(shape, labels, np.arange(x.size), x, y, lambda at: (x[at], y[at]))
    found = draw_picture(number, values, 6 * 64 * 64)
    assert found is not None
    return found


SIDES = Side("/dump/npu", DumpKind.NPU), Side("/golden", DumpKind.ARRAYS)


def judged_comparison(*rows: Row) -> Comparison:
    """Return an offline comparison of these rows, judged by the cosine only."""
    verdicts = tuple(map(_verdict, rows))
    judgement = Judgement("", verdicts, coverage=coverage_of(rows, build_network(rows, ())))
    return Comparison(Mode.OFFLINE, *SIDES, because("pair.scenario_original"), rows, judgement)


def _verdict(row: Row) -> Verdict:
    if row.metrics is None:
        return Verdict(Level.NOT_COMPARABLE, row.reason or quoted("not measured"))
    if row.metrics.is_equal:
        return Verdict(Level.EXACT, because("judge.all_equal"))
    if row.metrics.cosine is None or row.metrics.cosine < 0.99:
        return Verdict(Level.WRONG, quoted("cosine below 0.99"))
    is_off = abs((row.metrics.norm_ratio or 1) - 1) > 0.01
    return Verdict(Level.SUSPICIOUS, quoted("norms differ")) if is_off else Verdict(Level.NOISE, quoted("little"))


def not_compared(name: str, reason: str = "no dump file") -> Row:
    return failed_operator(quoted(reason), label(name))


def strange_names(names: list[str]) -> Comparison:
    return judged_comparison(*(row(name, **BAD) for name in names))


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


def with_judgement() -> Comparison:
    """Return a network with an error that originates in b and propagates to c."""
    nodes = (
        GraphNode("a", "Conv2D"),
        GraphNode("b", "Conv2D", ("a:0", ""), ("b_conv", "b_bn"), ("ConvBatchnormFusionPass",)),
        GraphNode("c", "Conv2D", ("b:0",)),
        GraphNode("d", "Conv2D", ("c:0", "a:0"), is_guess=True),
    )
    verdicts = (
        Verdict(Level.EXACT, because("judge.all_equal")),
        Verdict(Level.WRONG, quoted("far too much"), Origin.CREATED, 7.5),
        Verdict(Level.WRONG, quoted("too much"), Origin.INHERITED),
        Verdict(Level.NOISE, quoted("little")),
    )
    judgement = Judgement("", verdicts, (FAULT,), "b", "b", (because("judge.advice", remedy=FAULT.remedies[0]),))
    plain = judged_comparison(row("a"), row("b", **BAD), row("c", **BAD), row("d"))
    return replace(plain, graphs=(ModelGraph(nodes),), judgement=judgement)


def with_network(operators: int) -> Comparison:
    """Return a long network with branches."""
    plain = many_rows(2 * operators)
    names = [row.label.target for row in plain.rows[::2]]
    inputs = ({number - 1, number - 1 - number % 5} for number in range(operators))
    nodes = (
        GraphNode(name, "Conv2D", tuple(f"{names[before]}:0" for before in sorted(fed) if before >= 0))
        for name, fed in zip(names, inputs, strict=True)
    )
    return replace(plain, graphs=(ModelGraph(tuple(nodes)),))


def many_rows(count: int, worst: float = 0.5) -> Comparison:
    """Return a network of any size with two rows for each operator; errors grow towards the end."""
    random_numbers = random.Random(count)
    template = row("x")
    assert template.metrics is not None
    rows = []
    for number in range(count):
        name = f"model/layer_{number // 40}/block_{number // 2}/conv"
        error = worst * (number / count) ** 8 * random_numbers.random()
        row_metrics = replace(
            template.metrics,
            cosine=1 - error,
            relative_euclidean_distance=error,
            mean_relative_error=error * random_numbers.random(),
            worst_target=random_numbers.random(),
            worst_golden=random_numbers.random(),
        )
        key = TensorKey(name, Slot.OUTPUT if number % 2 else Slot.INPUT, 0)
        made = OpLabel(number // 2, number, "Conv2D", name, name)
        rows.append(replace(template, label=made, key=key, golden_key=key, metrics=row_metrics))
    return judged_comparison(*rows)


def many_tokens(ranks: int, tokens: int, operators: int) -> Comparison:
    """Return a run in graph mode of any size; the last token of every rank is bad."""
    template = row("x", **GOOD | {"is_equal": True}).metrics
    assert template is not None
    wrong = replace(template, is_equal=False, cosine=0.5, relative_euclidean_distance=0.9, snr_db=0.9)
    passed = DocumentedMetrics(1.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    made = [
        Row(
            OpLabel(number, 0, "", f"layer_{number}", "*"),
            TensorKey(f"layer_{number}", Slot.OUTPUT, 0),
            metrics=wrong if token == tokens - 1 else template,
            documented=passed,
            evidence=because("pair.same_name_in_dumps"),
            confidence=1.0,
            unit=Unit(rank, token, None),
            timestamp=number,
        )
        for rank in range(ranks)
        for token in range(tokens)
        for number in range(operators)
    ]
    sides = Side("/dump/ge", DumpKind.NPU), Side("/dump/fx", DumpKind.ARRAYS)
    return Comparison(Mode.GRAPH, *sides, because("pair.scenario_graph_fx"), tuple(made), judge(made))
