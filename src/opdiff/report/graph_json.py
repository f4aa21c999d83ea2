"""The result of graph mode for programs. See docs/formats/torchair-csv.md for the fields.

JSON has no NaN and no infinity: they are the words `nan`, `inf` and `-inf`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.atomic_file import whole_file
from opdiff.core.errors import InputError
from opdiff.core.graphmode import (
    SCENARIOS,
    Colour,
    DataMode,
    Figures,
    FurtherFigures,
    GraphKind,
    GraphRow,
    RealFigures,
    SideFacts,
    Verdict,
)
from opdiff.core.tensor import Slot
from opdiff.report.json_text import json_document
from opdiff.report.reason_json import reason_to_json
from opdiff.report.rows import Environment
from opdiff.report.saved_json import (
    DECODERS,
    VERSION,
    build,
    builder,
    current_row,
    document_of,
    optional,
    row_to_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from opdiff.core.comparison import GraphNode
    from opdiff.core.reasons import Reason
    from opdiff.report.graph_summary import Tally
    from opdiff.report.saved_json import Decoder


class SavedGraph(NamedTuple):
    """One file: the rows of one graph of one rank that were compared in one way.

    Attributes:
        target: the target's directory.
        golden: the golden directory.
        scenario: what was compared with what.
        mode: by what was compared.
        rank: the rank, where folders tell ranks.
        graph: the graph, where there are several.
        rows: every row and what it means, in the order of the table.
        nodes: the graph, where its text tells what feeds what; see `comparison.GraphNode`.
        notes: what is to be known about the two dumps.
        environment: who compared, and when.
    """

    target: str
    golden: str
    scenario: Reason
    mode: DataMode
    rank: int | None
    graph: int | None
    rows: tuple[tuple[GraphRow, Verdict], ...]
    nodes: tuple[GraphNode, ...] = ()
    notes: tuple[Reason, ...] = ()
    environment: Environment = Environment()


SCHEMA, SUMMARY_SCHEMA = "opdiff.torchair", "opdiff.torchair.summary"
_SUMMARY_VERSION = 1
_SCENARIOS_OF_VERSION_1 = {
    "GE with fusion on against FX": reason_to_json(SCENARIOS[GraphKind.FX]),
    "GE with fusion on against GE with fusion off": reason_to_json(SCENARIOS[GraphKind.GE]),
}
_HEAD_BYTES = 1000


def graph_json(part: SavedGraph, made_by: str) -> Iterator[bytes]:
    """Every row with all that was measured, a line each; `made_by` tells which program in which version did it."""
    about = {name: value for name, value in part._asdict().items() if name != "rows"}
    reasons = {"scenario": reason_to_json(part.scenario), "notes": [reason_to_json(note) for note in part.notes]}
    head = {"schema": SCHEMA, "version": VERSION, "made_by": made_by, **about, **reasons}
    return json_document(
        head, ({"row": _row_to_json(row), "verdict": _verdict_to_json(verdict)} for row, verdict in part.rows)
    )


def _row_to_json(row: GraphRow) -> dict[str, object]:
    return row_to_json(row) | {"notes": [reason_to_json(note) for note in row.notes]}


def _verdict_to_json(verdict: Verdict) -> dict[str, object]:
    return verdict._asdict() | {"why": [*map(reason_to_json, verdict.why)]}


def write_summary_json(tally: Tally, about: Mapping[str, object], path: str) -> None:
    """Write what all ranks and tokens came to."""
    document = {"schema": SUMMARY_SCHEMA, "version": _SUMMARY_VERSION, **about, **tally.as_json()}
    with whole_file(path) as file:
        file.write(json.dumps(document, indent=2).encode() + b"\n")


def schema_of(path: str) -> str:
    """The schema that a saved file names at its beginning; empty where it names none.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        match = re.match(rb'\s*\{\s*"schema"\s*:\s*"([\w.]{1,100})"', file.read(_HEAD_BYTES))
    return match[1].decode() if match else ""


def load_graph_json(path: str) -> SavedGraph:
    """What `graph_json` made.

    Raises:
        InputError: the file is not a saved comparison of graph mode, or one of another version.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        document = document_of(data, SCHEMA)
        if document["version"] == 1:
            document["scenario"] = _SCENARIOS_OF_VERSION_1.get(str(document.get("scenario")), document.get("scenario"))
        del document["schema"], document["version"]
        document.pop("made_by", None)
        kept: SavedGraph = build(SavedGraph, document, _DECODERS)
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not a saved comparison of graph mode: {error}") from error
    return kept


def _judged(value: object) -> tuple[tuple[GraphRow, Verdict], ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple([_judged_row(item) for item in value])


def _judged_row(value: object) -> Any:  # noqa: ANN401  what decoders return has no type of its own
    if not isinstance(value, dict) or value.keys() != {"row", "verdict"}:
        raise ValueError("a row is not an object of row and verdict")
    return _graph_row(current_row(value["row"])), _verdict(value["verdict"])


# The types of fields that the classes of graph mode have besides.
_DECODERS: dict[str, Decoder] = {**DECODERS}
_DECODERS |= {
    "float | int": DECODERS["float"],
    "Slot | None": optional(lambda value: Slot(str(value))),
    "DataMode": lambda value: DataMode(str(value)),
    "Colour": lambda value: Colour(str(value)),
    "Figures": builder(Figures, _DECODERS),
    "SideFacts | None": optional(builder(SideFacts, _DECODERS)),
    "RealFigures | None": optional(builder(RealFigures, _DECODERS)),
    "FurtherFigures | None": optional(builder(FurtherFigures, _DECODERS)),
    "tuple[tuple[GraphRow, Verdict], ...]": _judged,
}
_graph_row, _verdict = builder(GraphRow, _DECODERS), builder(Verdict, _DECODERS)
