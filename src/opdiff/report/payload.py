"""What the page of a report shows, as the data that is put into it. See web/src/data.ts for the other end."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Birth, Metrics, OpLabel
from opdiff.core.reasons import Language, render, render_all
from opdiff.core.tensor import Slot
from opdiff.report.csv_table import reason_text
from opdiff.report.judged import LEVELS, judged
from opdiff.report.packing import Packer, printable
from opdiff.report.rows import ReportRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from opdiff.core.comparison import Finding, GraphNode, Profile
    from opdiff.core.reasons import Reason
    from opdiff.report.changes import Changes
    from opdiff.report.judged import Judged
    from opdiff.report.rows import SavedComparison, Side

VERSION = 2

# Fields of `Metrics` that the page shows; of those in `_EXACT` every digit counts.
_FLOATS = (
    "max_absolute_error", "accumulated_relative_error", "relative_euclidean_distance", "kl_divergence", "target_mean",
    "target_std", "golden_mean", "golden_std", "mean_absolute_error", "root_mean_square_error", "max_relative_error",
    "mean_relative_error", "centred_cosine", "snr_db", "error_bias", "over_1_permille", "over_5_permille", "max_ulp",
    "fit_scale", "fit_offset", "fit_distance", "zero_golden",
)  # fmt: skip
_EXACT = (
    "cosine", "norm_ratio", "finite_cosine", "worst_target", "worst_golden", "target_min", "target_max", "golden_min",
    "golden_max", "worst_index", "worst_relative_index", "first_special_mismatch",
)  # fmt: skip
_COUNTS = (
    "count", "finite_count", "target_nans", "target_infs", "golden_nans", "golden_infs", "special_mismatches",
)  # fmt: skip
_SLOTS = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}
_ORIGINS = tuple(map(str, Birth))
_SURE = 1000


class Edges(NamedTuple):
    """Where the bins of the histograms begin, see `Metrics`."""

    relative: tuple[float, ...] = ()
    ulp: tuple[float, ...] = ()


def pack(kept: SavedComparison, edges: Edges, changes: Changes | None = None) -> bytes:
    """A comparison in the form in which the page takes it."""
    packer = Packer()
    thoughts = judged(kept)
    document: dict[str, Any] = {
        "version": VERSION,
        "scenario": render(kept.scenario),
        "target": _side(kept.target),
        "golden": _side(kept.golden),
        "environment": kept.environment._asdict(),
        "edges": {"relative": edges.relative, "ulp": edges.ulp},
        "rows": _rows(kept.rows, packer) | _thoughts(thoughts, packer),
        "metrics": _metrics(kept.rows, packer),
        "custom": _custom(kept.rows, packer),
        "story": _story(thoughts) | {"chinese": _chinese(thoughts, kept)},
        "graph": _graph(kept.graph, packer),
        "profiles": [_profile(profile, packer) for profile in kept.profiles],
    }
    if changes is not None:
        document["changes"] = _changes(changes, packer)
    if kept.graph_mode is not None:
        from opdiff.report.graph_payload import finding_places, graph_mode_columns

        document["graphMode"] = graph_mode_columns(kept.graph_mode, packer, lambda nodes: _graph(nodes, packer))
        document["graphMode"]["findings"] = finding_places(kept.graph_mode, kept.rows, thoughts.findings)
    return packer.packed(document)


def _side(side: Side) -> dict[str, object]:
    return {"path": printable(side.path), "kind": str(side.kind), "quantized": side.quantized}


def _rows(rows: Sequence[ReportRow], packer: Packer) -> dict[str, Any]:
    of = _by_field(ReportRow, rows)
    labels = _by_field(OpLabel, of["label"])
    keys = of["key"]
    texts, integers = packer.texts, packer.integers
    target_folder, target_file = _paths(of["target_path"])
    golden_folder, golden_file = _paths(of["golden_path"])
    return {
        "count": len(rows),
        "index": integers(labels["index"]),
        "sequence": integers(labels["sequence"]),
        "type": texts(labels["op_type"]),
        "target": texts(labels["target"]),
        "golden": texts(labels["golden"]),
        "operator": texts(["" if key is None else key.op for key in keys]),
        "slot": integers([_SLOTS[key and key.slot] for key in keys]),
        "number": integers([0 if key is None else key.index for key in keys]),
        "goldenTensor": texts(["" if key is None else str(key) for key in of["golden_key"]]),
        "targetFolder": texts(target_folder),
        "targetFile": texts(target_file),
        "goldenFolder": texts(golden_folder),
        "goldenFile": texts(golden_file),
        "targetType": texts(of["target_dtype"]),
        "goldenType": texts(of["golden_dtype"]),
        "targetAddress": packer.exact(of["target_address"]),
        "goldenAddress": packer.exact(of["golden_address"]),
        "shape": texts(_made(lambda shape: "" if shape is None else str(list(shape)), of["shape"])),
        "steps": texts(_made(lambda steps: "\n".join(map(str, steps)), of["steps"])),
        "reason": texts([reason_text(row) for row in rows]),
        "rule": texts(_made(render, of["evidence"])),
        "confidence": integers(_made(_permille, of["confidence"])),
        "overflow": integers([-1 if overflow is None else int(overflow) for overflow in of["overflow"]]),
    }


def _by_field(kind: type[Any], values: Sequence[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    """Columns of named tuples. All at once: one at a time would take several times as long."""
    return dict(zip(kind._fields, zip(*values, strict=True) if values else repeat(()), strict=False))


def _made(make: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    """What is made of each value; of equal ones, which layers of a network have, once."""
    made = {value: make(value) for value in set(values)}
    return [made[value] for value in values]


def _paths(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    parts = [path.rpartition("/") for path in paths]
    return [folder for folder, _, _ in parts], [name for _, _, name in parts]


def _permille(share: float | None) -> int:
    return round(share * _SURE) if share is not None and 0 <= share <= 1 else -1


def _thoughts(thoughts: Judged, packer: Packer) -> dict[str, Any]:
    return {
        "level": packer.integers([LEVELS.index(level) for level in thoughts.levels]),
        "why": packer.texts([*map(render, thoughts.rules)]),
        "origin": packer.integers([_ORIGINS.index(origin) for origin in thoughts.origins]),
        "excess": packer.floats(thoughts.excess),
    }


def _metrics(rows: Sequence[ReportRow], packer: Packer) -> dict[str, Any]:
    """The columns of the rows that have numbers, and which those are."""
    places = [place for place, row in enumerate(rows) if row.metrics is not None]
    found = [row.metrics for row in rows if row.metrics is not None]
    by_name = _by_field(Metrics, found)
    columns = {name: packer.floats(by_name[name]) for name in _FLOATS}
    columns |= {name: packer.exact(by_name[name]) for name in _EXACT}
    columns |= {name: packer.integers(by_name[name]) for name in _COUNTS}
    columns["is_equal"] = packer.integers(by_name["is_equal"])
    return {
        "rows": packer.integers(places),
        "columns": columns,
        "relative": _histograms(by_name["relative_histogram"], packer),
        "ulp": _histograms(by_name["ulp_histogram"], packer),
    }


def _histograms(histograms: Sequence[tuple[int, ...]], packer: Packer) -> list[dict[str, Any]]:
    """A column for each bin; a tensor without a histogram has nothing in any."""
    longest = max(map(len, histograms), default=0)
    filled = [histogram + (0,) * (longest - len(histogram)) for histogram in histograms]
    return [packer.integers(column) for column in zip(*filled, strict=True)]


def _custom(rows: Sequence[ReportRow], packer: Packer) -> list[dict[str, Any]]:
    """Metrics of the user's own: the name, and a column of values."""
    names = dict.fromkeys(name for row in rows for name, _, _ in row.custom)
    values = [{name: value for name, value, _ in row.custom} for row in rows] if names else []
    return [
        {"name": printable(name), "values": packer.texts([value.get(name, "") for value in values])} for name in names
    ]


