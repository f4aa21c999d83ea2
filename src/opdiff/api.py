"""The comparison for Python programs: `opdiff.compare(target, golden, rules=…)`. See docs/python.md."""

from __future__ import annotations

import os
from dataclasses import dataclass

from opdiff import __version__, pipeline
from opdiff.channels import with_profiles
from opdiff.errors import InputError, UsageError
from opdiff.report.as_csv import write_csv
from opdiff.report.as_json import load, save
from opdiff.report.as_text import summary_lines
from opdiff.reporting import environment, write_page
from opdiff.sides import CompareOptions, NotCompared
from opdiff.values import TYPE_CHECKING

__all__ = ["CompareOptions", "Comparison", "compare"]

if TYPE_CHECKING:
    from typing import Any

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
        return self.saved.scenario

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
    close_rules: Path = "",
    quant_rules: Path = "",
    options: CompareOptions | None = None,
) -> Comparison:
    """Compare two dumps.

    Args:
        target: the directory of the run on the NPU.
        golden: the directory of the run that it must equal.
        rules: the rule file of the model with fusion on.
        close_rules: the rule file of the model with fusion off.
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
        close_rules=str(close_rules),
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
    return record | {"overflow": row.overflow, "reason": row.reason, "rule": row.rule, "confidence": row.confidence}
