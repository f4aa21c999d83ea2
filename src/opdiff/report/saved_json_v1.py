"""Version 1 of the saved form: one file for an offline comparison, one for each table of graph mode.

It has objects instead of arrays, sentences instead of reasons, and the strings `nan`, `inf` and `-inf`.
"""

from __future__ import annotations

import math
import re
from itertools import groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from opdiff.core.comparison import Comparison, DataMode, Mode
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError
from opdiff.core.pairing import OpLabel
from opdiff.core.reasons import because, quoted
from opdiff.core.tensor import Slot, TensorKey
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
        comparison = msgspec.convert(load(paths), Comparison, from_attributes=True)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            paths[0], because("report.not_saved_because", kind=type(error).__name__, error=str(error))
        ) from error
    judgement = comparison.judgement
    judgement = replace(judgement, verdicts=tuple(judgement.verdicts), documented=tuple(judgement.documented))
    return replace(comparison, rows=tuple(comparison.rows), judgement=judgement)


def _object(value: Object, **changes: object) -> SimpleNamespace:
    """Return an object whose numbers that are not finite are numbers; `changes` replaces some of its attributes."""
    fields = value | changes
    strings = {name: item for name, item in fields.items() if isinstance(item, str)}
    numbers = {name: _NON_FINITE[item] for name, item in strings.items() if item in _NON_FINITE}
    return SimpleNamespace(**(fields | numbers))


def _optional(value: Object | None) -> SimpleNamespace | None:
    return None if value is None else _object(value)


def _metrics(value: Object | None) -> SimpleNamespace | None:
    return None if value is None else _object(value, notes=_reasons(value.get("notes", ())))


def _reason(text: str) -> Reason | None:
    return quoted(text) if text else None


def _reasons(texts: Iterable[str]) -> list[Reason]:
    return [quoted(text) for text in texts]


# Offline


def _load_offline(paths: Sequence[str]) -> Object:
    if len(paths) > 1:
        raise InputError(paths[1], because("report.one_at_a_time"))
    document = read_document(paths[0], SCHEMA, VERSION)
    nodes = [_object(node) for node in document.get("graph", ())]
    return {
        "mode": Mode.OFFLINE,
        "target": _object(document["target"]),
        "golden": _object(document["golden"]),
        "scenario": quoted(document["scenario"]),
        "rows": [_offline_row(row) for row in document["rows"]],
        "judgement": _judgement(document.get("judgement")),
        "view": _object(document),
        "graphs": [{"nodes": nodes}] if nodes else [],
        "environment": _object(document.get("environment", {})),
        "profiles": [_profile(profile) for profile in document.get("profiles", ())],
    }


def _offline_row(row: Object) -> SimpleNamespace:
    sides = {}
    for side in ("target", "golden"):
        path, dtype, address = (row.get(f"{side}_{name}") for name in ("path", "dtype", "address"))
        sides[side] = _object({}, path=path or "", dtype=dtype or "", address=address) if path else None
    has_numbers = row.get("metrics") is not None
    return _object(
        row,
        label=_object(row["label"]),
        key=_optional(row.get("key")),
        golden_key=_optional(row.get("golden_key")),
        **sides,
        metrics=_metrics(row.get("metrics")),
        steps=_reasons(row.get("steps", ())),
        reason=None if has_numbers else quoted(row.get("reason", "")),
        notes=_reasons([row["reason"]] if has_numbers and row.get("reason") else ()),
        evidence=_reason(row.get("rule", "")),
    )


def _judgement(judgement: Object | None) -> SimpleNamespace:
    if judgement is None:
        return _object({}, limits="", verdicts=[])
    verdicts = [_object(verdict, rule=quoted(verdict["rule"])) for verdict in judgement["verdicts"]]
    findings = [
        _object(finding, evidence=_reasons(finding["evidence"]), remedies=_reasons(finding["remedies"]))
        for finding in judgement.get("findings", ())
    ]
    advice = _reasons(judgement.get("advice", ()))
    return _object(judgement, verdicts=verdicts, findings=findings, advice=advice)


def _profile(profile: Object) -> SimpleNamespace:
    numbers = {name: [_NON_FINITE.get(item, item) for item in profile[name]] for name in ("errors", "largest")}
    return _object(profile, label=profile["letter"], sampled_share=profile["seen"], **numbers)


# Graph mode


