"""Native code passes over attributes that nobody reads: rules and errors stay the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opdiff.core.errors import InputError
from opdiff.core.native import NATIVE
from opdiff.read.rules import atc_json as ge_json
from opdiff.read.rules.atc_json import _READ, read_rules

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.graph import RuleFile

PIECE = '{"key": "_k", "value": {"i": 1}}'
STYLES: list[dict[str, Any]] = [
    {},
    {"separators": (",", ":")},
    {"indent": 1},
    {"indent": "\t", "separators": (",", ":")},
    {"ensure_ascii": False},
]
# Nobody writes so, and what is so written is read in full.
SPACED = {"separators": (" , ", " : ")}


def attribute(key: Any, value: Any) -> dict[str, Any]:
    return {"key": key, "value": value}


TEXTS = st.text(max_size=4) | st.sampled_from(
    ["a", PIECE, f", {PIECE}, {PIECE}", '", {"key": "_k"', '\\", {"key": "', "é", "数", "\ud800", "}}", "a:0"]
)
SIMPLE = TEXTS | st.integers(-(10**25), 10**25) | st.floats() | st.booleans() | st.none()
VALUES = st.dictionaries(st.sampled_from(["i", "s", "b", "f", "list", "A"]), SIMPLE, max_size=2) | SIMPLE
LISTED = st.fixed_dictionaries(
    {"list": st.dictionaries(st.sampled_from("si"), st.lists(SIMPLE | st.integers(1, 9), max_size=3))}
)
KEYS = st.sampled_from(["_k", "_kernel_name", "other", "origin_", "", "pass"]) | st.sampled_from(_READ) | TEXTS
ATTRIBUTES = st.builds(attribute, KEYS, VALUES | LISTED)
# What is usual is frequent here: long lists of attributes, few of which are read.
USUAL = st.builds(
    attribute, st.sampled_from(["_k", "_m", "_n"]), st.sampled_from([{"i": 0}, {"s": "x"}, {"f": -1.5e3}, {"b": True}])
)
ODD = st.sampled_from(
    [
        {"value": {"i": 1}, "key": "_k"},
        {"key": "_k", "value": {"i": 1}, "more": 1},
        {"key": "_k", "name": "n", "type": "T", "op": []},
        {"key": "_k"},
        {"key": 1, "value": {"i": 1}},
        {},
        1,
        None,
        "text",
    ]
)
ITEMS = st.lists(USUAL | ATTRIBUTES, max_size=8) | st.lists(USUAL | ATTRIBUTES | ODD, max_size=5)
OUTPUTS = st.fixed_dictionaries({"attr": ITEMS}, optional={"dtype": TEXTS, "key": SIMPLE})
OPERATORS = st.fixed_dictionaries(
    {"name": TEXTS, "type": TEXTS, "attr": ITEMS},
    optional={
        "id": st.integers(),
        "input": st.lists(TEXTS, max_size=2) | ITEMS,
        "output_desc": st.lists(OUTPUTS, max_size=2) | st.lists(OUTPUTS | USUAL, max_size=4),
        "input_desc": ITEMS,
        "key": SIMPLE,
    },
)
GRAPHS = st.fixed_dictionaries(
    {"op": st.lists(OPERATORS, max_size=3) | st.lists(OPERATORS | USUAL | ODD, max_size=4)},
    optional={"name": TEXTS, "attr": ITEMS},
)
DOCUMENTS = st.fixed_dictionaries(
    {"graph": st.lists(GRAPHS, max_size=2) | st.lists(GRAPHS | USUAL, max_size=3)}, optional={"attr": ITEMS}
)
RENDERED = st.builds(lambda value, style: json.dumps(value, **style), DOCUMENTS, st.sampled_from([*STYLES, SPACED]))


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A document that has something put in, or taken out, where it need not fit."""
    text = draw(RENDERED)
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(0, len(text)))
        stop = start + draw(st.sampled_from([0, 0, 1, 5]))
        pieces = [
            f", {PIECE}, {PIECE}",
            f"{PIECE}, ",
            f"{PIECE}, {PIECE}, {{",
            '"',
            ",",
            "{",
            "}",
            "]",
            "\n",
            "\0",
            ":",
        ]
        text = text[:start] + draw(st.sampled_from(["", *pieces])) + text[stop:]
    return text


def outcome(path: str) -> RuleFile | str:
    try:
        return read_rules(path)
    except InputError as error:
        return str(error)


def check(directory: Path, content: bytes) -> None:
    file = directory / "rules.json"
    file.write_bytes(content)
    with patch.object(ge_json, "NATIVE", None):
        plain = outcome(str(file))
    assert outcome(str(file)) == plain


