"""Evidence from the elements of tensors in graph mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from opdiff.sample.graph_text import TextNode
from opdiff.workflows.compare import error_facts

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
    monkeypatch.setattr(error_facts, "_MAX_ELEMENTS", max_elements)
    assert IN_SLICE in bad_token.run().out.replace("\n  ", " ")
    judged = run(bad_token.capsys, "judge", bad_token.out).out.replace("\n  ", " ")
    assert IN_SLICE in judged
    assert ("estimated from 1,9" in judged) == (max_elements == 100)
