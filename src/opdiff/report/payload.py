"""Data of a comparison for the HTML page. web/src/data.ts reads it.

web/src/pictures/data.ts reads the pictures, web/src/graph/network.ts the networks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core.comparison import Mode, next_command
from opdiff.core.judgement import LEVELS, Agreement, Level, Outcome
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.core.pictures import MAX_CODE
from opdiff.core.reasons import because
from opdiff.report.packing import Packer
from opdiff.report.page_text import page_text
from opdiff.report.parts import PartWriter, part_reference, row_parts
from opdiff.report.row_payload import pack_rows
from opdiff.report.row_summary import RowSummary, summarize
from opdiff.report.short_names import short_name
from opdiff.report.summary_text import first_bad_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from opdiff.core.comparison import Comparison, GraphNode, ModelGraph, Side
    from opdiff.core.dump import Unit
    from opdiff.core.error_facts import ErrorFacts, Profile
    from opdiff.core.judgement import Finding, Judgement
    from opdiff.core.pictures import Frame, TensorPicture
    from opdiff.core.reasons import Reason
    from opdiff.report.changes import Changes
    from opdiff.report.packing import Text
    from opdiff.report.parts import RowPart
    from opdiff.report.row_summary import PartSummary

    # Packed networks, and the number of each unit's network.
    Networks = tuple[list[dict[str, Any]], dict[Unit, int]]

VERSION = 4

# Sentences about the operators at fault, each of which has a card of its own.
_IN_FINDINGS = frozenset(
    f"judge.{code}" for code in ("fault", "proved_fault", "advice", "advice_or_pass", "output_share", "also_at_fault")
)


class PagePayload:
    """The data of the page: of its rows block by block, of everything else at the end.

    Args:
        comparison: content of the page; its rows are read once, one block after the other.
        add_block: called with the compressed columns of each block of rows, in their order.
        changes: changes since an earlier comparison.
        start: number of the row that is shown first; `None` for the overview.
    """

    def __init__(
        self,
        comparison: Comparison,
        add_block: Callable[[bytes], object],
        changes: Changes | None = None,
        start: int | None = None,
    ) -> None:
        self._comparison, self._add_block = comparison, add_block
        self._packer = packer = Packer()
        self._document: dict[str, Any] = {
            "version": VERSION,
            "scenario": packer.sentences([comparison.scenario]),
            "target": _side(comparison.target),
            "golden": _side(comparison.golden),
            "environment": structs.asdict(comparison.environment),
            "edges": {"relative": RELATIVE_EDGES, "ulp": ULP_EDGES},
            "story": _story(comparison, packer),
            "graph": _nodes(_offline_nodes(comparison), packer),
            "profiles": [_profile(profile, packer) for profile in comparison.profiles],
            "explanations": [_explanation(facts, packer) for facts in comparison.error_facts if facts.explanations],
            "pictures": [_picture(picture, packer) for picture in comparison.pictures],
        }
        if start is not None:
            self._document["start"] = start
        if changes is not None:
            self._document["changes"] = _changes(changes, packer)
        self._networks = _pack_networks(comparison.graphs, packer) if comparison.mode is Mode.GRAPH else None
        self._summary = RowSummary(comparison.judgement.findings)

    def blocks(self) -> PartWriter:
        """Return the writer of the rows. The first block is packed at once: its strings become those of the page."""
        findings = self._comparison.judgement.findings
        first = part_reference(self._comparison, next(row_parts(self._comparison))).load()
        self._add([(pack_rows(first, self._packer.for_first_block()), summarize(first, findings))])
        return PartWriter(partial(pack_blocks, findings=findings, known=self._packer.known_texts()), self._add)

    def packed(self) -> bytes:
        """Return the compressed data of everything but the rows, when all rows were packed."""
        document = self._document | self._summary.packed(self._packer)
        document["notes"] = self._packer.sentences(_notes(self._comparison, self._summary))
        if self._networks is not None:
            document["graphMode"] = _graph_mode(self._networks, self._summary)
        return self._packer.packed(document)

    def _add(self, blocks: Sequence[tuple[bytes, PartSummary]]) -> None:
        for block, of_rows in blocks:
            self._summary.add(of_rows)
            self._add_block(block)


def pack_blocks(
    parts: Sequence[RowPart], *, findings: Sequence[Finding], known: dict[Text, int]
) -> list[tuple[bytes, PartSummary]]:
    """Return the packed rows and the summary of each block except the first one of the page."""
    return [(pack_rows(part, Packer(known)), summarize(part, findings)) for part in parts if part.start]


def _offline_nodes(comparison: Comparison) -> Sequence[GraphNode]:
    return comparison.graphs[0].nodes if comparison.graphs and comparison.mode is Mode.OFFLINE else ()


def _side(side: Side) -> dict[str, object]:
    return {"path": page_text(side.path), "kind": str(side.kind), "quantized": side.quantized}


def _story(comparison: Comparison, packer: Packer) -> dict[str, Any]:
    judgement = comparison.judgement
    return {
        "first": page_text(first_bad_operator(comparison)),
        "only": page_text(_only_bad_operator(comparison)),
        "headline": _headline(judgement),
        "advice": packer.sentences(_shown_advice(judgement)),
        "findings": [_finding(comparison, finding, packer) for finding in judgement.findings],
    }


def _only_bad_operator(comparison: Comparison) -> str:
    """Return the operator of the worst tensor if no other is as bad; otherwise an empty string."""
    for level in (Level.WRONG, Level.SUSPICIOUS):
        numbers = [number for number, (each, _) in enumerate(comparison.judgement.marks()) if each is level]
        if numbers:
            return comparison.rows[numbers[0]].label.target if len(numbers) == 1 else ""
    return ""


def _shown_advice(judgement: Judgement) -> list[Reason]:
    """Return the advice without the sentences that the headline and the findings below it say, too."""
    return [reason for reason in judgement.advice if not judgement.findings or reason.code not in _IN_FINDINGS]


def _headline(judgement: Judgement) -> str:
    """Return which headline the page has; empty for that of the worst finding or level."""
    if judgement.misfit is not None:
        return "misfit"
    if judgement.findings and judgement.outputs.agreement is Agreement.MATCH:
        return "match"
    return "unsure" if judgement.outcome is Outcome.UNSURE else ""


def _finding(comparison: Comparison, finding: Finding, packer: Packer) -> dict[str, Any]:
    return {
        "operator": page_text(finding.operator),
        "type": page_text(finding.op_type),
        "tensor": page_text(finding.tensor),
        "level": LEVELS.index(finding.level),
        "kind": page_text(finding.kind),
        "evidence": packer.sentences(finding.evidence),
        "remedies": packer.sentences(finding.remedies),
        "command": page_text(next_command(comparison, finding)) if finding.missing is None else "",
        "share": _finite(finding.share),
        "path": [*map(page_text, finding.path)],
        "before": [*map(page_text, finding.before)],
        "missing": finding.missing is not None,
        "proved": finding.is_proved,
        "passes": [*map(page_text, (*finding.passes, *finding.buffer_passes))],
    }


def _profile(profile: Profile, packer: Packer) -> dict[str, Any]:
    return {
        "row": profile.row,
        "axis": profile.axis,
        "label": page_text(profile.label),
        "extent": profile.extent,
        "width": profile.width,
        "sampledShare": _finite(profile.sampled_share),
        "errors": packer.floats(profile.errors),
        "largest": packer.floats(profile.largest),
        "notFinite": packer.integers(profile.not_finite),
    }


def _explanation(facts: ErrorFacts, packer: Packer) -> dict[str, Any]:
    """Return the storage orders that explain the error of a row."""
    orders = [
        because("judge.stored_order", order=each.reason, before=each.before, after=each.after)
        for each in facts.explanations
    ]
    return {"row": facts.row, "orders": packer.sentences(orders)}


def _changes(changes: Changes, packer: Packer) -> dict[str, Any]:
    rows = changes.rows
    return {
        "old": structs.asdict(changes.old),
        "new": structs.asdict(changes.new),
        "faults": packer.sentences(changes.faults),
        "kind": packer.texts([str(change.kind) for change in rows]),
        "operator": packer.texts([change.operator for change in rows]),
        "tensor": packer.texts([change.full_name for change in rows]),
        "before": packer.integers([-1 if change.before is None else LEVELS.index(change.before) for change in rows]),
        "after": packer.integers([-1 if change.after is None else LEVELS.index(change.after) for change in rows]),
        "cosineBefore": packer.exact([change.cosine_before for change in rows]),
        "cosineAfter": packer.exact([change.cosine_after for change in rows]),
        "distanceBefore": packer.exact([change.distance_before for change in rows]),
        "distanceAfter": packer.exact([change.distance_after for change in rows]),
        "row": packer.integers([-1 if change.row is None else change.row for change in rows]),
    }


def _finite(share: float | None) -> float | None:
    return share if share is not None and abs(share) < float("inf") else None


def _picture(picture: TensorPicture, packer: Packer) -> dict[str, Any]:
    """Return a picture; its arrays are added to the packer."""
    return {
        "row": picture.row,
        "shape": picture.shape,
        "labels": page_text(picture.labels),
        "axes": picture.axes,
        "extents": picture.extents,
        "cell": picture.cell,
        "low": picture.low,
        "high": picture.high,
        "lowError": picture.low_error,
        "highError": picture.high_error,
        "maxCode": MAX_CODE,
        "overall": packer.codes(picture.overall),
        "frames": [_frame(frame, packer) for frame in picture.frames],
        "frameCount": picture.frame_count,
        "goldenCounts": packer.integers(picture.golden_counts),
        "targetCounts": packer.integers(picture.target_counts),
        "density": packer.integers(picture.density),
        "outside": picture.outside,
        "notFinite": picture.not_finite,
        "sampledShare": picture.sampled_share,
    }


def _frame(frame: Frame, packer: Packer) -> dict[str, Any]:
    return {
        "index": frame.index,
        "share": frame.share,
        "golden": packer.codes(frame.golden),
        "target": packer.codes(frame.target),
        "error": packer.codes(frame.error),
    }


def _nodes(nodes: Sequence[GraphNode], packer: Packer) -> dict[str, Any]:
    """Return the columns of a network; inputs are numbers of nodes, -1 for tensors from outside."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    inputs = [[numbers.get(source.rpartition(":")[0], -1) for source in node.inputs] for node in nodes]
    return {
        "name": packer.texts([node.name for node in nodes]),
        "short": packer.texts([short_name(node.name, node.originals) for node in nodes]),
        "type": packer.texts([node.op_type for node in nodes]),
        "fanIn": packer.integers([len(sources) for sources in inputs]),
        "inputs": packer.integers([source for sources in inputs for source in sources]),
        "originals": packer.texts(["\n".join(node.originals) for node in nodes]),
        "passes": packer.texts(["\n".join((*node.passes, *node.buffer_passes)) for node in nodes]),
        "guess": packer.integers([int(node.is_guess) for node in nodes]),
    }


def _pack_networks(graphs: Sequence[ModelGraph], packer: Packer) -> Networks:
    """Return the networks of all units of graph mode, each once, and the number of each unit's network."""
    networks: dict[tuple[GraphNode, ...], int] = {}
    numbers: dict[Unit, int] = {}
    for graph in graphs:
        number = networks.setdefault(graph.nodes, len(networks))
        numbers |= dict.fromkeys(graph.units, number)
    return [_nodes(nodes, packer) for nodes in networks], numbers


def _graph_mode(networks: Networks, summary: RowSummary) -> dict[str, Any]:
    """Return the units and their networks."""
    packed, numbers = networks
    return {"units": [[*structs.astuple(unit), numbers.get(unit, -1)] for unit in summary.units], "networks": packed}


def _notes(comparison: Comparison, summary: RowSummary) -> Iterator[Reason]:
    """Yield the notes about the inputs; in graph mode also why a documented column is not filled."""
    yield from comparison.notes
    if comparison.mode is Mode.GRAPH and summary.without_stack:
        yield because("report.no_stack", count=summary.without_stack, total=summary.count)
