"""A comparison, saved: everything that reports need, no tensors. It can be loaded and reported again.

The file is an object with `schema`, `version`, `made_by`, `target`, `golden`, `scenario`, `graph`, `judgement`,
`profiles` and `rows`, a line a row.
Fields are those of `SavedComparison`. JSON has no NaN and no infinity: they are the words `nan`, `inf` and `-inf`.
Reasons are objects of `code`, `facts` and `text`; in version 1 they were sentences, and `evidence` was called `rule`.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import whole_file
from opdiff.core.comparison import (
    Birth,
    ErrorKind,
    Finding,
    GraphNode,
    Judgement,
    Level,
    Metrics,
    OpLabel,
    Profile,
    Verdict,
)
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError
from opdiff.core.tensor import Slot, TensorKey
from opdiff.report.json_text import json_document
from opdiff.report.reason_json import reason_from_json, reason_to_json
from opdiff.report.rows import Environment, ReportRow, SavedComparison, Side, saved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from opdiff.core.comparison import Comparison
    from opdiff.core.graphmode import GraphRow
    from opdiff.core.reasons import Reason

    Decoder = Callable[[object], object]

SCHEMA = "opdiff.comparison"
VERSION = 2
_READABLE_VERSIONS = (1, VERSION)

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def save(comparison: Comparison | SavedComparison, path: str, *, made_by: str = "") -> None:
    """Write the whole file; `made_by` tells which program in which version did."""
    kept = saved(comparison)
    head = {"schema": SCHEMA, "version": VERSION, "made_by": made_by, **kept._asdict()}
    head["scenario"] = reason_to_json(kept.scenario)
    for name in ("graph", "judgement", "profiles"):
        if not head[name]:
            del head[name]
    for name in ("rows", "graph_mode"):
        del head[name]
    if kept.judgement is not None:
        head["judgement"] = _judgement_to_json(kept.judgement)
    with whole_file(path) as file:
        file.writelines(json_document(head, map(row_to_json, kept.rows)))


def row_to_json(row: ReportRow | GraphRow) -> dict[str, object]:
    """Return the fields of a row with its reasons as JSON holds them."""
    reasons = {
        name: None if reason is None else reason_to_json(reason)
        for name, reason in (("reason", row.reason), ("evidence", row.evidence))
    }
    return row._asdict() | reasons


def _judgement_to_json(judgement: Judgement) -> dict[str, object]:
    return judgement._asdict() | {
        "verdicts": [verdict._asdict() | {"rule": reason_to_json(verdict.rule)} for verdict in judgement.verdicts],
        "findings": [
            finding._asdict()
            | {"evidence": [*map(reason_to_json, finding.evidence)]}
            | {"remedies": [*map(reason_to_json, finding.remedies)]}
            for finding in judgement.findings
        ],
        "advice": [*map(reason_to_json, judgement.advice)],
    }


def load(path: str) -> SavedComparison:
    """A comparison that was saved.

    Raises:
        InputError: the file is not a saved comparison, or one of another version.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        return _decode(document_of(data, SCHEMA))
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not a saved comparison: {error}") from error


def document_of(data: bytes, schema: str) -> dict[str, Any]:
    """Return the object in a file of this schema, in any version that can be read.

    Raises:
        ValueError: it is another one, or not JSON.
    """
    document = json.loads(data, parse_constant=_no_constant)
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ValueError(f"it does not say that its schema is {schema!r}")
    if document.get("version") not in _READABLE_VERSIONS:
        known = " and ".join(map(str, _READABLE_VERSIONS))
        raise ValueError(f"it is of version {document.get('version')!r}; versions {known} can be read")
    return document


def current_row(value: object) -> object:
    """Return the object of a row with the names that its fields have in the current version."""
    if not isinstance(value, dict) or "rule" not in value:
        return value
    return {"evidence" if name == "rule" else name: item for name, item in value.items()}


def _decode(document: dict[str, Any]) -> SavedComparison:
    judgement = document.get("judgement")
    if isinstance(judgement, dict):
        # Older files have the advice in two languages.
        judgement.pop("advice_zh", None)
    if document["version"] == 1 and isinstance(document.get("rows"), list):
        document["rows"] = [current_row(row) for row in document["rows"]]
    kept: SavedComparison = build(SavedComparison, {key: document[key] for key in document if key not in _HEAD})
    return kept


_HEAD = ("schema", "version", "made_by")


# From JSON to values, by the types of the fields


