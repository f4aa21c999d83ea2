"""Data of a comparison for the HTML page. web/src/data.ts reads it."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core.comparison import Mode
from opdiff.core.judgement import LEVELS, Agreement, Origin, Outcome
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.core.next_command import next_command
from opdiff.core.reasons import because, quoted
from opdiff.core.tensor import Slot
from opdiff.report.offline_table import reservations
from opdiff.report.packing import Packer
from opdiff.report.picture_payload import pack_picture
from opdiff.report.printable import printable
from opdiff.report.short_names import short_name
from opdiff.report.summary_text import first_bad_operator, has_no_counterpart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from opdiff.core.comparison import Comparison, GraphNode, Profile, Row, Side
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import Finding, Judgement
    from opdiff.core.reasons import Reason
    from opdiff.report.changes import Changes

VERSION = 3

# Fields of `Metrics` that the page shows: in single precision, in double precision, and as integers.
_SINGLE_PRECISION = (
    "max_absolute_error", "accumulated_relative_error", "relative_euclidean_distance", "kl_divergence", "target_mean",
    "target_std", "golden_mean", "golden_std", "mean_absolute_error", "root_mean_square_error", "max_relative_error",
    "mean_relative_error", "centred_cosine", "snr_db", "error_bias", "over_1_permille", "over_5_permille", "max_ulp",
    "fit_scale", "fit_offset", "fit_distance", "zero_golden",
)  # fmt: skip
_DOUBLE_PRECISION = (
    "cosine", "norm_ratio", "finite_cosine", "worst_target", "worst_golden", "target_min", "target_max", "golden_min",
    "golden_max", "worst_index", "worst_relative_index", "worst_relative_target", "worst_relative_golden",
    "first_special_mismatch",
)  # fmt: skip
_COUNTS = (
    "count", "finite_count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches",
    "is_equal",
)  # fmt: skip
_SLOTS = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}
_ORIGINS = tuple(Origin)
# Sentences about the operators at fault, each of which has a card of its own.
_IN_FINDINGS = frozenset(
    f"judge.{code}" for code in ("fault", "proved_fault", "advice", "advice_or_pass", "output_share", "also_at_fault")
)
_PERMILLE = 1000


def pack(comparison: Comparison, changes: Changes | None = None, start: int | None = None) -> bytes:
    """Return the compressed data of a comparison; `start` is the row that is shown first."""
    packer = Packer()
    # Columns are made one after the other, so that rows in a file would be read many times.
    rows, judgement = tuple(comparison.rows), comparison.judgement
    document: dict[str, Any] = {
        "version": VERSION,
        "scenario": packer.sentences([comparison.scenario]),
        "target": _side(comparison.target),
        "golden": _side(comparison.golden),
        "environment": structs.asdict(comparison.environment),
        "edges": {"relative": RELATIVE_EDGES, "ulp": ULP_EDGES},
        "rows": _rows(rows, packer) | _verdicts(judgement, packer),
        "metrics": _metrics(rows, packer),
        "custom": _custom(rows, packer),
        "story": _story(comparison, packer),
        "graph": pack_nodes(_offline_nodes(comparison), packer),
        "profiles": [_profile(profile, packer) for profile in comparison.profiles],
        "explanations": [_explanation(facts, packer) for facts in comparison.error_facts if facts.explanations],
        "pictures": [pack_picture(picture, packer) for picture in comparison.pictures],
    }
    if start is not None:
        document["start"] = start
    if changes is not None:
        document["changes"] = _changes(changes, packer)
    if comparison.mode is Mode.GRAPH:
        from opdiff.report.graph_payload import graph_mode_columns

        document["graphMode"] = graph_mode_columns(comparison, packer)
    return packer.packed(document)


def _offline_nodes(comparison: Comparison) -> Sequence[GraphNode]:
    return comparison.graphs[0].nodes if comparison.graphs and comparison.mode is Mode.OFFLINE else ()


def _side(side: Side) -> dict[str, object]:
    return {"path": printable(side.path), "kind": str(side.kind), "quantized": side.quantized}


def _rows(rows: Sequence[Row], packer: Packer) -> dict[str, Any]:
    labels = [row.label for row in rows]
    keys = [row.key for row in rows]
    strings, integers = packer.texts, packer.integers
    target_folder, target_file = _paths([row.target_path for row in rows])
    golden_folder, golden_file = _paths([row.golden_path for row in rows])
    return {
        "count": len(rows),
        "index": integers([label.index for label in labels]),
        "sequence": integers([label.sequence for label in labels]),
        "type": strings([label.op_type for label in labels]),
        "target": strings([label.target for label in labels]),
        "golden": strings([label.golden for label in labels]),
        "operator": strings(["" if key is None else key.op for key in keys]),
        "slot": integers([_SLOTS[key.slot if key else None] for key in keys]),
        "number": integers([0 if key is None else key.index for key in keys]),
        "goldenTensor": strings(["" if row.golden_key is None else str(row.golden_key) for row in rows]),
        "targetFolder": strings(target_folder),
        "targetFile": strings(target_file),
        "goldenFolder": strings(golden_folder),
        "goldenFile": strings(golden_file),
        "targetType": strings([row.target_dtype for row in rows]),
        "goldenType": strings([row.golden_dtype for row in rows]),
        "targetAddress": packer.exact([row.target_address for row in rows]),
        "goldenAddress": packer.exact([row.golden_address for row in rows]),
        "shape": strings(_map(lambda shape: "" if shape is None else str(list(shape)), [row.shape for row in rows])),
        "steps": packer.reasons([row.steps for row in rows]),
        "reason": packer.reasons([_row_reasons(row) for row in rows]),
        "rule": packer.reasons([(row.evidence,) if row.evidence else () for row in rows]),
        "confidence": integers(_map(_permille, [row.confidence for row in rows])),
        "alone": integers([int(has_no_counterpart(row)) for row in rows]),
        "overflow": integers([-1 if row.overflow is None else int(row.overflow) for row in rows]),
    }


def _row_reasons(row: Row) -> tuple[Reason, ...]:
    """Return the reservations about a row, and the messages of its custom metrics."""
    return (*reservations(row), *(quoted(message) for _, _, message in row.custom if message))


def _map(function: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """Apply a function to all values, once for equal ones."""
    results = {value: function(value) for value in set(values)}
    return [results[value] for value in values]


def _paths(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    parts = [path.rpartition("/") for path in paths]
    return [folder for folder, _, _ in parts], [name for _, _, name in parts]


def _permille(share: float | None) -> int:
    return round(share * _PERMILLE) if share is not None and 0 <= share <= 1 else -1


def _verdicts(judgement: Judgement, packer: Packer) -> dict[str, Any]:
    verdicts = judgement.verdicts
    return {
        "level": packer.integers([LEVELS.index(verdict.level) for verdict in verdicts]),
        "why": packer.reasons([(verdict.rule,) for verdict in verdicts]),
        "origin": packer.integers([_ORIGINS.index(verdict.origin) for verdict in verdicts]),
        "excess": packer.floats([verdict.excess for verdict in verdicts]),
    }


def _metrics(rows: Sequence[Row], packer: Packer) -> dict[str, Any]:
    """Return the numbers of the measured rows, and the columns of their metrics."""
    numbers = [number for number, row in enumerate(rows) if row.metrics is not None]
    found = [row.metrics for row in rows if row.metrics is not None]
    # Field by field: all fields at once would take more memory than the metrics themselves.
    columns = {name: packer.floats(list(map(attrgetter(name), found))) for name in _SINGLE_PRECISION}
    columns |= {name: packer.exact(list(map(attrgetter(name), found))) for name in _DOUBLE_PRECISION}
    columns |= {name: packer.integers(list(map(attrgetter(name), found))) for name in _COUNTS}
    return {
        "rows": packer.integers(numbers),
        "columns": columns,
        "relative": _histograms([metrics.relative_histogram for metrics in found], packer),
        "ulp": _histograms([metrics.ulp_histogram for metrics in found], packer),
    }


def _histograms(histograms: Sequence[tuple[int, ...]], packer: Packer) -> list[dict[str, Any]]:
    """Return a column for each bin; zeros for tensors without a histogram."""
    longest = max(map(len, histograms), default=0)
    filled = [histogram + (0,) * (longest - len(histogram)) for histogram in histograms]
    return [packer.integers(column) for column in zip(*filled, strict=True)]


def _custom(rows: Sequence[Row], packer: Packer) -> list[dict[str, Any]]:
    """Return names and columns of the custom metrics."""
    names = dict.fromkeys(name for row in rows for name, _, _ in row.custom)
    values = [{name: value for name, value, _ in row.custom} for row in rows] if names else []
    return [
        {"name": printable(name), "values": packer.texts([value.get(name, "") for value in values])} for name in names
    ]


def _story(comparison: Comparison, packer: Packer) -> dict[str, Any]:
    judgement = comparison.judgement
    return {
        "first": printable(first_bad_operator(comparison)),
        "headline": _headline(judgement),
        "advice": packer.sentences(_shown_advice(judgement)),
        "findings": [_finding(comparison, finding, packer) for finding in judgement.findings],
    }


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
        "operator": printable(finding.operator),
        "type": printable(finding.op_type),
        "tensor": printable(finding.tensor),
        "level": LEVELS.index(finding.level),
        "kind": printable(finding.kind),
        "evidence": packer.sentences(finding.evidence),
        "remedies": packer.sentences(finding.remedies),
        "command": printable(next_command(comparison, finding)) if finding.missing is None else "",
        "share": _finite(finding.share),
        "path": [*map(printable, finding.path)],
        "before": [*map(printable, finding.before)],
        "missing": finding.missing is not None,
        "proved": finding.is_proved,
        "passes": [*map(printable, (*finding.passes, *finding.buffer_passes))],
    }


def pack_nodes(nodes: Sequence[GraphNode], packer: Packer) -> dict[str, Any]:
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


def _profile(profile: Profile, packer: Packer) -> dict[str, Any]:
    return {
        "row": profile.row,
        "axis": profile.axis,
        "label": printable(profile.label),
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
