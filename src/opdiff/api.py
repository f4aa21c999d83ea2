"""The comparison for Python programs: `opdiff.compare(target, golden, rules=…)`. See docs/python.md."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opdiff import __version__
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import render
from opdiff.report.csv_table import write_csv
from opdiff.report.graph_json import SavedGraph, load_graph_json
from opdiff.report.graph_summary import Tally, tally_lines
from opdiff.report.saved_json import load, save
from opdiff.report.summary_text import summary_lines
from opdiff.workflows.compare import graph_pipeline, pipeline
from opdiff.workflows.compare.graph_outputs import saved_parts
from opdiff.workflows.compare.graph_pipeline import GraphOptions, plan_graphs
from opdiff.workflows.compare.inputs import CompareOptions, NotCompared
from opdiff.workflows.compare.outputs import environment, write_page
from opdiff.workflows.compare.profiles import with_profiles

__all__ = ["CompareOptions", "Comparison", "GraphComparison", "GraphOptions", "compare", "compare_graphs"]

if TYPE_CHECKING:
    from typing import Any

    from opdiff.core.graphmode import GraphRow, Verdict
    from opdiff.report.rows import ReportRow, SavedComparison

    Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of comparing two dumps: everything but the tensors.

    `defects` has the tracebacks of errors of opdiff itself, each of which cost a row; mostly there are none.
    """

    saved: SavedComparison
    defects: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[ReportRow, ...]:
        """One row for each tensor, and for each operator that could not be compared, in the order of the report."""
        return self.saved.rows

    @property
    def scenario(self) -> str:
        """What was compared with what, in words."""
        return str(self.saved.scenario)

    def summary(self) -> str:
        """How much was compared, why the rest was not, and where the accuracy is low."""
        return "\n".join(summary_lines(self.saved))

    def write_csv(self, path: Path, *, metrics: str | None = None, overflow: bool | None = None) -> None:
        """Write the documented result table, as it was wanted when the dumps were compared, or otherwise."""
        kept = self.saved
        if metrics is not None:
            kept = kept._replace(metrics=metrics)
        if overflow is not None:
            kept = kept._replace(overflow=overflow)
        write_csv(kept, str(path), pipeline.report_columns(kept))

    def write_html(self, path: Path) -> None:
        """Write the report: one HTML file that needs no network."""
        write_page(self.saved, str(path))

    def save(self, path: Path) -> None:
        """Write everything as JSON, for `load`."""
        save(self.saved, str(path), made_by=f"opdiff {__version__}")

    @classmethod
    def load(cls, path: Path) -> Comparison:
        """A comparison that was saved, by `save` or beside a result file."""
        return cls(load(str(path)))

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas is optional and untyped here
        """The rows as a `pandas.DataFrame`, one column for each figure; needs pandas."""
        import pandas as pd

        return pd.DataFrame([_record(row) for row in self.rows])


def compare(
    target: Path,
    golden: Path,
    *,
    rules: Path = "",
    fusion_off_rules: Path = "",
    quant_rules: Path = "",
    options: CompareOptions | None = None,
) -> Comparison:
    """Compare two dumps.

    Args:
        target: the directory of the run on the NPU.
        golden: the directory of the run that it must equal.
        rules: the rule file of the model with fusion on.
        fusion_off_rules: the rule file of the model with fusion off.
        quant_rules: the rule file that quantization wrote.
        options: everything else, such as `CompareOptions(workers=2, pairs="pairs.toml")`; its paths are not used.

    Raises:
        UsageError: the options contradict each other or the data, or this is a batch of many comparisons.
        InputError: a side or a rule file cannot be used.
    """
    if os.path.isdir(rules):
        raise UsageError("a directory of rule files is for a batch of comparisons; use the command line")
    wanted = (options or CompareOptions())._replace(
        target=str(target),
        golden=str(golden),
        fusion_rules=str(rules),
        fusion_off_rules=str(fusion_off_rules),
        quant_rules=str(quant_rules),
        in_process=True,
    )
    (result,) = pipeline.compare(wanted, lambda _done, _all: None)
    if isinstance(result, NotCompared):
        raise InputError(result.path, result.reason)
    kept = pipeline.judged(result.comparison, pipeline.find_limits(wanted.limits))
    kept = with_profiles(kept, result.comparison, pipeline.conversions(wanted))
    return Comparison(kept._replace(environment=environment()), result.defects)


def _record(row: ReportRow) -> dict[str, object]:
    """One row of a table, flat."""
    record: dict[str, object] = row.label._asdict()
    record |= {
        "tensor": "" if row.key is None else str(row.key),
        "golden_tensor": "" if row.golden_key is None else str(row.golden_key),
        "target_dtype": row.target_dtype,
        "golden_dtype": row.golden_dtype,
        "shape": row.shape,
    }
    if row.metrics is not None:
        record |= {name: value for name, value in row.metrics._asdict().items() if name != "notes"}
    record |= {name: value for name, value, _ in row.custom}
    return record | {
        "overflow": row.overflow,
        "reason": render(row.reason),
        "rule": render(row.evidence),
        "confidence": row.confidence,
    }


@dataclass(frozen=True, slots=True)
class GraphComparison:
    """What came of comparing two dumps of graph mode: everything but the tensors.

    Attributes:
        parts: one for each graph of each rank and each way in which it was compared.
        notes: what is to be known about the two dumps.
        defects: tracebacks of errors of opdiff itself, each of which cost rows; mostly there are none.
    """

    parts: tuple[SavedGraph, ...]
    notes: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[tuple[GraphRow, Verdict], ...]:
        """Every row and what it means: PASS or FAIL, the colour, and why that."""
        return tuple(judged for part in self.parts for judged in part.rows)

    def summary(self) -> str:
        """How many tensors pass, by rank and token, and where the first is that does not."""
        tally = Tally()
        for part in self.parts:
            tally.add(part.rank, part.graph, part.rows)
        return "\n".join(tally_lines(tally))

    def write_html(self, path: Path) -> None:
        """Write the report of all ranks, graphs and tokens; an existing file is replaced."""
        from opdiff.workflows.compare.graph_reports import judged_graphs

        kept = judged_graphs(self.parts, pipeline.find_limits(""))
        write_page(kept if kept.environment.opdiff else kept._replace(environment=environment()), str(path))

    @classmethod
    def load(cls, *paths: Path) -> GraphComparison:
        """What the command line wrote: the `.json` files beside the tables."""
        return cls(tuple(load_graph_json(str(path)) for path in paths))


def compare_graphs(target: Path, golden: Path, *, options: GraphOptions | None = None) -> GraphComparison:
    """Compare two dumps of graph mode.

    Args:
        target: the directory of the dump of the graph engine.
        golden: the directory of the FX dump, or of the dump of the graph engine without fusion.
        options: everything else, such as `GraphOptions(rank=0)`; its paths are not used.

    Raises:
        UsageError: it has to be said which rank is meant.
        InputError: a side cannot be used, or nothing belongs together.
    """
    wanted = (options or GraphOptions())._replace(target=str(target), golden=str(golden), in_process=True)
    plan = plan_graphs(wanted)
    parts: list[SavedGraph] = []
    notes, defects = list(map(str, plan.notes)), list[str]()
    for result in graph_pipeline.compare_graphs(plan, wanted, lambda _done, _all: None):
        parts += saved_parts(result, plan)
        notes += map(str, result.notes)
        defects += result.defects
    return GraphComparison(tuple(parts), tuple(notes), tuple(defects))