def build(kind: Any, value: object, decoders: Mapping[str, Decoder] | None = None) -> Any:  # noqa: ANN401  no type is that of all classes of named tuples
    """A named tuple from an object with exactly its fields; those that have a default may be missing.

    Raises:
        ValueError: the object is not what it should be.
    """
    table = DECODERS if decoders is None else decoders
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} stands where {kind.__name__} should")  # noqa: TRY004  it is bad data
    known = {name: hint.__forward_arg__ for name, hint in kind.__annotations__.items()}
    defaults: dict[str, object] = kind._field_defaults
    strange = [name for name in value if name not in known]
    absent = [name for name in known if name not in value and name not in defaults]
    if strange or absent:
        raise ValueError(f"{kind.__name__} has not exactly its fields: {', '.join(strange + absent)}")
    return kind(**{name: _field(kind, name, table[known[name]], item) for name, item in value.items()})


def builder(kind: Any, decoders: Mapping[str, Decoder]) -> Decoder:  # noqa: ANN401  no type is that of all classes of named tuples
    """What `build` does, with a shortcut for objects that have all fields in their order: as we write them."""
    fields: tuple[str, ...] = kind._fields
    in_order: list[Decoder] = []

    def decode(value: object) -> object:
        if not in_order:
            # Not before: tables of decoders mention each other.
            in_order.extend(decoders[hint.__forward_arg__] for hint in kind.__annotations__.values())
        if type(value) is not dict or tuple(value) != fields:
            return build(kind, value, decoders)
        try:
            return kind._make([decoder(item) for decoder, item in zip(in_order, value.values(), strict=True)])
        except TypeError:
            return build(kind, value, decoders)

    return decode


def _field(kind: type, name: str, decoder: Decoder, value: object) -> object:
    try:
        return decoder(value)
    except TypeError:
        raise ValueError(f"{_shown(value)} cannot be {kind.__name__}.{name}") from None


def _of(*kinds: type) -> Decoder:
    """Values of exactly these types; `bool` is no `int` here."""

    def decode(value: object) -> object:
        if type(value) not in kinds:
            raise TypeError
        return value

    return decode


def _number(value: object) -> object:
    if type(value) is float or type(value) is int:
        return value
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    raise TypeError


def optional(decoder: Decoder) -> Decoder:
    """`None`, or what the decoder takes."""
    return lambda value: None if value is None else decoder(value)


def _items(decoder: Decoder) -> Decoder:
    def decode(value: object) -> object:
        if not isinstance(value, list):
            raise TypeError
        return tuple([decoder(item) for item in value])

    return decode


def _optional_reason(value: object) -> Reason | None:
    """A reason; in version 1 an empty sentence was none."""
    return None if value is None or value == "" else reason_from_json(value)


def _triple(value: object) -> object:
    triple = _items(_of(str))(value)
    if not isinstance(triple, tuple) or len(triple) != 3:
        raise TypeError
    return triple


def _no_constant(word: str) -> Any:  # noqa: ANN401  it never returns
    raise ValueError(f"{word} is not JSON")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


# The types of fields, as they are written in the classes.
DECODERS: dict[str, Decoder] = {}
DECODERS |= {
    "str": _of(str),
    "Reason": reason_from_json,
    "Reason | None": _optional_reason,
    "tuple[Reason, ...]": _items(reason_from_json),
    "bool": _of(bool),
    "int": _of(int),
    "float": _number,
    "bool | None": optional(_of(bool)),
    "int | None": optional(_of(int)),
    "float | None": optional(_number),
    "float | int | None": optional(_number),
    "tuple[str, ...]": _items(_of(str)),
    "tuple[int, ...]": _items(_of(int)),
    "tuple[float, ...]": _items(_number),
    "tuple[tuple[str, str, str], ...]": _items(_triple),
    "Shape | None": optional(_items(_of(int))),
    "Slot": lambda value: Slot(str(value)),
    "DumpKind": lambda value: DumpKind(str(value)),
    "Side": builder(Side, DECODERS),
    "Environment": builder(Environment, DECODERS),
    "OpLabel": builder(OpLabel, DECODERS),
    "TensorKey | None": optional(builder(TensorKey, DECODERS)),
    "Metrics | None": optional(builder(Metrics, DECODERS)),
    "tuple[ReportRow, ...]": _items(builder(ReportRow, DECODERS)),
    "Level": lambda value: Level(str(value)),
    "ErrorKind": lambda value: ErrorKind(str(value)),
    "Birth": lambda value: Birth(str(value)),
    "tuple[GraphNode, ...]": _items(builder(GraphNode, DECODERS)),
    "tuple[Verdict, ...]": _items(builder(Verdict, DECODERS)),
    "tuple[Finding, ...]": _items(builder(Finding, DECODERS)),
    "Judgement | None": optional(builder(Judgement, DECODERS)),
    "tuple[Profile, ...]": _items(builder(Profile, DECODERS)),
}
