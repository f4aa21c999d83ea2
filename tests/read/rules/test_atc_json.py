"""Rule files: what is read, and what is said about files that are something else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdiff.core.errors import InputError
from opdiff.core.graph import OutputDesc
from opdiff.pair.groups import group_operators
from opdiff.pair.quantization import find_quantized
from opdiff.read.rules import atc_json, read_rule_directory, read_rules

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.graph import RuleFile


def attr(**values: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


OPERATOR = {
    "name": "stem_lxslice12",
    "type": "Conv2D",
    "id": 3,
    "input": ["td_lxslice0:0", "", "w:0", "x:-1"],
    "attr": attr(
        other={"s": 1},
        _datadump_original_op_names={"list": {"s": ["c1", "r1"], "val_type": 1}},
        _datadump_is_multiop={"b": True},
        _L1_fusion_sub_graph_no={"s": "4"},
        pass_name={"list": {"s": ["ConvReluPass"]}},
    ),
    "output_desc": [
        {"dtype": "DT_FLOAT16"},
        {
            "attr": attr(
                _datadump_origin_name={"s": "r1"},
                _datadump_origin_output_index={"i": 5},
                _datadump_origin_format={"s": "NHWC"},
                origin_format={"s": "NCHW"},
                origin_shape={"list": {"i": [1, -1, 4]}},
            )
        },
        {"attr": attr(origin_format={"s": "NCHW"})},
    ],
    "unknown": [[]],
}


def write(path: Path, content: Any) -> str:
    file = path / "rules.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(file)


def read(path: Path, *operators: Any) -> RuleFile:
    return read_rules(write(path, {"graph": [{"name": "net", "op": list(operators)}], "version": 1}))


def test_operator_is_read_with_everything_that_pairing_needs(tmp_path: Path) -> None:
    (found,) = read(tmp_path, OPERATOR).operators()
    assert (found.name, found.op_type, found.sequence, found.graph_name) == ("stem", "Conv2D", 3, "net")
    assert found.inputs == ("td:0", "w:0")
    assert (found.originals, found.has_originals) == (("c1", "r1"), True)
    assert (found.is_multiop, found.l1_subgraph, found.passes) == (True, "4", ("ConvReluPass",))
    # An output without attributes keeps its position.
    assert found.outputs == (
        OutputDesc(0, "DT_FLOAT16", "", 0, "", ()),
        OutputDesc(1, "", "r1", 5, "NHWC", (1, -1, 4)),
        OutputDesc(2, "", "", 2, "NCHW", ()),
    )


def test_borders_of_sub_graphs_are_read(tmp_path: Path) -> None:
    parent = attr(_parent_node_index={"i": 1})
    owner, data, end = read(
        tmp_path,
        {"name": "call", "type": "PartitionedCall", "subgraph_name": ["inner"]},
        {"name": "data", "type": "Data", "attr": parent},
        {"name": "end", "type": "NetOutput", "input_desc": [{"attr": parent}, {}, {"attr": None}]},
    ).operators()
    assert owner.subgraphs == ("inner",)
    assert (data.parent_input, end.parent_outputs) == (1, (1, None, None))


def test_single_names_are_escaped_and_listed_ones_are_not(tmp_path: Path) -> None:
    operator = {
        "name": "a",
        "type": "T",
        "attr": attr(_datadump_original_op_names={"list": {"s": ["数"]}}),
        "output_desc": [{"attr": attr(_datadump_origin_name={"s": "\\346\\225\\260"})}],
    }
    (found,) = read(tmp_path, operator).operators()
    assert found.originals == ("数",)
    assert found.outputs[0].origin_name == "数"


@pytest.mark.parametrize(
    ("value", "originals", "has_originals"),
    [
        (None, ("a",), False),
        ({"list": {"val_type": 1}}, ("",), True),
        ({}, ("",), True),
        ({"list": {"s": []}}, ("",), True),
        ({"list": {"s": ["b"]}}, ("b",), True),
    ],
)
def test_forms_of_original_names(tmp_path: Path, value: Any, originals: tuple[str, ...], has_originals: bool) -> None:
    attributes = [] if value is None else attr(_datadump_original_op_names=value)
    (found,) = read(tmp_path, {"name": "a", "type": "T", "attr": attributes}).operators()
    assert (found.originals, found.has_originals) == (originals, has_originals)


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        ({"s": "P"}, ("P",)),
        ({"list": {"s": ["P", ""]}}, ("P",)),
        ({"list": {"s": [1, "P"]}}, ()),
        ({"list": {"s": 1}}, ()),
        ({"list": 1}, ()),
        ({}, ()),
    ],
)
def test_passes_of_other_types_are_ignored(tmp_path: Path, passes: Any, expected: tuple[str, ...]) -> None:
    (found,) = read(tmp_path, {"name": "a", "type": "T", "attr": attr(pass_name=passes)}).operators()
    assert found.passes == expected


GOOD = {"name": "a", "type": "T"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "not valid JSON: Expecting value"),
        (b'{"graph": [', "not valid JSON: Expecting value"),
        (b"\xff\xfe\xfd", "not a rule file; it should be "),
        (b'{"graph": [{"op": [], "name": "\xff"}]}', "not valid JSON: "),
        (b'{"graph": [{"op": [], "name": "\\ud800"}]}', "not valid JSON: "),
        (b'{"graph": [], "x": ' + b"[" * 200_000, "nested too deeply for a rule file"),
        (
            b'{"graph": [{"op": [{"name": "a", "type": "T", "id": ' + b"1" * 5000 + b"}]}]}",
            "Integer value out of range",
        ),
        ([], "not a rule file: Expected `object`, got `array`"),
        ({}, "Object missing required field `graph`"),
        ({"graph": {}}, "Expected `array`, got `object` - at `$.graph`"),
        ({"graph": [1]}, "Expected `object`, got `int` - at `$.graph[0]`"),
        ({"graph": [{}]}, "Object missing required field `op` - at `$.graph[0]`"),
        ({"graph": [{"name": 1, "op": []}]}, "Expected `str`, got `int` - at `$.graph[0].name`"),
        ({"graph": [{"op": [GOOD, {"type": "T"}]}]}, "missing required field `name` - at `$.graph[0].op[1]`"),
        ({"graph": [{"op": [{"name": "a"}]}]}, "missing required field `type` - at `$.graph[0].op[0]`"),
        ({"graph": [{"op": [GOOD | {"id": "1"}]}]}, "Expected `int`, got `str` - at `$.graph[0].op[0].id`"),
        ({"graph": [{"op": [GOOD | {"id": True}]}]}, "Expected `int`, got `bool` - at `$.graph[0].op[0].id`"),
        ({"graph": [{"op": [GOOD | {"id": 1.5}]}]}, "Expected `int`, got `float` - at `$.graph[0].op[0].id`"),
        ({"graph": [{"op": [GOOD | {"input": "x:0"}]}]}, "Expected `array`, got `str` - at `$.graph[0].op[0].input`"),
        ({"graph": [{"op": [GOOD | {"input": [None]}]}]}, "got `null` - at `$.graph[0].op[0].input[0]`"),
        ({"graph": [{"op": [GOOD | {"attr": [{}]}]}]}, "required field `key` - at `$.graph[0].op[0].attr[0]`"),
        ({"graph": [{"op": [GOOD | {"output_desc": [1]}]}]}, "got `int` - at `$.graph[0].op[0].output_desc[0]`"),
        (
            {"graph": [{"op": [GOOD | {"attr": attr(_datadump_original_op_names={"list": {"s": [1]}})}]}]},
            "got `int` - at `$.list.s[0]`, attribute _datadump_original_op_names of operator a",
        ),
        (
            {"graph": [{"op": [GOOD | {"output_desc": [{"attr": attr(origin_shape={"list": {"i": ["x"]}})}]}]}]},
            "got `str` - at `$.list.i[0]`, attribute origin_shape of operator a",
        ),
    ],
    ids=repr,
)
def test_malformed_files_are_refused_with_the_position(tmp_path: Path, content: Any, problem: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        read_rules(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be"])
@pytest.mark.parametrize("unread", [{"f": float("nan")}, {"s": 1}, {"i": 10**30}, None, [1], "核"], ids=repr)
def test_unread_attributes_may_be_anything(tmp_path: Path, unread: Any, encoding: str) -> None:
    operator = GOOD | {"attr": attr(_kernel=unread, _datadump_is_multiop={"b": True})}
    content = json.dumps({"graph": [{"op": [operator]}]}, ensure_ascii=False).encode(encoding)
    (found,) = read_rules(write(tmp_path, content)).operators()
    assert found.is_multiop


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_rules(str(tmp_path / "none.json"))
    with pytest.raises(InputError, match="a directory, where one rule file is expected"):
        read_rules(str(tmp_path))
    monkeypatch.setattr(atc_json, "_MAX_BYTES", 4)
    with pytest.raises(InputError, match="cannot be read: 9 bytes are more than the limit of 4"):
        read_rules(write(tmp_path, b'{"a": 12}'))


def test_directory_of_rule_files_is_read_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \.json rule file"):
        read_rule_directory(str(tmp_path))
    for name in ("b.json", "a.json", "note.txt"):
        (tmp_path / name).write_text('{"graph": []}')
    (tmp_path / "c.json").write_text("{")
    rules, (error,) = read_rule_directory(str(tmp_path))
    assert [found.path[-6:] for found in rules] == ["a.json", "b.json"]
    assert error.path.endswith("c.json")
    with pytest.raises(InputError, match="cannot be listed"):
        read_rule_directory(str(tmp_path / "none"))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["a:0", "Cast", "a"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["graph", "op", "name", "type", "id", "input", "attr", "key", "value", "output_desc", "list", "s"]
            ),
            below,
            max_size=5,
        )
    ),
    max_leaves=30,
)
OPERATORS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc"), "type": st.sampled_from(["Cast", "T"])},
        optional={
            "input": st.lists(st.sampled_from(["a:0", "b:1", "c", ""])),
            "output_desc": st.just([{}]),
            "attr": JUNK,
        },
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(content=JUNK | st.builds(lambda items: {"graph": [{"op": items}]}, OPERATORS))
def test_any_json_gives_rules_or_an_input_error(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    try:
        rules = read_rules(write(tmp_path_factory.mktemp("json"), content))
    except InputError:
        return
    find_quantized(group_operators(rules))


def test_unnamed_graphs_are_kept_apart(tmp_path: Path) -> None:
    """Each has its own `c`, and each `d` is fed by that of its graph."""
    graphs = [
        {"op": [{"name": "c", "type": kind}, {"name": f"d{kind}", "type": "D", "input": ["c:0"]}]} for kind in "AB"
    ]
    found = read_rules(write(tmp_path, {"graph": graphs}))
    assert [graph.name for graph in found.graphs] == ["", ""]
    assert [operator.graph_name for operator in found.operators()] == ["graph[0]"] * 2 + ["graph[1]"] * 2
    model = group_operators(found)
    producers = [model.find("c", operator.graph_name) for operator in found.operators() if operator.inputs]
    assert [producer and producer.op_type for producer in producers] == ["A", "B"]