def op(**more: Any) -> str:
    return json.dumps({"graph": [{"op": [{"name": "a", "type": "T", **more}]}]})


def with_middle(value: str) -> str:
    """An operator with three attributes, of which the second has this value."""
    return op(attr=[attribute("_k", {"i": 1}), attribute("_k", "@"), attribute("_k", {"i": 1})]).replace('"@"', value)


@settings(max_examples=400, deadline=None)
@given(
    text=RENDERED | damaged(),
    encoding=st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32-be"]),
)
@example(op(more=f"x, {PIECE}, {PIECE}").replace("\\", ""), "utf-8")  # a text with quotes that should be escaped
@example(f'{{"graph": [], "x": 1, {PIECE}, {PIECE}}}', "utf-8")
@example(f'{{"x": {PIECE}, {PIECE}, "graph": []}}', "utf-8")
@example(f'{{"graph": []}}, {PIECE}, {PIECE}', "utf-8")
@example(f'{{"graph": [], "x": [1, {PIECE}, ]}}', "utf-8")
@example(op(attr=[attribute("_k", {"i": 1})] * 4 + [{}]), "utf-8")  # attr[4], also when four are taken out
@example(op(output_desc=[{"dtype": "A"}, *[attribute("_k", {"i": 1})] * 3, {"dtype": "B"}]), "utf-8")
@example(
    f'{{"graph": [{{"op": [{{"name": "a", "type": "T"}}, {PIECE}, {{"key": 1, "name": "b", "type": "T"}}]}}]}}', "utf-8"
)
@example(f'{{"graph": [{{"op": []}}, {PIECE}, {{"key": 1, "op": []}}]}}', "utf-8")
@example(with_middle('{"i": ' + "1" * 5000 + "}"), "utf-8")
@example(with_middle('{"i": 01}'), "utf-8")
@example(with_middle('{"s": "a\tb"}'), "utf-8")
@example(with_middle('{"s": "a\\xb"}'), "utf-8")
def test_rules_and_errors_are_those_of_the_whole_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, encoding: str
) -> None:
    check(tmp_path_factory.mktemp("rules"), text.encode(encoding, "surrogatepass"))


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    check(tmp_path, with_middle('{"s": "@"}').encode().replace(b"@", b"\xff"))


@pytest.mark.skipif(NATIVE is None, reason="the native module was not built")
@pytest.mark.parametrize("style", [*STYLES, SPACED], ids=repr)
def test_what_is_not_read_is_passed_over(style: dict[str, Any]) -> None:
    assert NATIVE is not None
    values = [{"i": 7}, {"s": "x y"}, {"s": "核"}, {"f": -2.5e-9}, {"b": False}, {"list": {"i": [1, {"x": None}]}}]
    unread = [attribute(f"_kernel_{number}", value) for number, value in enumerate(values)]
    read = [attribute(key, {"s": 'x"\\/\b\f\n\r\t\u00fc核\U0001f600', "f": 1.5, "i": -12}) for key in _READ]
    operators = [{"name": name, "attr": [*unread, *read, *unread], "other": unread} for name in "ab"]
    text = json.dumps({"graph": [{"op": operators}]}, **style)
    left = [{**operator, "attr": read} for operator in operators]
    assert NATIVE.rule_json(text.encode(), _READ) == {"graph": [{"op": left}]}


@pytest.mark.skipif(NATIVE is None, reason="the native module was not built")
def test_names_may_be_many() -> None:
    assert NATIVE is not None
    value = [{f"name {number % 1000}": number, "attr": []} for number in range(3000)]
    assert NATIVE.rule_json(json.dumps(value).encode(), _READ) == value


@pytest.mark.skipif(NATIVE is None, reason="the native module was not built")
@given(VALUES | ITEMS | DOCUMENTS, st.sampled_from([*STYLES, SPACED]))
def test_json_is_read_as_python_reads_it(value: object, style: dict[str, Any]) -> None:
    assert NATIVE is not None
    data = json.dumps(value, **style).encode(errors="surrogatepass")
    # Where every key is read, nothing is passed over.
    found = NATIVE.rule_json(data, (*_READ, *keys_in(value)))
    assert found is None or repr(found) == repr(json.loads(data))


def keys_in(value: object) -> list[str]:
    """All texts under `key`, anywhere."""
    if isinstance(value, dict):
        own = [value["key"]] if isinstance(value.get("key"), str) and "\ud800" not in value["key"] else []
        return own + [key for item in value.values() for key in keys_in(item)]
    return [key for item in value for key in keys_in(item)] if isinstance(value, list) else []
