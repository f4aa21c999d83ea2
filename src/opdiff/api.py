"""The comparison for Python programs: `opdiff.compare(target, golden, rules=…)`. See docs/python.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.comparison import DataMode, Mode
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import render
from opdiff.core.remote.urls import without_secrets
from opdiff.report.flat import flat_table
from opdiff.report.html_page import write_html
from opdiff.report.offline_table import offline_table
from opdiff.report.saved_json import save
from opdiff.report.summary_text import summary_lines
from opdiff.report.table import write_csv
from opdiff.workflows.compare import pipeline
from opdiff.workflows.compare.inputs import NotCompared
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.outputs import selected_metrics
from opdiff.workflows.compare.saved import load_saved
from opdiff.workflows.golden.options import GoldenOptions
from opdiff.workflows.stages.options import StageName, StagesOptions
from opdiff.workflows.topn.options import TopnOptions

__all__ = [
    "CompareOptions", "Comparison", "DataMode", "GoldenOptions", "Mode", "StageName", "StagesOptions", "TopnOptions",
    "compare", "golden", "stages", "topn",
]  # fmt: skip

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import Any

    from opdiff.core import comparison as core
    from opdiff.core.judgement import Judgement
    from opdiff.core.reasons import Reason
    from opdiff.core.stages import Chain
    from opdiff.workflows.golden.pipeline import GoldenResult
    from opdiff.workflows.topn.result import TopnResult

    Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two dumps, compared and judged, in both modes; it holds no tensors.

    Attributes:
        values: everything as a value: sides, rows, judgement, graphs, profiles.
        defects: tracebacks of errors of opdiff itself, each of which cost a row; normally there are none.
    """

    values: core.Comparison
    defects: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[core.Row, ...]:
        """One row for each tensor, and for each operator that could not be compared, in the order of the report."""
        return self.values.rows

    @property
    def judgement(self) -> Judgement:
        """A verdict for each row, the findings, and in graph mode the documented results."""
        return self.values.judgement

    @property
    def notes(self) -> tuple[Reason, ...]:
        """Remarks about the two dumps."""
        return self.values.notes

    @property
    def scenario(self) -> str:
        """What was compared with what, in words."""
        return render(self.values.scenario)

    def summary(self) -> str:
        """Return how much was compared, why the rest was not, and where the accuracy is low."""
        return "\n".join(line.text for line in summary_lines(self.values))

    def write_csv(self, path: Path, *, metrics: str | None = None, overflow: bool | None = None) -> None:
        """Write the documented result table of an offline comparison, as it was wanted then, or with other columns.

        Raises:
            UsageError: there is no such metric, or this is a comparison in graph mode, which has several tables.
        """
        if self.values.mode is Mode.GRAPH:
            raise UsageError("a comparison in graph mode has several tables; use the command line")
        view = self.values.view
        view = view if metrics is None else replace(view, metrics=metrics)
        view = view if overflow is None else replace(view, overflow=overflow)
        shown = replace(self.values, view=view)
        write_csv(offline_table(shown, selected_metrics(shown)), str(path))

    def write_html(self, path: Path) -> None:
        """Write the report: one HTML file that needs no network."""
        write_html(self.values, str(path))

    def save(self, path: Path) -> None:
        """Write everything as JSON, for `load`."""
        save(self.values, str(path))

    @classmethod
    def load(cls, *paths: Path) -> Comparison:
        """Read a comparison that was saved, by `save` or by the command line; several files of older graph modes."""
        return cls(load_saved([str(path) for path in paths]))

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas is optional and untyped here
        """Return the rows as a `pandas.DataFrame`, one column for each number; needs pandas."""
        import pandas as pd

        table = flat_table(self.values)
        return pd.DataFrame(dict(zip(table.names, table.columns, strict=True)))


