"""The Python API: comparisons with their names, tables, representations for notebooks and plots; stages; errors."""

from __future__ import annotations

import csv
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

import opdiff
from made_reports import BAD, GOOD, judged_comparison, row
from opdiff.cli import main
from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import ErrorKind, Finding, Level, Outcome
from opdiff.report.curve import height
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.sample import Sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return write_sample(str(tmp_path_factory.mktemp("sample") / "s"))


@pytest.fixture(scope="module")
def comparison(sample: Sample) -> opdiff.Comparison:
    return opdiff.compare(sample.target, sample.golden, rules=sample.rules)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> opdiff.Comparison:
    sample = write_graph_sample(str(tmp_path_factory.mktemp("graphs") / "s"))
    return opdiff.compare(sample.target, sample.golden)


@pytest.fixture
def matplotlib() -> Any:
    found: Any = pytest.importorskip("matplotlib")
    found.use("agg")
    return found


def test_public_names_are_frozen_and_listed_before_their_import() -> None:
    """Names that programs of users import. Signatures and attributes are compared with the page about Python."""
    frozen = (
        "CompareOptions Comparison DataMode Dump GoldenOptions InputError Mode OpdiffError StageName StagesOptions "
        "TopnOptions UsageError __version__ compare golden open stages topn"
    )
    assert dir(opdiff) == opdiff.__all__ == frozen.split()
    assert all(getattr(opdiff, name) for name in opdiff.__all__)


def test_the_result(comparison: opdiff.Comparison, graphs: opdiff.Comparison) -> None:
    expected = "<opdiff.Comparison: wrong: context/pool (permuted) and 2 more; 59 of 59 operators compared>"
    assert repr(comparison) == expected
    assert repr(graphs) == "<opdiff.Comparison: wrong: MatMul_1 (scale); 32 of 32 operators compared>"
    assert comparison.scenario == "NPU dump against the original model"
    assert comparison.verdict is Outcome.WRONG
    assert comparison.findings[0].operator == "context/pool"
    assert comparison.coverage.compared == 59
    assert "context/pool" in comparison.summary()


def test_rows_by_number_operator_and_tensor(comparison: opdiff.Comparison) -> None:
    assert len(comparison) == len(comparison.rows) == len(list(comparison))
    assert comparison[0].key == comparison.rows[0].key
    assert [each.key for each in comparison[-2:]] == [each.key for each in comparison.rows[-2:]]
    assert [str(each.key) for each in comparison["context/pool"]] == ["context/pool:input:0", "context/pool:output:0"]
    (output,) = comparison["context/pool:output:0"]
    assert output.metrics is not None
    assert (output.metrics.cosine or 0) < 0.99
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
def test_plots(matplotlib: Any, request: pytest.FixtureRequest, tmp_path: Path, name: str, kind: Any) -> None:
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


