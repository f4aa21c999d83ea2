"""Evidence from the elements of tensors in graph mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from command_line import run
from opdiff.report.html_page import write_html
from opdiff.sample.graph_text import TextNode
from opdiff.workflows.compare import examined_tensors
from opdiff.workflows.compare.saved import load_saved

if TYPE_CHECKING:
    from graph_dumps import GraphCase

GOOD = np.random.default_rng(1).normal(size=(4, 8, 60)).astype(np.float32)
BAD = GOOD.copy()
BAD[:, 3] = np.random.default_rng(2).normal(size=(4, 60))
IN_SLICE = "100% of the squared error is in slice 3 of the 8 along axis 1"


@pytest.fixture
def bad_token(case: GraphCase) -> GraphCase:
    """Two tokens; one slice of the output of `Add` is wrong in the second one."""
    case.text(TextNode("Add", "Add", output_fx=("add-aten.add.Tensor.OUTPUT.0",)))
    for token, target in enumerate((GOOD, BAD)):
        case.ge("Add", (), (target,), folder=f"worldsize1_global_rank0/20240130064151/0/graph_1_0/1/{token}")
        case.node("add-aten.add.Tensor", (), (GOOD,), folder=f"worldsize1_global_rank0/graph_1/{token}")
    return case


@pytest.mark.parametrize("max_elements", [1 << 22, 100], ids=["whole", "sample"])
def test_a_wrong_slice_is_located(bad_token: GraphCase, monkeypatch: pytest.MonkeyPatch, max_elements: int) -> None:
    monkeypatch.setattr(examined_tensors, "_MAX_ELEMENTS", max_elements)
    assert IN_SLICE in bad_token.run().out.replace("\n  ", " ")
    judged = run(bad_token.capsys, "judge", bad_token.out).out.replace("\n  ", " ")
    assert IN_SLICE in judged
    assert ("estimated from 1,9" in judged) == (max_elements == 100)


@pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
def test_few_elements_in_a_large_file(case: GraphCase, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    # A sparse file may be large for any number of elements.
    monkeypatch.setattr(examined_tensors, "MAX_LOADED_BYTES", 0)
    golden = np.ones(shape, np.float32)
    case.one(3 * golden, golden)
    done = case.run()
    assert (done.code, done.err) == (0, "")


def test_a_finding_without_units_is_reported(bad_token: GraphCase) -> None:
    bad_token.run()
    comparison = load_saved([str(bad_token.out)])
    findings = tuple(replace(finding, units=()) for finding in comparison.judgement.findings)
    assert findings
    judgement = replace(comparison.judgement, findings=findings)
    page = bad_token.root / "report.html"
    write_html(replace(comparison, judgement=judgement), str(page))
    assert page.read_bytes().rstrip().endswith(b"</html>")


def test_a_documented_fail_of_a_good_tensor_is_explained(case: GraphCase) -> None:
    golden = GOOD.astype(np.float16).astype(np.float32)
    golden[0, 0, 0] = 1e-9
    target = golden.astype(np.float16)
    target[0, 0, 0] = 1e-4
    case.one(target, golden)
    told = case.run().out.replace("\n  ", " ")
    assert "compared: 1 tensors, 0 PASS, 1 FAIL" in told
    verdict, why = "No operator is at fault: ", "1 of the 1 documented FAILs are of tensors within noise: "
    assert 0 < told.index(verdict) < told.index(why) < told.index("compared: ")