def compare(
    target: Path,
    golden: Path,
    *,
    rules: Path = "",
    fusion_off_rules: Path = "",
    quant_rules: Path = "",
    options: CompareOptions | None = None,
) -> Comparison:
    """Compare two dumps, offline or in graph mode; nothing is written.

    Args:
        target: the directory of the run on the NPU; paths may be URLs of remote files, see docs/remote.md.
        golden: the directory of the run that it must equal.
        rules: the rule file of the model with fusion on.
        fusion_off_rules: the rule file of the model with fusion off.
        quant_rules: the rule file that quantization wrote.
        options: everything else, such as `CompareOptions(workers=2, rank=0)`; its paths are not used.

    Raises:
        UsageError: the options contradict each other or the data, or this is a batch of many comparisons.
        InputError: a side or a rule file cannot be used.
    """
    if filesystem.isdir(without_secrets(str(rules))):
        raise UsageError("a directory of rule files is for a batch of comparisons; use the command line")
    wanted = replace(
        options or CompareOptions(),
        target=without_secrets(str(target)),
        golden=without_secrets(str(golden)),
        fusion_rules=without_secrets(str(rules)),
        fusion_off_rules=without_secrets(str(fusion_off_rules)),
        quant_rules=without_secrets(str(quant_rules)),
        in_process=True,
    )
    (result,) = pipeline.compare(wanted, lambda _done, _total: None)
    if isinstance(result, NotCompared):
        raise InputError(result.path, result.reason)
    return Comparison(result.comparison, result.defects)


def golden(
    model: Path,
    output: Path,
    *,
    weights: Path = "",
    inputs: Mapping[str, Path] | None = None,
    rules: Path = "",
    options: GoldenOptions | None = None,
) -> GoldenResult:
    """Run an original model and write the outputs of its operators as golden data.

    Args:
        model: ONNX file, prototxt of a Caffe net, or frozen TensorFlow graph.
        output: new or empty directory; with `GoldenOptions(reuse=True)`, the folder of such directories.
        weights: caffemodel of a prototxt.
        inputs: files by input; the empty name stands for the only input.
        rules: offline model or rule file that tells shapes.
        options: everything else, such as `GoldenOptions(seed=1, shapes={"x": (1, 3, 224, 224)})`.

    Raises:
        UsageError: the arguments do not fit the model, or an engine is not installed.
        InputError: a file cannot be used.
    """
    from opdiff.workflows.golden.pipeline import make_golden

    wanted = replace(
        options or GoldenOptions(),
        model=str(model),
        weights=str(weights),
        output=str(output),
        inputs={name: str(path) for name, path in (inputs or {}).items()},
        rules=str(rules),
    )
    return make_golden(wanted, lambda _note: None, lambda _done, _total: None)


def topn(target: Path, golden: Path, *, labels: Path = "", options: TopnOptions | None = None) -> TopnResult:
    """Compare the best classes of a classification model in two runs over a batch of samples.

    Args:
        target: outputs of the run under test: an array, an archive, or a directory.
        golden: outputs of the reference run.
        labels: file of the right classes, for the accuracy of both runs.
        options: everything else, such as `TopnOptions(ks=(1, 3), operator="prob")`; its paths are not used.

    Raises:
        UsageError: a k is not a number of classes.
        InputError: outputs or labels cannot be used.
    """
    from opdiff.workflows.topn.pipeline import check_topn

    paths = {"target": str(target), "golden": str(golden), "labels": str(labels)}
    return check_topn(replace(options or TopnOptions(), **paths))


def stages(
    folders: Sequence[Path],
    *,
    rules: Path = "",
    fusion_off_rules: Path = "",
    quant_rules: Path = "",
    options: StagesOptions | None = None,
) -> Chain:
    """Compare runs of one model from the original on, and find the step that lost the accuracy; nothing is written.

    Args:
        folders: two to four directories, in the order of the steps.
        rules: rule file of the model with fusion on.
        fusion_off_rules: rule file of the model with fusion off.
        quant_rules: rule file that quantization wrote.
        options: everything else, such as `StagesOptions(names=(None, StageName.QUANTIZED))`.

    Raises:
        UsageError: there are too few or too many directories, or it cannot be told what one holds.
        InputError: fewer than two directories can be used, or a rule file cannot.
    """
    from opdiff.workflows.stages.pipeline import compare_stages

    wanted = options or StagesOptions()
    wanted = replace(
        wanted,
        folders=tuple(map(str, folders)),
        fusion_rules=str(rules),
        fusion_off_rules=str(fusion_off_rules),
        quant_rules=str(quant_rules),
        compare=replace(wanted.compare, mode=Mode.OFFLINE, in_process=True),
    )
    return compare_stages(wanted, lambda _done, _total: None).chain