def test_a_table_needs_pandas(comparison: opdiff.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install 'opdiff\\[notebook\\]'"):
        comparison.to_pandas()


def test_saved_and_loaded(comparison: opdiff.Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "c.json")
    assert repr(opdiff.Comparison.load(tmp_path / "c.json").rows) == repr(comparison.rows)


@pytest.mark.parametrize(
    "words",
    [["--replay", "none"], ["--range", "1,40,1", "--metrics", "0,3", "--overflow"]],
    ids=["whole", "some operators and metrics"],
)
def test_table_equals_that_of_the_command(
    comparison: opdiff.Comparison, sample: Sample, tmp_path: Path, words: list[str]
) -> None:
    sides = [sample.target, sample.golden, "--rules", sample.rules]
    assert main(["compare", *sides, *words, "-o", str(tmp_path), "-q"]) == 0
    (written,), (kept,) = tmp_path.glob("result_*.csv"), tmp_path.glob("result_*.json")
    opdiff.Comparison.load(kept).write_csv(tmp_path / "rebuilt.csv")
    assert (tmp_path / "rebuilt.csv").read_bytes() == written.read_bytes()
    comparison.write_csv(tmp_path / "own.csv")
    assert ((tmp_path / "own.csv").read_bytes() == written.read_bytes()) == ("--range" not in words)


def test_chosen_metrics(comparison: opdiff.Comparison, tmp_path: Path) -> None:
    comparison.write_csv(tmp_path / "some.csv", metrics="MaxAbsoluteError,0", overflow=True)
    with open(tmp_path / "some.csv", newline="") as file:
        header = next(csv.reader(file))
    assert header[header.index("Shape") + 1 : header.index("CompareFailReason")] == [
        "OverFlow", "MaxAbsoluteError", "CosineSimilarity",
    ]  # fmt: skip


def test_pandas_gets_a_column_for_each_number(comparison: opdiff.Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas: Any = ModuleType("pandas")
    pandas.DataFrame = dict
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    table = comparison.to_pandas()
    assert {len(column) for column in table.values()} == {len(comparison.rows)}
    number = table["tensor"].index("context/pool:output:0")
    assert table["golden_tensor"][number] == "context/pool:output:0"
    assert table["cosine"][number] < 0.99
    assert (table["level"][number], table["reason"][number]) == ("wrong", "")


def test_options(sample: Sample, comparison: opdiff.Comparison) -> None:
    options = opdiff.CompareOptions(workers=3, metrics="0")
    sides = sample.target, sample.golden
    for given in ({"options": options}, {"workers": 3, "metrics": "0"}, {"options": options, "workers": 1}):
        found = opdiff.compare(*sides, rules=sample.rules, **given)
        assert [row.key for row in found.rows] == [row.key for row in comparison.rows]
        assert found.defects == ()
        assert all(row.metrics is None or row.metrics.kl_divergence is None for row in found.rows)


def test_modes_and_paths_are_converted(sample: Sample, graphs: opdiff.Comparison, tmp_path: Path) -> None:
    (tmp_path / "limits.toml").write_text("[default]\ncosine = 0.5\n")
    sides = sample.target, sample.golden
    with pytest.raises(UsageError, match=r"rank` goes with `mode=Mode\.GRAPH` only"):
        opdiff.compare(*sides, rules=sample.rules, mode="offline", rank=0)
    with pytest.raises(UsageError, match=r"mode has no value 'grph'; choose from offline, graph; did you mean graph"):
        opdiff.compare(*sides, mode="grph")
    roots = graphs.values.target.path, graphs.values.golden.path
    found = opdiff.compare(*roots, mode="graph", data_mode="statistics", rank=0, cache=tmp_path)
    assert {row.data_mode for row in found} == {opdiff.DataMode.STATISTICS}


@pytest.mark.parametrize(
    ("function", "given", "problem"),
    [
        ("compare", "wrokers", "has no argument wrokers; did you mean workers?"),
        ("compare", "rule", "has no argument rule; did you mean rules?"),
        ("compare", "in_process", "has no argument in_process"),
        ("golden", "sead", "has no argument sead; did you mean seed?"),
        ("topn", "kss", "has no argument kss; did you mean ks?"),
        ("stages", "zzz", "has no argument zzz"),
    ],
)
def test_unknown_arguments_are_refused(function: str, given: str, problem: str) -> None:
    sides = (["a", "b"],) if function == "stages" else ("a", "b")
    with pytest.raises(TypeError) as raised:
        getattr(opdiff, function)(*sides, **{given: 2})
    assert str(raised.value) == f"opdiff.{function}() {problem}"


def test_functions_as_metrics(sample: Sample, tmp_path: Path) -> None:
    def fail(_target: Any, _golden: Any) -> float:
        raise ValueError("not today")

    functions = {"largest": lambda target, golden: float(abs(target - golden).max()), "broken": fail}
    found = opdiff.compare(sample.target, sample.golden, rules=sample.rules, metrics=functions)
    (output,) = found["context/pool:output:0"]
    assert output.metrics is not None
    (name, value, _), broken = output.custom
    assert name == "largest"
    assert float(value) == pytest.approx(output.metrics.max_absolute_error)
    assert broken == ("broken", "NaN", "broken failed: ValueError('not today')")
    found.write_csv(tmp_path / "r.csv")
    assert "largest" in (tmp_path / "r.csv").read_text().splitlines()[0].split(",")
    for name, problem in (("cosinesimilarity", "is taken"), ("p 99", "not a word")):
        with pytest.raises(opdiff.OpdiffError, match=problem):
            opdiff.compare(sample.target, sample.golden, rules=sample.rules, metrics={name: fail})
    for elsewhere in ({"cluster": "local:1"}, {"resume": True}):
        with pytest.raises(UsageError, match="with functions goes with neither `cluster` nor `resume`"):
            opdiff.compare(sample.target, sample.golden, rules=sample.rules, metrics=functions, **elsewhere)


def test_unknown_plots_are_refused(comparison: opdiff.Comparison) -> None:
    wrong: Any = "heat map"
    with pytest.raises(
        UsageError, match=r"no plot .heat map.; choose from curve, histogram, heatmap; did you mean heatmap"
    ):
        comparison.plot(wrong)


def test_errors_name_arguments_of_python(sample: Sample, tmp_path: Path) -> None:
    sides = (sample.target, sample.golden)
    with pytest.raises(
        UsageError, match=r"This comparison needs a rule file: add `rules`\. For `rules`, give the offline model"
    ):
        opdiff.compare(*sides)
    with pytest.raises(UsageError, match=r"`rank` goes with `mode=Mode\.GRAPH` only"):
        opdiff.compare(*sides, rules=sample.rules, options=opdiff.CompareOptions(rank=0))
    with pytest.raises(UsageError, match="`number_range` and `selected` go by the numbers of a rule file"):
        opdiff.compare(*sides, options=opdiff.CompareOptions(selected="1"))
    with pytest.raises(UsageError, match="a directory of rule files is for a batch"):
        opdiff.compare(*sides, rules=tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        opdiff.compare(tmp_path / "nothing", sample.golden, rules=sample.rules)
    with pytest.raises(AttributeError, match="has no attribute 'comparison_of'"):
        _ = opdiff.comparison_of


def test_stages(tmp_path: Path) -> None:
    from opdiff.sample.stages import write_stage_sample

    made = write_stage_sample(str(tmp_path), ["conversion"])
    folders = [made.original, made.fusion_off, made.fusion_on]
    options = opdiff.StagesOptions(names=(opdiff.StageName.ORIGINAL,))
    rules = {"rules": made.fusion_on_rules, "fusion_off_rules": made.fusion_off_rules, "quant_rules": made.quant_rules}
    chain = opdiff.stages(folders, **rules, options=options)
    assert chain.verdict.culprit == 0
    assert chain.verdict.steps[0].finding is not None
    assert chain.verdict.steps[0].finding.operator == "pool"
    assert len(list(tmp_path.iterdir())) == 7
