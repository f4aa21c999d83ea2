"""Sentences of a comparison in Chinese: every one that the program can make has its form."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opdiff.core.sentences import TABLE, in_chinese

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(TABLE).parent.parent
CONTENT = json.loads(Path(TABLE).read_text(encoding="utf-8"))
SENTENCES: dict[str, str] = CONTENT["sentences"]

# Whatever is said about a row, its pairing, its layout or its operator is said in one of these files.
SPEAKING = [
    "report/judged.py",
    *(f"align/{path.name}" for path in sorted((PACKAGE / "align").glob("*.py"))),
    "measure/reference/blocks.py", "measure/metrics.py", "measure/kernel/library.py", "measure/kernel/results.py",
    "measure/reference/block_values.py", "workflows/compare/job.py",
    "core/errors.py", "core/source.py", "core/dtypes.py", "read/__init__.py", "read/arrays.py", "read/ascend.py",
    "read/cursor.py", "read/dump.py", "read/nano.py", "read/npz.py", "read/protowire.py", "read/slices.py",
    # Graph mode.
    "workflows/compare/graph_job.py",
    "read/rules/graph_text.py", "measure/graph_metrics.py", "read/graph/tree.py", "read/graph/token_files.py",
    "read/reduced.py", "read/statistics.py",
]  # fmt: skip
# What ends a command, or is no part of a row: nobody reads it on a page.
NOT_ON_PAGES = {
    "{} at byte {}: {}", "at byte {}", "a list of [[pair]] tables is expected, and nothing else",
    "{}: a table of texts is expected", "{}: {} means nothing here", "target, golden and layout do",
    "{}: both target and golden have to be given", "pairs: the {} has no {}", "its {}s are {}",
    "pairs: the {} has no operator {}{}", "not valid TOML: {}", "pair {}", "{} is paired twice",
    "OPDIFF_KERNEL: {} is not a kernel of this version", "`numpy` selects the reference",
    "the native kernel is not available", "{} NPU dumps and {} golden files are mixed here", "keep them in two folders",
    "not a directory, but a file", "give the directory that holds the dump files",
    "the name fits no pattern of dump files", "no dump files here ({} other files, {} left out)", "and {} more",
    "several folders have dump files", "give one of them: {}{}", "no files with data of tensors here",
    "converted from a dump that is here too", "the dump counts",
    # Graph mode: what ends the command, names of columns, and where in the user's code something is.
    "no graph{} to compare is here", "no token {} is here", "this is an FX dump",
    "the target is a dump of the graph engine, FX is the golden", "choose one with --rank",
    "has ranks {}, but {} does not tell ranks", "no common rank: the target has {}, the golden {}",
    "no graph text dynamo_original_graph_*.txt (or dynamo_optimized_graph_*.txt) is here",
    "without it operators cannot be assigned to FX", "there is no rank {} here, only {}",
    "give the directory of the dump", "no dump files of graph mode here ({} other files)",
    "Avg Value", "L2 Norm", "Max Value", "Min Value", "Nan Count", "Negative Inf Count", "Positive Inf Count",
    "Data Size", "Data Type", "shape and histogram are lists", "{} is not a number", 'File "{}", line {}, in {}',
    # The page has scenarios in a table of its own, and the advice in both languages.
    "GE with fusion off", "GE with fusion on against {}", "Look first at {} in {}.", "The checksums of {} are equal.",
    "The data itself was not compared.", "The statistics of {} agree.", "all {} tensors", "the one tensor",
}  # fmt: skip
# Pieces that are put together, each with a whole sentence that it is a part of.
COMPOSED = {
    "{}output {}": "conv1 was made from conv; output 0 is conv:0",
    "{} is {}": "output 0 is conv:0",
    "{} comes from {}": "input 1 comes from conv:0",
    "{} comes from {}, whose output is {}": "input 1 comes from conv1, whose output is conv:0",
    "{} passes on {}": "output 0 passes on trans, which passes on images:0",
    ", which passes on": "input 0 comes from cast, which passes on trans, which passes on images:0",
    "input {}": "input 0 comes from conv:0",
    "{} {} {}": "conv1conv1_relu is fused from conv1, conv1_relu; output 0 is conv1_relu:0",
    "is fused from": "conv1conv1_relu is fused from conv1, conv1_relu",
    "was made from": "conv1 was made from conv",
    "the golden side has no file of {}{}": "output 0 is a, but the golden side has no file of a; the nearest name is b",
    "the target's": "the target's file of conv cannot be read: the file is empty",
    "the golden": "the golden file of conv cannot be read: the file is empty",
    "golden side": "the golden side has no output 1 of conv; the target has 2 outputs and the golden side 1 output",
    "{} {}{}": "the target has no input 3 of conv; the target has 1 input and the golden side 4 inputs",
    "the rule file does not have this operator{}": "the rule file does not have this operator; the nearest name is b",
    "or": "of conv only inputs or outputs can be compared, and the target's file holds none",
    "at least 1": "layout NC1HWC0: C0, the last number of the stored shape [1], must be at least 1",
    ", {} padding elements cut": "FRACTAL_NZ [3, 1, 16, 16] -> [1, 48], 720 padding elements cut",
    "{} {} -> {}{}{}": "NC1HWC0 [1, 1, 4, 4, 16] -> NCHW [1, 3, 4, 4], 208 padding elements cut",
    "of {} groups": "layout FRACTAL_Z: origin shape [8, 4, 3, 3] does not fit stored shape [9, 1, 16, 16] of 2 groups, "
    "whether read as NCHW, HWCN",
    "golden tensor": "the cosine similarity is not defined: all the data of the golden tensor is zero",
    "not defined": "relative error 0.5, centred cosine not defined",
    "{}{}": "it was fused from conv1, conv1_relu; ConvReluFusionPass did that; its inputs are good, its output is not "
    "(relative error 0.31), and nothing simpler explains that",
    "{}: {} bytes are wanted here, but the file ends at {}": "/a.npy: 80 bytes are wanted here, but the file ends at 8",
    "{}: the file shrank while it was read": "/dump/a.npy: the file shrank while it was read",
    "{} {}: {}": "conversion '/own/c.py': /own/c.py returned 3, not an array",
    "are not numbers": "/golden/a.npy: elements of type '<U3' are not numbers: text",
    ": text": "/golden/a.npy: elements of type '|S3' are not numbers: text",
    ": Python objects would have to be unpickled, which can run foreign code": "a: elements of type '|O' are not "
    "numbers: Python objects would have to be unpickled, which can run foreign code",
    ": the name of the type was lost when the file was saved": "elements of type '|V4' are not numbers: the name "
    "of the type was lost when the file was saved",
    ": dates": "elements of type '<M8[s]' are not numbers: dates",
    ": time spans": "elements of type '<m8[s]' are not numbers: time spans",
    "elements of type {} {}{}": "elements of type '<f3' are not numbers",
    ", and the graph does not have it either": "the golden dump has no operator Add, and the graph does not have it "
    "either",
    "the golden dump has no operator {}{}": "the golden dump has no operator Add",
    "the last of {} ({})": "the last of Add + Mul (names in the graph, put together)",
    "input {} of {}, one of {} ({})": "input 1 of Add, one of Add + Mul (the end of a name in the graph)",
    "output {} of {}, which {} reads ({})": "output 0 of Add, which Mul reads (the beginning of a long name in the "
    "graph)",
    "target {} and golden {}": "target [2] and golden [1] have different shapes and were compared element by element",
    "{} have different shapes and were compared element by element": "target [2] and golden [1, 2] have different "
    "shapes and were compared element by element; paired with confidence 0.8: _fx_tensor_name add-aten.add.OUTPUT.0 of "
    "Add (the end of a name in the graph: block/Add); by the order of the outputs",
    ", the first is element {}": "3 elements are not finite on one side only or differ, the first is element 7",
    "{} elements are not finite on one side only or differ{}": "1 elements are not finite on one side only or differ, "
    "the first is element 0",
    "and no": "not a reduced dump: there is no array inputs and no outputs",
    "of rank {}": "there are texts of graph 1 of rank 0 from several processes: two runs may be mixed here; the newest "
    "text is used",
    "rank {}:": "rank 0: token 1: 2 files left out, such as /ge/1/odd: the name is that of another kind of file",
    "{}graph {}: the golden dump does not have it": "rank 0: graph 1: the golden dump does not have it; its rows have "
    "no partners",
    "{}graph {}: the target has no dump of it": "rank 0: graph 1: the target has no dump of it; not compared",
    "{}{} of the golden dump: the target has no text of it": "rank 0: model without name/3 of the golden dump: the "
    "target has no text of it",
    "{}{}: there is no graph text of it": "rank 0: graph folder 2: there is no graph text of it; not compared",
    "{}s": "the bytes end inside the section of inputs (byte 12)",
}
# Words that stand in every English sentence, and in no name.
ENGLISH = re.compile(
    r"(?<![\w/.'-])(the|of|is|are|and|no|not|with|from|than|by|was|were|at|has|have|to|in|on|which|its|it|that|but|be|"
    r"as|for|or|only|can|all|both)(?![\w/.'-])"
)


def pieces(path: Path) -> Iterator[str]:
    """What a file says: its texts with `{}` for values, cut where sentences are."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent |= {id(value) for value in node.values}
        if isinstance(node, ast.Subscript | ast.Call) and is_code(node):
            silent |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        if isinstance(node, ast.JoinedStr):
            yield from cut("".join(text_of(value) for value in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from cut(node.value)


def text_of(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else "{}"


def is_code(node: ast.Subscript | ast.Call) -> bool:
    """Whether it names things and says nothing: types for the type checker, and what is not to happen at all."""
    called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return called in ("cast", "AssertionError", "RuntimeError", "re.compile")


def cut(text: str) -> Iterator[str]:
    for piece in text.split("; "):
        said = piece.strip("; ")
        if " " in piece.strip() and re.search("[a-z]{2}", said) and not re.search(r"[\u4e00-\u9fff]", said):
            yield said


SAID = {name: sorted(set(pieces(PACKAGE / name))) for name in SPEAKING}


@pytest.mark.parametrize("name", SPEAKING)
def test_whatever_is_said_has_a_chinese_form(name: str) -> None:
    known = {*SENTENCES, *NOT_ON_PAGES, *COMPOSED, *CONTENT["words"]}
    assert [piece for piece in SAID[name] if piece not in known] == []


@pytest.mark.parametrize("text", COMPOSED.values())
def test_what_is_put_together_is_translated_as_a_whole(text: str) -> None:
    assert not ENGLISH.search(in_chinese(text)), in_chinese(text)


@pytest.mark.parametrize("english", SENTENCES)
def test_every_value_of_a_sentence_stands_in_the_chinese_one(english: str) -> None:
    count = english.count("{}")
    values = [f"value{number}" for number in range(count)]
    told = in_chinese(english.format(*values) if count else english)
    assert [value for value in values if value not in told] == []
    assert re.search(r"[\u4e00-\u9fff]|→", told)


def test_names_stay_names() -> None:
    assert in_chinese("the target has no file of input") == "目标侧没有 input 的文件"
    assert in_chinese("something of your own") == "something of your own"
    assert in_chinese("/a/b.npy: something of your own") == "/a/b.npy: something of your own"
    assert in_chinese("") == ""
