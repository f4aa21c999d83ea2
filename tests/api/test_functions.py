"""The Python API."""

from __future__ import annotations

import csv
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import opdiff
from opdiff.core.errors import InputError, UsageError
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.sample import Sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return write_sample(str(tmp_path_factory.mktemp("sample") / "s"))


@pytest.fixture(scope="module")
def comparison(sample: Sample) -> opdiff.Comparison:
    return opdiff.compare(sample.target, sample.golden, rules=sample.rules)


def test_rows(comparison: opdiff.Comparison) -> None:
    assert comparison.scenario == "NPU dump against the original model"
    rows = {str(row.key): row for row in comparison.rows}
    metrics = rows["context/pool:output:0"].metrics
    assert metrics is not None
    assert metrics.cosine is not None
    assert metrics.cosine < 0.99
    assert "context/pool" in comparison.summary()


def test_saved_and_loaded(comparison: opdiff.Comparison, tmp_path: Path) -> None:
    comparison.save(tmp_path / "c.json")
    loaded = opdiff.Comparison.load(tmp_path / "c.json")
    assert repr(loaded.rows) == repr(comparison.rows)
    for number, each in enumerate((comparison, loaded)):
        each.write_csv(tmp_path / f"{number}.csv")
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()


def test_table_equals_that_of_the_command(comparison: opdiff.Comparison, sample: Sample, tmp_path: Path) -> None:
    from opdiff.cli import main

    words = ["compare", sample.target, sample.golden, "--rules", sample.rules, "--replay", "none"]
    assert main([*words, "-o", str(tmp_path), "-q"]) == 0
    (written,) = tmp_path.glob("result_*.csv")
    comparison.write_csv(tmp_path / "own.csv")
    assert (tmp_path / "own.csv").read_bytes() == written.read_bytes()
    (kept,) = tmp_path.glob("result_*.json")
    opdiff.Comparison.load(kept).write_csv(tmp_path / "rebuilt.csv")
    assert (tmp_path / "rebuilt.csv").read_bytes() == written.read_bytes()


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


def test_a_table_of_some_operators_can_be_rebuilt(sample: Sample, tmp_path: Path) -> None:
    from opdiff.cli import main

    words = ["compare", sample.target, sample.golden, "--rules", sample.rules, "-o", str(tmp_path), "-q"]
    assert main([*words, "--range", "1,40,1", "--metrics", "0,3", "--overflow"]) == 0
    (written,), (kept,) = tmp_path.glob("result_*.csv"), tmp_path.glob("result_*.json")
    opdiff.Comparison.load(kept).write_csv(tmp_path / "rebuilt.csv")
    assert (tmp_path / "rebuilt.csv").read_bytes() == written.read_bytes()


def test_options(sample: Sample, comparison: opdiff.Comparison) -> None:
    options = opdiff.CompareOptions(workers=3, metrics="0")
    found = opdiff.compare(sample.target, sample.golden, rules=sample.rules, options=options)
    assert [row.key for row in found.rows] == [row.key for row in comparison.rows]
    assert found.defects == ()
    assert all(row.metrics is None or row.metrics.kl_divergence is None for row in found.rows)


def test_errors(sample: Sample, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes `rules`"):
        opdiff.compare(sample.target, sample.golden)
    with pytest.raises(UsageError, match="a directory of rule files is for a batch"):
        opdiff.compare(sample.target, sample.golden, rules=tmp_path)
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
    assert len(list(tmp_path.iterdir())) == 6