def _story(thoughts: Judged) -> dict[str, Any]:
    return {
        "plain": thoughts.is_plain,
        "first": printable(thoughts.first_bad),
        "advice": {
            language: [printable(render(reason, language)) for reason in thoughts.advice] for language in Language
        },
        "findings": [_finding(finding) for finding in thoughts.findings],
    }


def _chinese(thoughts: Judged, kept: SavedComparison) -> dict[str, str]:
    """Return the Chinese sentence of each English one."""
    single = [*thoughts.rules, *(reason for row in kept.rows for reason in (row.reason, row.evidence) if reason)]
    single += [reason for finding in thoughts.findings for reason in (*finding.evidence, *finding.remedies)]
    single += [step for steps in {row.steps for row in kept.rows} for step in steps]
    single += kept.graph_mode.notes if kept.graph_mode else ()
    several: set[tuple[Reason, ...]] = {(reason,) for reason in single}
    several |= {spot.verdict.why for spot in (kept.graph_mode.spots if kept.graph_mode else ())}
    both = [(render_all(reasons), render_all(reasons, Language.CHINESE)) for reasons in several]
    return {printable(english): printable(chinese) for english, chinese in both if english != chinese}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "operator": printable(finding.operator),
        "type": printable(finding.op_type),
        "tensor": printable(finding.tensor),
        "level": LEVELS.index(str(finding.level)),
        "kind": printable(finding.kind),
        "evidence": [printable(render(reason)) for reason in finding.evidence],
        "remedies": [printable(render(reason)) for reason in finding.remedies],
        "share": _finite(finding.share),
        "path": [*map(printable, finding.path)],
        "before": [*map(printable, finding.before)],
        "passes": [*map(printable, (*finding.passes, *finding.buffer_passes))],
    }


def _graph(nodes: Sequence[GraphNode], packer: Packer) -> dict[str, Any]:
    """The network; inputs are numbers of nodes, and `-1` for what is not one of them."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    inputs = [[numbers.get(source.rpartition(":")[0], -1) for source in node.inputs] for node in nodes]
    return {
        "name": packer.texts([node.name for node in nodes]),
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
        "letter": printable(profile.letter),
        "extent": profile.extent,
        "width": profile.width,
        "seen": _finite(profile.seen),
        "errors": packer.floats(profile.errors),
        "largest": packer.floats(profile.largest),
        "notFinite": packer.integers(profile.not_finite),
    }


def _changes(changes: Changes, packer: Packer) -> dict[str, Any]:
    rows = changes.rows
    return {
        "old": changes.old._asdict(),
        "new": changes.new._asdict(),
        "kind": packer.texts([str(change.kind) for change in rows]),
        "operator": packer.texts([change.operator for change in rows]),
        "tensor": packer.texts([change.placed for change in rows]),
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
