"""The summary for the terminal, in both modes, and the short names of fused operators in it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from made_comparisons import comparison, failed_operator, failed_tensor, label, measured, metrics, pairing
from opdiff.core.comparison import Mode
from opdiff.core.dump import Unit
from opdiff.core.judgement import Colour, DocumentedResult, ErrorKind, Finding, Level
from opdiff.core.reasons import Language, Status, all_of, because, quoted
from opdiff.report import summary_text
from opdiff.report.graph_summary import Tally, tally_lines
from opdiff.report.short_names import short_name, with_short_names

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison, Row


def summary_lines(of: Comparison) -> tuple[str, ...]:
    return tuple(line.text for line in summary_text.summary_lines(of))


def with_cosine(name: str, cosine: float | None, index: int = 0) -> Row:
    return measured(pairing(label(name, name, index)), metrics=metrics(cosine=cosine, norm_ratio=1.0))


def test_low_accuracy() -> None:
    rows = [
        with_cosine("a", 1.0),
        with_cosine("b", 0.98, 1),
        *(with_cosine(f"c{number}", 0.5 - number / 100, number) for number in range(2, 8)),
        with_cosine("d", math.nan),
        with_cosine("e", None),
    ]
    assert summary_lines(comparison(*rows)) == (
        "compared: 10 tensors of 10 operators",
        "not finite: 1 tensor with NaN or infinities (see FiniteCosine, SpecialMismatch)",
        "cosine below 0.99: 7 tensors, first [1] b:output:0; the worst:",
        "  [7] c7:output:0 0.430000",
        "  [6] c6:output:0 0.440000",
        "  [5] c5:output:0 0.450000",
        "  [4] c4:output:0 0.460000",
        "  [3] c3:output:0 0.470000",
        "  [2] c2:output:0 0.480000",
        "  [1] b:output:0 0.980000",
    )


def test_wrong_scale_with_a_good_cosine() -> None:
    rows = (
        measured(pairing(label("a", "a", 3)), metrics=metrics(cosine=1.0, norm_ratio=1.03)),
        measured(pairing(label("b", "b", 4)), metrics=metrics(cosine=1.0, norm_ratio=1.009)),
        measured(pairing(label("c", "c", 5)), metrics=metrics(cosine=0.5, norm_ratio=7.0)),
    )
    lines = summary_lines(comparison(*rows))
    assert "scale more than 1% off with a good cosine: 1 tensor, first [3] a:output:0 1.030000" in lines


def test_good_accuracy() -> None:
    rows = (with_cosine("a", 1.0), with_cosine("b", 0.995, 1), with_cosine("b", 0.999, 1))
    assert summary_lines(comparison(*rows)) == (
        "compared: 3 tensors of 2 operators",
        "cosine: 0.99 or more in 3 tensors",
        "worst cosine: [1] b:output:0 0.995000",
    )


def test_reasons_are_counted_by_their_codes() -> None:
    rows = (
        failed_operator(because("pair.no_file", Status.NOT_DUMPED, side="target", name="x"), label("x", "x")),
        failed_operator(
            because("pair.no_file", Status.NOT_DUMPED, side="target", name="conv_index"), label("conv_index", "y")
        ),
        failed_tensor(quoted("one reason")),
        failed_tensor(quoted("another reason")),
        failed_tensor(quoted("")),
        measured(metrics=None, reason=quoted("x" * 200)),
    )
    assert summary_lines(comparison(*rows)) == (
        "compared: 0 tensors of 0 operators",
        "not compared: 2 whole operators, 4 other tensors",
        "  2 x, such as: the target dump has no file for operator x",
        "  1 x one reason",
        "  1 x another reason",
        "  and 2 other reasons",
    )


def test_inputs_and_constants_of_the_compiled_model_are_counted_apart() -> None:
    absent = because("pair.no_file", Status.NOT_DUMPED, side="target", name="x")
    rows = (
        failed_operator(
            all_of((absent, because("pair.not_run", Status.NO_COUNTERPART, op_type="Data"))), label("x", "x")
        ),
        failed_tensor(because("pair.constant", Status.NO_COUNTERPART, name="weights")),
        failed_operator(absent, label("y", "y")),
    )
    assert summary_lines(comparison(*rows)) == (
        "compared: 0 tensors of 0 operators",
        "nothing to compare: 2 inputs and constants of the compiled model",
        "not compared: 1 whole operator",
        "  1 x the target dump has no file for operator x",
    )


def test_long_and_missing_reasons() -> None:
    lines = summary_lines(comparison(failed_tensor(quoted("")), failed_tensor(quoted("x" * 200))))
    assert lines[2:4] == ("  1 x no reason given", f"  1 x {'x' * 159}…")


@pytest.mark.parametrize(
    ("proved", "lines"),
    [
        (
            (),
            [
                "  operators at fault  kind      share",
                "  1 a (Conv2D)        scale       70%",
                "  2 b (Conv2D)        overflow",
            ],
        ),
        (
            ("b",),
            [
                "  operators at fault  kind      share  proof",
                "  1 a (Conv2D)        scale       70%",
                "  2 b (Conv2D)        overflow         proved",
            ],
        ),
    ],
)
def test_table_of_operators_at_fault(proved: tuple[str, ...], lines: list[str]) -> None:
    findings = (
        Finding("a", "Conv2D", "a:output:0", Level.WRONG, ErrorKind.SCALE, share=0.7),
        Finding("b", "Conv2D", "b:output:0", Level.WRONG, ErrorKind.OVERFLOW),
    )
    found = tuple(replace(finding, is_proved=finding.operator in proved) for finding in findings)
    made = comparison(with_cosine("a", 0.5), with_cosine("b", 0.5))
    made = replace(made, judgement=replace(made.judgement, findings=found))
    assert [line.text.rstrip() for line in summary_text.finding_table(made, Language.ENGLISH)] == lines


# Graph mode


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


# Short names


@pytest.mark.parametrize(
    ("operator", "originals", "short"),
    [
        ("/m/cv2/conv/Conv/m/cv2/act/Mul", ("/m/cv2/conv/Conv", "/m/cv2/act/Mul"), "m/cv2 · Conv + Mul"),
        ("conv1conv1_relu", ("conv1", "conv1_relu"), "conv1 + conv1_relu"),
        ("a/bc/d", ("a/b", "c/d"), "b + d"),
        ("renamed", ("a", "b"), "renamed"),
        ("a", ("a",), "a"),
        ("", ("", ""), ""),
    ],
)
def test_short_name(operator: str, originals: tuple[str, ...], short: str) -> None:
    assert short_name(operator, originals) == short


def test_only_known_operators_of_reasons_are_shortened() -> None:
    names = {"ab": "a + b"}
    assert with_short_names(because("x.y", operator="ab", kind="ab"), names) == because(
        "x.y", operator="a + b", kind="ab"
    )
    assert with_short_names(because("x.y", operator="c"), names) == because("x.y", operator="c")
