"""The files of a comparison in graph mode: its tables as graphs are compared, and the same as JSON."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from opdiff import __version__
from opdiff.core.graphmode import DataMode
from opdiff.report.file_names import early_draft, graph_file_name, write_new
from opdiff.report.graph_csv import write_graph_csv
from opdiff.report.graph_json import SavedGraph, graph_json, write_summary_json
from opdiff.report.rows import Environment
from opdiff.run.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from opdiff.report.graph_summary import Tally
    from opdiff.workflows.compare.graph_pipeline import GraphOptions, GraphPlan, GraphResult

_MADE_BY = f"opdiff {__version__}"
# From here on the JSON is written by another core.
_MANY_ROWS = 1000


def saved_parts(
    result: GraphResult,
    plan: GraphPlan,
    environment: Environment = Environment(),  # noqa: B008  it is frozen
) -> list[SavedGraph]:
    """What is kept of one graph, in parts: one for each mode that has rows."""
    about = plan.target, plan.golden, plan.scenario
    more = result.nodes, (*plan.notes, *result.notes), environment
    judged = list(zip(result.rows, result.verdicts, strict=True))
    parts = []
    for mode in (DataMode.REAL, DataMode.STATISTICS, DataMode.MD5):
        rows = tuple(item for item in judged if item[0].mode is mode)
        if rows or (mode is DataMode.REAL and not judged):
            parts.append(SavedGraph(*about, mode, result.rank, result.graph, rows, *more))
    return parts


class _Unnamed(NamedTuple):
    """JSON that is written to a file without a name; it is called after its table when it is whole."""

    part: SavedGraph
    draft: str
    name: str

    def write(self) -> None:
        with open(self.draft, "wb") as file:
            file.writelines(graph_json(self.part, _MADE_BY))


class GraphTables:
    """Tables of graphs: each is written when it is given, and its JSON by another core while others are compared.

    Whoever leaves before `finish` leaves no file without a name behind.
    """

    def __init__(self, options: GraphOptions) -> None:
        self._options = options
        self._paths: list[str] = []
        self._count = 0
        self._waiting: list[_Unnamed] = []
        self._started: list[tuple[Beside[None], Sequence[_Unnamed]]] = []
        self._leaving = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.close()

    def add(self, part: SavedGraph) -> None:
        """Write the table, as a workbook too where that is wanted."""
        options = self._options
        name = graph_file_name(time.gmtime(), part.rank, part.graph, part.mode)
        path = write_new(options.output, name, lambda draft: write_graph_csv(part.rows, part.mode, draft))
        self._paths.append(path)
        stem = os.path.splitext(os.path.basename(path))[0]
        self._waiting.append(_Unnamed(part, early_draft(options.output, self._count), f"{stem}.json"))
        self._count += 1
        if all(beside.is_done() for beside, _ in self._started):
            self.start()
        if options.xlsx:
            from opdiff.report.graph_workbook import write_graph_xlsx

            book = write_new(
                options.output, f"{stem}.xlsx", lambda draft: write_graph_xlsx(part.rows, part.mode, draft)
            )
            self._paths.append(book)

    def start(self) -> None:
        """Let another core write what waits."""
        batch, self._waiting = self._waiting, []
        for unnamed in batch:
            self._leaving.callback(_remove, unnamed.draft)
        rows = sum(len(unnamed.part.rows) for unnamed in batch)
        worth_it = self._options.workers != 1 and rows >= _MANY_ROWS
        beside = Beside(lambda: _write_all(batch), worth_it=worth_it)
        self._started.append((self._leaving.enter_context(beside), batch))

    def finish(self) -> tuple[str, ...]:
        """Wait for the other core, name what it wrote, and return the paths of all tables."""
        self.start()
        for beside, batch in self._started:
            beside.result()
            for unnamed in batch:
                write_new(self._options.output, unnamed.name, partial(os.replace, unnamed.draft))
        self._started = []
        return tuple(self._paths)


def _write_all(batch: Sequence[_Unnamed]) -> None:
    for unnamed in batch:
        unnamed.write()


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def write_summary(tally: Tally, plan: GraphPlan, options: GraphOptions) -> str:
    """Write what all ranks and tokens together came to; returns the path."""
    about: dict[str, object] = {
        "made_by": _MADE_BY,
        "target": plan.target,
        "golden": plan.golden,
        "scenario": str(plan.scenario),
        "notes": list(map(str, plan.notes)),
    }
    name = f"msprobe_cmp_summary_{time.strftime('%Y%m%d%H%M%S', time.gmtime())}.json"
    return write_new(options.output, name, lambda draft: write_summary_json(tally, about, draft))
