"""Every attribute, option and signature that `docs/python.md` documents exists."""

from __future__ import annotations

import inspect
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdiff
from markdown_tables import tables_of
from onnx_models import model, node, value, write
from opdiff.cli.parsers import command_parser
from opdiff.core.comparison import Row
from opdiff.core.dump import GraphOp, SideTensor
from opdiff.core.judgement import Finding
from opdiff.core.tensor import Slot
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.sample.stages import write_stage_sample

TEXT = (Path(__file__).parent.parent / "docs" / "python.md").read_text()
_CODE = re.compile(r"`([^`]+)`")
_SIGNATURE = re.compile(r"^`opdiff\.(\w+)(\([^`]*\))`", re.MULTILINE)
# Classes of options by the functions that take their fields.
_OPTIONS = {"compare": "CompareOptions", "golden": "GoldenOptions", "topn": "TopnOptions", "stages": "StagesOptions"}
# Command of each class of options.
_COMMANDS = {
    "opdiff.CompareOptions": "compare",
    "opdiff.GoldenOptions": "golden",
    "opdiff.TopnOptions": "topn",
    "opdiff.StagesOptions": "stages",
}


# Fields of tensors that only comparisons use.
INTERNAL = {"data", "location", "stated", "tensor"}
ATTRIBUTES = [
    (owner.strip("`"), name)
    for (owner, *_), rows in tables_of(TEXT)
    if owner.endswith(".`")
    for row in rows
    for name in _CODE.findall(row[0])
]
OPTIONS = [
    (owner.strip("`"), field, option)
    for (owner, *_), rows in tables_of(TEXT)
    if owner.strip("`") in _COMMANDS
    for row in rows
    for field, option in zip_longest(_CODE.findall(row[0]), _CODE.findall(row[1]))
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of all functions, by their names on the page."""
    folder = tmp_path_factory.mktemp("results")
    sample = write_sample(str(folder / "sample"))
    comparison = opdiff.compare(sample.target, sample.golden, rules=sample.rules)
    graph_sample = write_graph_sample(str(folder / "graphs"))
    graphs = opdiff.compare(graph_sample.target, graph_sample.golden)
    staged = write_stage_sample(str(folder / "staged"), ["conversion"])
    chain = opdiff.stages(
        [staged.original, staged.fusion_on], rules=staged.fusion_on_rules, quant_rules=staged.quant_rules
    )
    dump = opdiff.open(sample.target)
    return {
        "comparison": comparison,
        "dump": dump,
        "tensor": dump["context/pool"].outputs[0],
        "row": next(row for row in comparison if row.metrics is not None and row.is_output),
        "graphs": graphs,
        "chain": chain,
        "data": golden_data(folder),
        "result": flipped_classes(folder),
    }


def golden_data(folder: Path) -> Any:
    """Run a model, one output of which has no file."""
    nodes = [node("SplitToSequence", "x", "s", "split"), node("Relu", "x", "y", "relu")]
    write(folder / "m.onnx", model(nodes, [value("x")]))
    np.save(folder / "x.npy", np.ones((2, 3), np.float32))
    return opdiff.golden(folder / "m.onnx", folder / "golden", inputs={"x": folder / "x.npy"})


def flipped_classes(folder: Path) -> Any:
    """Compare scores of two samples with labels, one of which changes its class."""
    scores = np.eye(2, 10, dtype=np.float32)
    np.save(folder / "golden.npy", scores)
    np.save(folder / "target.npy", scores[:, ::-1])
    (folder / "labels.txt").write_text("0\n1\n")
    return opdiff.topn(folder / "target.npy", folder / "golden.npy", labels=folder / "labels.txt")


@pytest.mark.parametrize(("owner", "name"), ATTRIBUTES)
def test_attributes(results: dict[str, Any], owner: str, name: str) -> None:
    name, bracket, rest = name.partition("(")
    found = eval(owner + name, {}, results)  # noqa: S307  a page of ours
    if bracket:
        assert plain(inspect.signature(found)) == f"({rest}"


@pytest.mark.parametrize(("owner", "field", "option"), OPTIONS)
def test_options(owner: str, field: str, option: str | None) -> None:
    assert field in getattr(opdiff, owner.removeprefix("opdiff.")).__struct_fields__
    known = [name for action in command_parser(_COMMANDS[owner]).actions for name in action.option_strings]
    assert option is None or option in known


@pytest.mark.parametrize(("function", "signature"), _SIGNATURE.findall(TEXT))
def test_signatures(function: str, signature: str) -> None:
    """The fields of options, for which an ellipsis stands, are those of their table."""
    found = inspect.signature(getattr(opdiff, function))
    written, ellipsis, _ = signature.partition(", …)")
    if not ellipsis:
        assert plain(found) == written
        return
    assert plain(found).startswith(f"{written}, ")
    own = set(inspect.signature(inspect.unwrap(getattr(opdiff, function))).parameters) - {"fields"}
    documented = [field for owner, field, _ in OPTIONS if owner == f"opdiff.{_OPTIONS[function]}"]
    assert sorted(set(found.parameters) - own) == sorted(documented)


def plain(signature: inspect.Signature) -> str:
    """Return a signature without types."""
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


def test_everything_public_is_documented(results: dict[str, Any]) -> None:
    documented = {(owner, re.split(r"[.\[(]", name)[0]) for owner, name in ATTRIBUTES}
    members = {name for name in dir(opdiff.Comparison) if not name.startswith("_")}
    assert {name for owner, name in documented if owner == "comparison."} == members
    members = {name for name in dir(results["dump"]) if not name.startswith("_")}
    assert {name for owner, name in documented if owner == "dump."} == members
    operator_fields = {name for owner, name in documented if owner == 'dump["context/pool"].'}
    assert {*GraphOp.__struct_fields__, "find_output"} == operator_fields
    members = {name for name in dir(SideTensor) if not name.startswith("_")}
    assert {name for owner, name in documented if owner == "tensor."} == members - INTERNAL
    rows = {name for owner, name in documented if owner in ("row.", "graphs[0].")}
    assert set(Row.__struct_fields__) <= rows
    finding_fields = {name for owner, name in documented if owner == "comparison.findings[0]."}
    assert set(Finding.__struct_fields__) - {"passes", "buffer_passes"} == finding_fields
    assert results["row"].key.slot is Slot.OUTPUT
    assert {name for name in opdiff.__all__ if name.islower()} - {"__version__"} == {
        name for name, _ in _SIGNATURE.findall(TEXT)
    }
