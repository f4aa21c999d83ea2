"""A comparison in Python: names, representations for notebooks, plots and errors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

import opdiff
from made_reports import BAD, GOOD, judged_comparison, row
from opdiff.core.errors import UsageError
from opdiff.core.judgement import ErrorKind, Finding, Level, Outcome
from opdiff.report.curve import height
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path

matplotlib: Any = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> opdiff.Comparison:
    sample = write_sample(str(tmp_path_factory.mktemp("sample") / "s"))
    return opdiff.compare(sample.target, sample.golden, rules=sample.rules)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> opdiff.Comparison:
    sample = write_graph_sample(str(tmp_path_factory.mktemp("graphs") / "s"))
    return opdiff.compare(sample.target, sample.golden)


def test_public_names_are_listed_before_their_import() -> None:
    assert dir(opdiff) == sorted(opdiff.__all__)


def test_offline_comparison_in_a_line(comparison: opdiff.Comparison) -> None:
    expected = "<opdiff.Comparison: wrong: context/pool (permuted) and 2 more; 59 of 59 operators compared>"
    assert repr(comparison) == expected


def test_graph_mode_in_a_line(graphs: opdiff.Comparison) -> None:
    assert repr(graphs) == "<opdiff.Comparison: wrong: MatMul_1 (scale); 32 of 32 operators compared>"


def test_verdict_findings_and_coverage(comparison: opdiff.Comparison) -> None:
    assert comparison.verdict is Outcome.WRONG
    assert comparison.findings[0].operator == "context/pool"
    assert comparison.coverage.compared == 59


def test_rows_by_number_operator_and_tensor(comparison: opdiff.Comparison) -> None:
    assert len(comparison) == len(comparison.rows) == len(list(comparison))
    assert (comparison[0], comparison[-2:]) == (comparison.rows[0], comparison.rows[-2:])
    assert [str(each.key) for each in comparison["context/pool"]] == ["context/pool:input:0", "context/pool:output:0"]
    (output,) = comparison["context/pool:output:0"]
    assert output.metrics is not None
    with pytest.raises(KeyError, match=r"contxt/pool; did you mean context/pool\?"):
        comparison["contxt/pool"]


@pytest.mark.parametrize("name", ["comparison", "graphs"])
def test_html_of_a_notebook(request: pytest.FixtureRequest, name: str) -> None:
    made: opdiff.Comparison = request.getfixturevalue(name)
    root = ET.fromstring(made._repr_html_())  # noqa: S314  our own output
    text = "".join(root.itertext())
    assert "wrong" in text
    assert f"{made.coverage.compared} of {made.coverage.operators} operators compared" in text
    assert {finding.operator for finding in made.findings} <= {cell.text for cell in root.iter("td")}
    dots = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(dots) > len(made.findings)


def test_names_in_html_are_escaped() -> None:
    name = "<script>alert(1)</script>&\u202e"
    values = judged_comparison(row(name, **BAD), row("b", **GOOD))
    finding = Finding(f"{name}\x1b", name, f"{name}:output:0", Level.WRONG, ErrorKind.SCALE)
    values = replace(values, judgement=replace(values.judgement, findings=(finding,)))
    html = opdiff.Comparison(values)._repr_html_()
    ET.fromstring(html)  # noqa: S314  our own output
    assert "<script" not in html
    assert "\u202e" not in html
    assert repr(opdiff.Comparison(values)).isprintable()


def test_many_points_are_reduced_to_the_worst() -> None:
    rows = [row(f"a{number}", **(BAD if number == 1234 else GOOD)) for number in range(3000)]
    html = opdiff.Comparison(judged_comparison(*rows))._repr_html_()
    assert html.count("<circle") <= 400
    assert "a1234:output:0" in html


@pytest.mark.parametrize(
    ("distance", "expected"), [(0.0, 0.0), (1e-7, 0.0), (1e-4, 0.5), (0.1, 1.0), (float("inf"), 1.0)]
)
def test_heights_are_logarithmic(distance: float, expected: float) -> None:
    assert height(distance) == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["curve", "histogram", "heatmap"])
@pytest.mark.parametrize("name", ["comparison", "graphs"])
def test_plots(request: pytest.FixtureRequest, tmp_path: Path, name: str, kind: Any) -> None:
    made: opdiff.Comparison = request.getfixturevalue(name)
    figure: Any = made.plot(kind).figure
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000
    matplotlib.pyplot.close("all")


def test_a_plot_needs_something_to_draw() -> None:
    nothing = opdiff.Comparison(judged_comparison())
    kinds: tuple[Any, ...] = ("curve", "histogram", "heatmap")
    for kind in kinds:
        with pytest.raises(UsageError, match=r"there (is|are) no"):
            nothing.plot(kind)


def test_a_plot_needs_matplotlib(comparison: opdiff.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(UsageError, match="pip install 'opdiff\\[notebook\\]'"):
        comparison.plot()


def test_errors_name_arguments_of_python(tmp_path: Path) -> None:
    sample = write_sample(str(tmp_path / "s"))
    sides = (sample.target, sample.golden)
    with pytest.raises(UsageError, match="This comparison takes `rules`, but no rule file was given"):
        opdiff.compare(*sides)
    with pytest.raises(UsageError, match=r"`rank` goes with `mode=Mode\.GRAPH` only"):
        opdiff.compare(*sides, rules=sample.rules, options=opdiff.CompareOptions(rank=0))
    with pytest.raises(UsageError, match="`number_range` and `selected` go by the numbers of a rule file"):
        opdiff.compare(*sides, options=opdiff.CompareOptions(selected="1"))
