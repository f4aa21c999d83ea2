"""Version 1 of the saved form: one file for an offline comparison, one for each table of graph mode.

It has objects instead of arrays, sentences instead of reasons, and the strings `nan`, `inf` and `-inf`.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import msgspec

from opdiff.core.comparison import (
    Comparison,
    DataMode,
    Environment,
    GraphNode,
    Mode,
    OpLabel,
    Profile,
    Row,
    Side,
    SideInfo,
    TableView,
)
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError
from opdiff.core.judgement import Finding, Judgement, Verdict
from opdiff.core.metrics import DocumentedMetrics, ExtraMetrics, Metrics
from opdiff.core.reasons import quoted
from opdiff.core.tensor import Slot, TensorKey
from opdiff.core.tensor_stats import TensorStats
from opdiff.report.saved_json import SCHEMA, head_of, read_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from opdiff.core.reasons import Reason

    Object = dict[str, Any]

VERSION = 1
GRAPH_SCHEMA = "opdiff.torchair"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MODES = list(DataMode)
_SLOT_ORDER = {None: -1, "input": 0, "output": 1}
# `mm-aten.mm.default.OUTPUT.0.20240130064151000000.npy`: one file for each tensor of FX.
_FX_FILE = re.compile(r"(.+)\.(INPUT|OUTPUT)\.(\d{1,9})(?:\.\d+)*(?:_min_max)?\.np[yz]")
# `Add.Add_1.5.6.1706596911000000,outputs,0`: a tensor in the file of an operator of the graph engine.
_GE_FILE = re.compile(r"[\w-]+\.([\w-]+)(?:\.\d+){2,7}(?:_min_max)?(?:\.\w+)?,(inputs|outputs),(\d{1,9})")


def load_v1(paths: Sequence[str]) -> Comparison:
    """Read an offline comparison, or all tables of one run in graph mode.

    Comparisons that were saved without a judgement, as those of graph mode are, have no verdicts yet.

    Raises:
        InputError: a file is not a saved comparison, or the files are not of one run.
        OSError: a file cannot be read.
    """
    load = _load_graph if head_of(paths[0])[0] == GRAPH_SCHEMA else _load_offline
    try:
        return msgspec.convert(load(paths), Comparison)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(paths[0], f"is not a saved comparison: {type(error).__name__}: {error}") from error


def _array(kind: Any, value: Object, **changes: object) -> list[object]:  # noqa: ANN401  any named tuple
    """Return the fields of an object in the order of a named tuple; `changes` replaces some of them."""
    known = kind._field_defaults | value | changes
    return [
        _NON_FINITE.get(item, item) if isinstance(item, str) else item
        for item in (known[name] for name in kind._fields)
    ]


def _optional(kind: Any, value: Object | None) -> list[object] | None:  # noqa: ANN401  any named tuple
    return None if value is None else _array(kind, value)


def _metrics(value: Object | None) -> list[object] | None:
    return None if value is None else _array(Metrics, value, notes=_reasons(value.get("notes", ())))


def _reason(text: str) -> Reason | None:
    return quoted(text) if text else None


def _reasons(texts: Iterable[str]) -> list[Reason]:
    return [quoted(text) for text in texts]


# Offline


def _load_offline(paths: Sequence[str]) -> Object:
    if len(paths) > 1:
        raise InputError(paths[1], "several files make one report in graph mode only; give one at a time")
    document = read_document(paths[0], SCHEMA, VERSION)
    nodes = [_array(GraphNode, node) for node in document.get("graph", ())]
    return {
        "mode": Mode.OFFLINE,
        "target": _array(Side, document["target"]),
        "golden": _array(Side, document["golden"]),
        "scenario": quoted(document["scenario"]),
        "rows": [_offline_row(row) for row in document["rows"]],
        "judgement": _judgement(document.get("judgement")),
        "view": _array(TableView, document),
        "graphs": [[nodes]] if nodes else [],
        "environment": _array(Environment, document.get("environment", {})),
        "profiles": [_profile(profile) for profile in document.get("profiles", ())],
    }


def _offline_row(row: Object) -> list[object]:
    sides = {}
    for side in ("target", "golden"):
        path, dtype, address = (row.get(f"{side}_{name}") for name in ("path", "dtype", "address"))
        sides[side] = _array(SideInfo, {}, path=path or "", dtype=dtype or "", address=address) if path else None
    has_numbers = row.get("metrics") is not None
    return _array(
        Row,
        row,
        label=_array(OpLabel, row["label"]),
        key=_optional(TensorKey, row.get("key")),
        golden_key=_optional(TensorKey, row.get("golden_key")),
        **sides,
        metrics=_metrics(row.get("metrics")),
        steps=_reasons(row.get("steps", ())),
        reason=None if has_numbers else quoted(row.get("reason", "")),
        notes=_reasons([row["reason"]] if has_numbers and row.get("reason") else ()),
        evidence=_reason(row.get("rule", "")),
    )


def _judgement(judgement: Object | None) -> list[object]:
    if judgement is None:
        return _array(Judgement, {}, limits="", verdicts=[])
    verdicts = [_array(Verdict, verdict, rule=quoted(verdict["rule"])) for verdict in judgement["verdicts"]]
    findings = [
        _array(Finding, finding, evidence=_reasons(finding["evidence"]), remedies=_reasons(finding["remedies"]))
        for finding in judgement.get("findings", ())
    ]
    advice = _reasons(judgement.get("advice", ()))
    return _array(Judgement, judgement, verdicts=verdicts, findings=findings, advice=advice)


def _profile(profile: Object) -> list[object]:
    numbers = {name: [_NON_FINITE.get(item, item) for item in profile[name]] for name in ("errors", "largest")}
    return _array(Profile, profile, label=profile["letter"], sampled_share=profile["seen"], **numbers)


# Graph mode


def _load_graph(paths: Sequence[str]) -> Object:
    parts = [read_document(path, GRAPH_SCHEMA, VERSION) for path in paths]
    _require_one_run(parts)
    first = parts[0]
    rows: list[list[object]] = []
    graphs: list[list[object]] = []
    for group in _by_graph(parts):
        found = [(number, item["row"], part) for part in group for number, item in enumerate(part["rows"])]
        if len(group) > 1:
            found.sort(key=lambda item: _row_order(item[1]))
        rows += [_graph_row(row, number, part) for number, row, part in found]
        nodes = next((part["nodes"] for part in group if part.get("nodes")), ())
        tokens = dict.fromkeys(row["token"] for _, row, _ in found)
        if nodes:
            units = [[group[0]["rank"], token, group[0]["graph"]] for token in tokens]
            graphs.append([[_array(GraphNode, node) for node in nodes], units])
    golden_kind = DumpKind.ARRAYS if first["scenario"].endswith("FX") else DumpKind.NPU
    return {
        "mode": Mode.GRAPH,
        "target": [first["target"], DumpKind.NPU],
        "golden": [first["golden"], golden_kind],
        "scenario": quoted(first["scenario"]),
        "rows": rows,
        "judgement": _judgement(None),
        "graphs": graphs,
        "environment": _array(Environment, first.get("environment", {})),
        "notes": _reasons(dict.fromkeys(note for part in parts for note in part.get("notes", ()))),
    }


def _require_one_run(parts: Sequence[Object]) -> None:
    first = parts[0]
    tables: set[tuple[object, ...]] = set()
    for part in parts:
        if (part["target"], part["golden"]) != (first["target"], first["golden"]):
            others = f"other files are about {first['target']} and {first['golden']}"
            problem = f"was compared with {part['golden']}, {others}; give the files of one run"
            raise InputError(part["target"], problem)
        table = part["rank"], part["graph"], part["mode"]
        if table in tables:
            named = f"rank {part['rank']}, graph {part['graph']}, {part['mode']}"
            problem = f"two of the files are about the same ({named}); give the files of one run"
            raise InputError(part["target"], problem)
        tables.add(table)


def _by_graph(parts: Sequence[Object]) -> list[list[Object]]:
    """Return the parts grouped by rank and graph, in this order."""
    groups: dict[tuple[int, int], list[Object]] = {}
    for part in parts:
        key = tuple(-1 if number is None else number for number in (part["rank"], part["graph"]))
        groups.setdefault((key[0], key[1]), []).append(part)
    return [groups[key] for key in sorted(groups)]


def _row_order(row: Object) -> tuple[object, ...]:
    tensor = _SLOT_ORDER[row["slot"]], row["index"] or 0
    return row["token"], row.get("golden_only", False), row["timestamp"], row["op"], *tensor


def _graph_row(row: Object, number: int, part: Object) -> list[object]:
    target, golden = row.get("target"), row.get("golden")
    op_type = (target or golden or {}).get("op_type", "")
    golden_key = None if golden is None or row.get("golden_only") else _golden_key(golden["path"], row)
    stats = (target or golden or {}).get("figures", {})
    return _array(
        Row,
        row,
        label=OpLabel(number, 0, op_type, row["op"], golden_key.op if golden_key else "*"),
        key=None if row["slot"] is None else [row["op"], row["slot"], row["index"] or 0],
        golden_key=golden_key,
        target=_graph_side(target),
        golden=_graph_side(golden),
        shape=stats.get("shape"),
        by=row["mode"],
        metrics=_metrics(row.get("metrics")),
        documented=_optional(DocumentedMetrics, row.get("real")),
        extra=_optional(ExtraMetrics, row.get("further")),
        notes=_reasons(row.get("notes", ())),
        reason=_reason(row.get("reason", "")),
        evidence=_reason(row.get("rule", "")),
        unit=[part["rank"], row["token"], part["graph"]],
    )


def _graph_side(side: Object | None) -> list[object] | None:
    if side is None:
        return None
    stats = side.get("figures", {})
    known = {"dtype": stats.get("dtype", ""), "shape": stats.get("shape")}
    return _array(SideInfo, side | known, stats=_array(TensorStats, stats))


def _golden_key(path: str, row: Object) -> TensorKey:
    """Return the golden tensor by its file name; version 1 does not save its key."""
    name = path.rpartition("/")[2]
    match = _FX_FILE.fullmatch(name) or _GE_FILE.fullmatch(name)
    if match is None:
        return TensorKey(name, Slot(row["slot"] or "output"), row["index"] or 0)
    return TensorKey(match[1], Slot.INPUT if match[2].lower().startswith("input") else Slot.OUTPUT, int(match[3]))
