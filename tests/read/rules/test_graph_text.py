"""Graph texts: whatever protobuf prints is read, and whatever else is there costs no more than itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.core.errors import InputError
from opdiff.core.reasons import Reason, because
from opdiff.read.rules.graph_text import parse_graph_text, parse_stacks, read_graph_text
from opdiff.sample.graph_text import TextNode, graph_text

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.graph import TextGraph

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=20)
EDGES = st.tuples(NAMES, st.integers(0, 9))


@st.composite
def nodes(draw: st.DrawFn) -> TextNode:
    edges = draw(st.lists(EDGES, max_size=3))
    control = draw(st.lists(NAMES, max_size=1))
    return TextNode(
        draw(TEXTS),
        draw(TEXTS),
        tuple(f"{name}:{index}" for name, index in edges) + tuple(f"{name}:-1" for name in control),
        tuple(draw(st.lists(TEXTS, min_size=len(edges), max_size=len(edges)))),
        tuple(draw(st.lists(TEXTS, max_size=3))),
        tuple(draw(st.lists(TEXTS.filter(bool), max_size=2))),
    )


@given(TEXTS, st.lists(nodes(), max_size=4, unique_by=lambda node: node.name))
def test_every_graph_is_read_back(name: str, made: list[TextNode]) -> None:
    graph = parse_graph_text(graph_text(name, made))
    assert graph.problems == ()
    assert graph.name == name
    assert list(graph.operators) == [node.name for node in made]
    for node in made:
        op = graph.operators[node.name]
        assert (op.op_type, op.originals) == (node.op_type, node.originals)
        assert [f"{producer}:{index}" for producer, index in op.inputs] == [
            edge for edge in node.inputs if not edge.endswith(":-1")
        ]
        assert op.input_names == node.input_fx
        assert op.output_names == node.output_fx


@given(st.text(max_size=200))
def test_any_text_gives_a_graph(text: str) -> None:
    parse_graph_text(text)


@given(st.lists(nodes(), min_size=1, max_size=3, unique_by=lambda node: node.name), st.data())
def test_a_text_that_is_cut_off_gives_what_is_whole(made: list[TextNode], data: st.DataObject) -> None:
    text = graph_text("g", made)
    cut = data.draw(st.integers(0, len(text)))
    found = list(parse_graph_text(text[:cut]).operators)
    assert found == [node.name for node in made][: len(found)]
    assert len(found) == text[:cut].count("\n}\n") + text[:cut].endswith("\n}")


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ('op { name: "a" input: "b:1" input: "c:-1" input: "d" }', (("b", 1), ("d", 0))),
        ("op <name: 'a'; input: ['b:0', 'c:2']>", (("b", 0), ("c", 2))),
        ('op: { name: "a" # a comment } \n input: "b" ":3" }', (("b", 3),)),
        ('op { name: "a" input: "x { y: 1 }:4" attr { key: "} {" } }', (("x { y: 1 }", 4),)),
    ],
)
def test_other_spellings(text: str, inputs: tuple[tuple[str, int], ...]) -> None:
    graph = parse_graph_text(text)
    assert graph.problems == ()
    assert graph.operators["a"].inputs == inputs


def test_escapes_are_undone() -> None:
    assert list(parse_graph_text(r'op { name: "\303\244\x41\n\"\'\\" }').operators) == ["äA\n\"'\\"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('op { name: "a" } }', because("read.closed_twice")),
        ('op { name: "a" } op { name: "b"', because("read.unfinished_block")),
        ('op { name: "a" } op { name: "a" }', because("read.duplicate_operator", op="a")),
        ('op { name: "a" x: "not closed\n }', because("read.open_quote")),
        ('op { name: "a" ' + "x { " * 200 + "} " * 200 + "}", because("read.blocks_too_deep", limit=100)),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: Reason) -> None:
    graph = parse_graph_text(text)
    assert "a" in graph.operators
    assert problem in graph.problems


@pytest.mark.parametrize("piece", ["op {", "}", '"', "x: [", "\\", 'a: "', "<", "op { name: 'a' } "])
def test_long_texts_come_to_an_end(piece: str) -> None:
    """Work that grew with the square of the text would take minutes here, and problems would fill pages."""
    graph = parse_graph_text(piece * 80_000)
    assert len(graph.operators) == ("name" in piece)
    assert len(graph.problems) <= 2


def test_a_listing_beside_it_tells_where_operators_come_from(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text(graph_text("g", [TextNode("Add_1", "Add"), TextNode("Mul", "Mul")]))
    (tmp_path / "g.py").write_text(
        '# File "/home/u/model.py", line 7, in forward  y = a + b\n## FX Code: add\n'
        'Add_1_0 = ge.Add(x, y, node_name="Add_1")\nMul_0 = ge.Mul(x, y, node_name="Mul")\n'
    )
    place = 'File "/home/u/model.py", line 7, in forward'
    assert read_graph_text(str(tmp_path / "g.txt")).stacks == {"Add_1": place, "Mul": place}
    assert parse_stacks('x = ge.Op(node_name="a")') == {}


def listing(*parts: str) -> str:
    """Return a listing: `7` names a line, `add:Add_1` is an FX node and its operator."""
    lines = []
    for part in parts:
        target, _, node = part.partition(":")
        if node:
            lines += [
                f"## FX Code: {target}: f[1]npu:0 = torch.ops.aten.{target}(x)",
                f'x = ge.X(x, node_name="{node}")',
            ]
        else:
            lines.append(f'# File "m.py", line {part}, in forward    x = y')
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        # The first node of a line is certain; an operation that no earlier line had is of this line, too.
        (("7", "t:T", "mm:Mm"), {"T": [7], "Mm": [7]}),
        # A line that is executed again is not named again.
        (("7", "add:A", "8", "mul:M", "add:A_1", "mul:M_1"), {"A": [7], "M": [8], "A_1": [7, 8], "M_1": [8]}),
        (
            ("1", "a:A", "2", "a:B", "3", "a:C", "4", "a:D", "a:E"),
            {"A": [1], "B": [2], "C": [3], "D": [4], "E": [2, 3, 4]},
        ),
    ],
)
def test_a_listing_that_names_each_line_once_leaves_what_is_not_certain_open(
    parts: tuple[str, ...], lines: dict[str, list[int]]
) -> None:
    found = parse_stacks(listing(*parts))
    assert found.keys() == lines.keys()
    for name, numbers in lines.items():
        shown = " or ".join(f'File "m.py", line {number}, in forward' for number in numbers)
        assert found[name] == (f"{shown} or others" if name == "E" else shown)


@pytest.mark.parametrize(("operator", "is_used"), [("Add_1", True), ("Other", False)])
def test_the_listing_of_another_process_is_used_if_it_has_the_same_operators(
    tmp_path: Path, operator: str, is_used: bool
) -> None:
    text = tmp_path / "dynamo_original_graph_1_rank_0_pid_2_ts_5.txt"
    text.write_text(graph_text("g", [TextNode("Add_1", "Add"), TextNode("Mul", "Mul")]))
    for stem, line in (
        ("graph_1_rank_0_pid_9_ts_9", 1),
        ("graph_1_rank_0_pid_3_ts_10", 2),
        ("graph_1_rank_1_pid_3_ts_20", 3),
    ):
        (tmp_path / f"dynamo_original_{stem}.py").write_text(listing(str(line), f"add:{operator}"))
    assert read_graph_text(str(text)).stacks == ({"Add_1": 'File "m.py", line 2, in forward'} if is_used else {})


@pytest.mark.parametrize(
    ("modules", "shown"),
    [
        ({"L__self__": ("L['self']", dict), "L__self___fc": ("L['self'].fc", "torch.nn.Linear")},
         "module L['self'].fc (torch.nn.Linear)"),
        ({"L__self__": ("", dict)}, "module dict"),
        ({}, None),
    ],
)  # fmt: skip
def test_a_text_may_have_the_modules_of_operators(tmp_path: Path, modules: object, shown: str | None) -> None:
    written = str(modules).replace("'", "\\'").replace('"', '\\"')
    text = f'op {{ name: "A" attr {{ key: "nn_module_stack" value {{ s: "{written}" }} }} }} op {{ name: "B" }}'
    (tmp_path / "g.txt").write_text(text)
    assert read_graph_text(str(tmp_path / "g.txt")).stacks == ({"A": shown} if shown else {})
    (tmp_path / "g.py").write_text(listing("7", "add:A", "8", "mul:B"))
    lines = {"A": 'File "m.py", line 7, in forward', "B": 'File "m.py", line 8, in forward'}
    assert read_graph_text(str(tmp_path / "g.txt")).stacks == (
        lines | {"A": f"{lines['A']}; {shown}"} if shown else lines
    )


def test_ranks_with_the_same_text_have_the_same_graph(tmp_path: Path) -> None:
    texts = {"a": "Add", "b": "Add", "c": "Mul"}
    for name, op_type in texts.items():
        (tmp_path / f"{name}.txt").write_text(graph_text("g", [TextNode("op", op_type)]))
    known: dict[bytes, TextGraph] = {}
    graphs = [read_graph_text(str(tmp_path / f"{name}.txt"), known) for name in texts]
    assert graphs[0] is graphs[1]
    assert [graph.operators["op"].op_type for graph in graphs] == ["Add", "Add", "Mul"]


def test_a_text_without_operators_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text('name: "graph_1"\n')
    with pytest.raises(InputError, match="no operators are in this graph text"):
        read_graph_text(str(path))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_graph_text(str(tmp_path / "nothing.txt"))