def _load_graph(paths: Sequence[str]) -> Object:
    parts = [read_document(path, GRAPH_SCHEMA, VERSION) for path in paths]
    _require_one_run(parts)
    first = parts[0]
    rows: list[SimpleNamespace] = []
    graphs: list[Object] = []
    for group in _by_graph(parts):
        found = [(number, item["row"], part) for part in group for number, item in enumerate(part["rows"])]
        if len(group) > 1:
            found.sort(key=lambda item: _row_order(item[1]))
        rows += [_graph_row(row, number, part) for number, row, part in found]
        nodes = next((part["nodes"] for part in group if part.get("nodes")), ())
        tokens = dict.fromkeys(row["token"] for _, row, _ in found)
        if nodes:
            units = [_unit(group[0], token) for token in tokens]
            graphs.append({"nodes": [_object(node) for node in nodes], "units": units})
    golden_kind = DumpKind.ARRAYS if first["scenario"].endswith("FX") else DumpKind.NPU
    return {
        "mode": Mode.GRAPH,
        "target": {"path": first["target"], "kind": DumpKind.NPU},
        "golden": {"path": first["golden"], "kind": golden_kind},
        "scenario": quoted(first["scenario"]),
        "rows": rows,
        "judgement": _judgement(None),
        "graphs": graphs,
        "environment": _object(first.get("environment", {})),
        "notes": _reasons(dict.fromkeys(note for part in parts for note in part.get("notes", ()))),
    }


def _require_one_run(parts: Sequence[Object]) -> None:
    first = parts[0]
    tables: set[tuple[object, ...]] = set()
    for part in parts:
        if (part["target"], part["golden"]) != (first["target"], first["golden"]):
            sides = {"target": first["target"], "other": first["golden"]}
            raise InputError(part["target"], because("report.saved_sides", golden=part["golden"], **sides))
        table = part["rank"], part["graph"], part["mode"]
        if table in tables:
            named = f"rank {part['rank']}, graph {part['graph']}, {part['mode']}"
            problem = because("report.saved_twice", named=named)
            raise InputError(part["target"], problem)
        tables.add(table)


def _by_graph(parts: Sequence[Object]) -> list[list[Object]]:
    """Return the parts grouped by rank and graph, in this order."""

    def key(part: Object) -> list[int]:
        return [-1 if number is None else number for number in (part["rank"], part["graph"])]

    return [list(group) for _, group in groupby(sorted(parts, key=key), key)]


def _row_order(row: Object) -> tuple[object, ...]:
    tensor = _SLOT_ORDER[row["slot"]], row["index"] or 0
    return row["token"], row.get("golden_only", False), row["timestamp"], row["op"], *tensor


def _graph_row(row: Object, number: int, part: Object) -> SimpleNamespace:
    target, golden = row.get("target"), row.get("golden")
    op_type = (target or golden or {}).get("op_type", "")
    golden_key = None if golden is None or row.get("golden_only") else _golden_key(golden["path"], row)
    stats = (target or golden or {}).get("figures", {})
    return _object(
        row,
        label=OpLabel(number, 0, op_type, row["op"], golden_key.op if golden_key else "*"),
        key=None if row["slot"] is None else {"op": row["op"], "slot": row["slot"], "index": row["index"] or 0},
        golden_key=golden_key,
        target=_graph_side(target),
        golden=_graph_side(golden),
        shape=stats.get("shape"),
        data_mode=row["mode"],
        metrics=_metrics(row.get("metrics")),
        documented=_optional(row.get("real")),
        extra=_optional(row.get("further")),
        notes=_reasons(row.get("notes", ())),
        reason=_reason(row.get("reason", "")),
        evidence=_reason(row.get("rule", "")),
        unit=_unit(part, row["token"]),
    )


def _unit(part: Object, token: object) -> Object:
    return {"rank": part["rank"], "token": token, "graph": part["graph"]}


def _graph_side(side: Object | None) -> SimpleNamespace | None:
    if side is None:
        return None
    stats = side.get("figures", {})
    known = {"dtype": stats.get("dtype", ""), "shape": stats.get("shape")}
    return _object(side | known, stats=_object(stats))


def _golden_key(path: str, row: Object) -> TensorKey:
    """Return the golden tensor by its file name; version 1 does not save its key."""
    name = path.rpartition("/")[2]
    match = _FX_FILE.fullmatch(name) or _GE_FILE.fullmatch(name)
    if match is None:
        return TensorKey(name, Slot(row["slot"] or "output"), row["index"] or 0)
    return TensorKey(match[1], Slot.INPUT if match[2].lower().startswith("input") else Slot.OUTPUT, int(match[3]))
