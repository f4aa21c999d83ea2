"""`golden --for RULES --only-needed`: what a comparison looks up, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import opdiff
from command_line import run
from dump_files import add, dump, tensor
from made_dumps import describe, rule, rule_file
from onnx_models import files_of, golden, model, node, write
from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
OPERATORS = (
    rule("x", "Data", outputs=(describe("x", 0),)),
    rule("negrelu", "Conv2D", originals=("neg", "a/relu"), inputs=("x:0",), outputs=(describe("a/relu", 0),)),
    rule("trans_TransData_1", "TransData", originals=(), inputs=("negrelu:0",), outputs=(describe(),)),
    rule("abs", "Abs", inputs=("trans_TransData_1:0",), outputs=(describe("abs", 0),)),
)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A chain of which the compiler fused the first two operators, and left out the last."""
    (tmp_path / "rules.json").write_text(json.dumps(rule_file(*OPERATORS)))
    names = (("Neg", "neg"), ("Relu", "a/relu"), ("Abs", "abs"), ("Identity", "copy"))
    tensors = ("x", *"abcd")
    nodes = [
        node(op_type, source, result, name)
        for (op_type, name), source, result in zip(names, tensors, tensors[1:], strict=False)
    ]
    return write(tmp_path / "m.onnx", model(nodes))


def test_only_what_a_comparison_looks_up(net: Path, tmp_path: Path) -> None:
    result = golden(net, tmp_path / "g", inputs={"x": X}, rules=str(tmp_path / "rules.json"), only_needed=True)
    assert set(files_of(tmp_path / "g")) == {"x.0", "a_relu.0", "abs.0"}
    assert {item.name: item.reason.code for item in result.omitted} == {
        "neg": "golden.not_needed", "copy": "golden.not_needed",
    }  # fmt: skip


def test_the_comparison_is_the_same_as_with_all_operators(net: Path, tmp_path: Path) -> None:
    add(tmp_path / "npu", "Conv2D.negrelu.1.0.1650000000000000", dump(tensor(np.maximum(-X, 0))))
    add(tmp_path / "npu", "Abs.abs.2.0.1650000000000001", dump(tensor(np.maximum(-X, 0) + 1)))
    rules = tmp_path / "rules.json"
    rows = []
    for folder, is_narrow in (("all", False), ("narrow", True)):
        golden(net, tmp_path / folder, inputs={"x": X}, rules=str(rules), only_needed=is_narrow)
        compared = opdiff.compare(tmp_path / "npu", tmp_path / folder, rules=rules)
        rows.append([(str(row.key), row.metrics, row.reason) for row in compared.rows])
    assert rows[0] == rows[1]
    assert sum(metrics is not None for _, metrics, _ in rows[0]) == 2


def test_other_selections_hold_as_well(net: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"rules": str(tmp_path / "rules.json"), "only_needed": True}
    golden(net, tmp_path / "g", inputs={"x": X}, only=("a*",), until="a/relu", **given)
    assert set(files_of(tmp_path / "g")) == {"x.0", "a_relu.0"}


def test_rules_of_another_model_are_refused(net: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(json.dumps(rule_file(rule("other", outputs=(describe("other", 0),)))))
    with pytest.raises(UsageError, match=r"rules\.json asks for no operator of this model"):
        golden(net, tmp_path / "g", inputs={"x": X}, rules=str(tmp_path / "rules.json"), only_needed=True, force=True)


def test_rules_are_required(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "golden", net, "--random", 1, "-o", tmp_path / "g", "--only-needed")
    assert (done.code, "--only-needed requires --for" in done.err) == (2, True)


def test_kept_data_depends_on_the_rules(net: Path, tmp_path: Path) -> None:
    """Golden data that is found again must have what these rules ask for."""
    given: dict[str, Any] = {"inputs": {"x": X}, "rules": str(tmp_path / "rules.json"), "reuse": True}
    folders = {golden(net, tmp_path / "kept", only_needed=narrow, **given).folder for narrow in (True, False)}
    (tmp_path / "rules.json").write_text(json.dumps(rule_file(*OPERATORS[:2])))
    folders.add(golden(net, tmp_path / "kept", only_needed=True, **given).folder)
    assert len(folders) == 3
