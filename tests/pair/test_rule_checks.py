"""Doubts about rule files."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from opdiff.core.graph import ModelOrigin, RuleFile, RuleGraph, RuleOp
from opdiff.core.reasons import Reason, because
from opdiff.pair import Rules
from opdiff.pair.scenario import rule_notes

FUSED = (("c1", "r1"), ("c2", "r2"), ("fc",), ("",))
APART = (("c1",), ("r1",), ("c2",), ("r2",), ("fc",))
SWITCH = ("atc", "--model=net.onnx", "--fusion_switch_file=off.cfg")


def rules(name: str, groups: tuple[tuple[str, ...], ...], command: tuple[str, ...] = (), model: str = "") -> RuleFile:
    operators = tuple(
        RuleOp(f"op{number}", "A", originals=originals, has_originals=True) for number, originals in enumerate(groups)
    )
    return RuleFile(f"/somewhere/{name}", (RuleGraph("g", operators),), ModelOrigin(model, command))


@pytest.mark.parametrize(
    ("fusion_off", "expected"),
    [
        (rules("off.om", APART), ()),
        (rules("off.om", APART, ("atc", "--model=net.onnx")), ()),
        (rules("off.om", (*APART, ("bn", "scale")), SWITCH), ()),
        (rules("off.om", FUSED), (because("pair.fused_alike", path="off.om", alike=2, count=2),)),
        (rules("off.om", FUSED, SWITCH), (because("pair.fused_alike", path="off.om", alike=2, count=2),)),
        (rules("off.om", FUSED, ("atc", "--mode", "0")), (because("pair.no_fusion_switch", path="off.om", count=2),)),
        (
            rules("off.om", (("x",), ("y",), ("c1",)), ("atc", "--model", "other.onnx")),
            (because("pair.different_models", common=1, count=3, first="net.onnx", second="other.onnx"),),
        ),
        (
            rules("off.om", (("x",), ("y",)), model="other"),
            (because("pair.different_models", common=0, count=2, first="net.onnx", second="other"),),
        ),
        (
            rules("off.om", (("x",), ("y",))),
            (because("pair.different_models", common=0, count=2, first="net.onnx", second="off.om"),),
        ),
    ],
)
def test_doubts_about_the_model_without_fusion(fusion_off: RuleFile, expected: tuple[Reason, ...]) -> None:
    fusion = rules("on.om", FUSED, ("atc", "--model=net.onnx"))
    assert rule_notes(Rules(fusion, fusion_off)) == expected


def test_one_file_raises_no_doubt() -> None:
    assert rule_notes(Rules(rules("on.om", FUSED))) == ()


def test_notes_of_the_readers_name_the_file() -> None:
    note = because("read.flow_model")
    file = replace(rules("on.om", FUSED), notes=(note,))
    assert rule_notes(Rules(file)) == (because("core.in_file", path="/somewhere/on.om", problem=note),)
