"""A comparison as Python programs and notebooks see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, overload

from msgspec.structs import asdict, astuple, replace

from opdiff.api.rows import Row, RowSide
from opdiff.core.comparison import Mode
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because, did_you_mean, render
from opdiff.report.flat import flat_table
from opdiff.report.html_page import write_html
from opdiff.report.notebook import notebook_html, plot_curve, plot_heatmap, plot_histogram
from opdiff.report.offline_table import offline_table
from opdiff.report.saved_json import save
from opdiff.report.summary_text import outcome_text, summary_lines
from opdiff.report.table import write_csv
from opdiff.workflows.compare.outputs import selected_metrics
from opdiff.workflows.compare.saved import load_saved
from opdiff.workflows.open_dump import RowTensors

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from typing import Any, Literal

    from matplotlib.axes import Axes

    from opdiff.core import comparison as core
    from opdiff.core.judgement import Coverage, Finding, Judgement, Outcome
    from opdiff.core.reasons import Reason

    Path = str | os.PathLike[str]
    Plot = Literal["curve", "histogram", "heatmap"]

_PLOTS = ("curve", "histogram", "heatmap")


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Two dumps, compared and judged, in both modes; tensors are read from the dumps on demand.

    Attributes:
        values: everything as a value: sides, rows, judgement, graphs, profiles.
        defects: tracebacks of errors of opdiff itself, each of which cost a row; normally there are none.
    """

    values: core.Comparison
    defects: tuple[str, ...] = ()
    _tensors: RowTensors = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tensors", RowTensors(self.values))

    @property
    def rows(self) -> Sequence[core.Row]:
        """The rows as plain values: one for each tensor, and for each operator that was not compared."""
        return self.values.rows

    @property
    def judgement(self) -> Judgement:
        """A verdict for each row, the findings, and in graph mode the documented results."""
        return self.values.judgement

    @property
    def verdict(self) -> Outcome:
        """The result in a word: `clean`, `suspicious`, `wrong` or `unsure`."""
        return self.values.judgement.outcome

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The operators at fault, the worst first."""
        return self.values.judgement.findings

    @property
    def coverage(self) -> Coverage:
        """How many operators were compared, and by what."""
        return self.values.judgement.coverage

    def __len__(self) -> int:
        return len(self.values.rows)

    def __iter__(self) -> Iterator[Row]:
        return map(self._readable, self.values.rows)

    @overload
    def __getitem__(self, name: int) -> Row: ...

    @overload
    def __getitem__(self, name: str | slice) -> tuple[Row, ...]: ...

    def __getitem__(self, name: int | str | slice) -> Row | tuple[Row, ...]:
        """Return the rows of an operator or of one tensor, by name; rows by number as of a list.

        Raises:
            KeyError: nothing has this name.
        """
        if isinstance(name, int):
            return self._readable(self.values.rows[name])
        if isinstance(name, slice):
            return tuple(map(self._readable, self.values.rows[name]))
        found = tuple(self._readable(row) for row in self.values.rows if name in _names(row))
        if not found:
            known = dict.fromkeys(known for row in self.values.rows for known in _names(row))
            similar = get_close_matches(name, known, 1)
            raise KeyError(f"{name}{f'; did you mean {similar[0]}?' if similar else ''}")
        return found

    def _readable(self, row: core.Row) -> Row:
        sides = {
            side: RowSide(*astuple(info), find=partial(self._tensors.find, row, side)) if info else None
            for side, info in (("target", row.target), ("golden", row.golden))
        }
        return Row(**{**asdict(row), **sides})

    def __repr__(self) -> str:
        coverage = self.coverage
        compared = f"{coverage.compared} of {coverage.operators} operators compared"
        return f"<opdiff.Comparison: {printable(outcome_text(self.values))}; {compared}>"

    def _repr_html_(self) -> str:
        return notebook_html(self.values)

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
            raise UsageError(because("api.several_tables"))
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

    def plot(self, kind: Plot = "curve", tensor: str = "", ax: Axes | None = None) -> Axes:
        """Draw the comparison, and return the axes of matplotlib; needs `pip install 'opdiff[notebook]'`.

        Args:
            kind: `curve`: relative distances in the order of execution. `histogram`: relative errors of one tensor.
                `heatmap`: errors of the worst tensors along an axis; in graph mode worst distances by rank and token.
            tensor: for a histogram, such as `conv1:output:0`; default: the tensor of the first finding.
            ax: axes to draw on; default: new ones.

        Raises:
            UsageError: there is no such kind, matplotlib is not installed, or there is nothing to draw.
            KeyError: there is no such tensor.
        """
        if kind not in _PLOTS:
            raise UsageError(because("api.no_such_plot", kind=kind, kinds=_PLOTS, hint=did_you_mean(kind, _PLOTS)))
        if kind == "histogram":
            name = tensor or (self.findings[0].tensor if self.findings else "")
            rows = self[name] if name else ()
            return plot_histogram(rows, name, ax)
        return plot_curve(self.values, ax) if kind == "curve" else plot_heatmap(self.values, ax)

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas is optional and untyped here
        """Return the rows as a `pandas.DataFrame`, one column for each number; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError(because("report.needs_pandas")) from error

        return pd.DataFrame(flat_table(self.values))


def _names(row: core.Row) -> tuple[str, ...]:
    """Return the names by which a row is found: its tensor, and its operator on both sides."""
    return (str(row.key or ""), row.label.target, row.label.golden)
