"""The comparison of graph mode for Python programs: `opdiff.compare_graphs(target, golden)`. See docs/python.md."""

from __future__ import annotations

from dataclasses import dataclass

from opdiff import torchair
from opdiff.graph_writing import saved_parts
from opdiff.report.as_torchair_json import SavedGraph, load_graph_json
from opdiff.report.torchair_text import Tally, tally_lines
from opdiff.torchair import GraphOptions, plan_graphs
from opdiff.values import TYPE_CHECKING

__all__ = ["GraphComparison", "GraphOptions", "compare_graphs"]

if TYPE_CHECKING:
    import os

    from opdiff.graphmode import GraphRow, Verdict

    Path = str | os.PathLike[str]


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
        from opdiff.graph_reporting import judged_graphs
        from opdiff.pipeline import find_limits
        from opdiff.reporting import environment, write_page

        kept = judged_graphs(self.parts, find_limits(""))
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
    notes, defects = list(plan.notes), list[str]()
    for result in torchair.compare_graphs(plan, wanted, lambda _done, _all: None):
        parts += saved_parts(result, plan)
        notes += result.notes
        defects += result.defects
    return GraphComparison(tuple(parts), tuple(notes), tuple(defects))
