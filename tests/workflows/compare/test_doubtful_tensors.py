"""Tensors whose description contradicts itself, the rule file or the other side: measured, explained, nobody blamed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import tensor
from made_dumps import Case, describe, numbers, rule
from opdiff.core import dtypes

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.sample.container import EncodedTensor

VALUES = numbers(16, 32)
RIGHT = tensor(VALUES, dtypes.FLOAT16)


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Case:
    """A comparison with operator `b`, which is right: something is compared in any case."""
    made = Case(tmp_path, capsys)
    made.npu("b", VALUES)
    return made


def stated(case: Case, **changes: object) -> Path:
    """Write the rules of operator `a`, whose output is described as it is stored."""
    described = describe("a", 0, layout="ND", shape=(16, 32), dtype="DT_FLOAT16")
    stored = {"layout": "ND", "shape": {"dim": [16, 32]}}
    return case.rules(rule("a", outputs=(described | stored | changes,)), rule("b", outputs=(describe("b", 0),)))


def compared(
    case: Case, target: EncodedTensor, golden: AnyArray, rules: Path
) -> tuple[dict[str, str], dict[str, object]]:
    """Compare one operator; return its row, and the answer in JSON."""
    case.npu("a", target)
    case.npy("a", golden)
    case.npy("b", VALUES)
    row = case.compared("-fr", rules, "--json", case.out / "answer.json").row("a:output:0")
    return row, json.loads((case.out / "answer.json").read_text())


def test_agreeing_tensor_is_not_doubtful(case: Case) -> None:
    row, _ = compared(case, RIGHT, VALUES, stated(case))
    assert (row["CompareFailReason"], row["Level"]) == ("", "exact")


@pytest.mark.parametrize(
    ("target", "changes", "reason"),
    [
        (
            replace(RIGHT, payload=RIGHT.payload * 2),
            {},
            "its data has 2048 bytes, of which [16, 32] elements of float16",
        ),
        (replace(RIGHT, origin_shape=(16, 33)), {}, "the origin shape [16, 33] does not have as many elements"),
        (replace(RIGHT, dtype=dtypes.BFLOAT16), {}, "its element type is bfloat16 in the dump, float16 in the model"),
        (RIGHT, {"layout": "FRACTAL_NZ"}, "its layout is ND in the dump, FRACTAL_NZ in the model"),
        (RIGHT, {"shape": {"dim": [32, 16]}}, "its stored shape is [16, 32] in the dump, [32, 16] in the model"),
    ],
    ids=["surplus", "origin shape", "type", "layout", "stored shape"],
)
def test_contradiction_is_the_reason_and_nobody_is_blamed(
    case: Case, target: EncodedTensor, changes: dict[str, object], reason: str
) -> None:
    # The numbers are wrong, and in a sound dump operator `a` would be at fault.
    row, answer = compared(case, target, -VALUES, stated(case, **changes))
    assert row["CompareFailReason"].startswith("doubtful, the target contradicts itself or its description: ")
    assert reason in row["CompareFailReason"]
    assert row["Level"] == "not comparable"
    assert row["CosineSimilarity"] != "NaN"
    assert not answer["findings"]


def test_sound_dump_with_the_same_numbers_is_blamed(case: Case) -> None:
    row, answer = compared(case, RIGHT, -VALUES, stated(case))
    assert (row["CompareFailReason"], row["Level"]) == ("", "wrong")
    assert answer["findings"]


@pytest.mark.parametrize("dtype", [dtypes.INT16, dtypes.BFLOAT16])
def test_types_of_two_dumps_contradict_each_other_if_the_numbers_differ(case: Case, dtype: dtypes.DType) -> None:
    case.npu("a", replace(RIGHT, dtype=dtype))
    case.npu_golden("a", RIGHT)
    case.npu_golden("b", VALUES)
    row = case.compared().row("a:output:0")
    expected = (
        f"doubtful, the element types contradict each other and so do the numbers: target {dtype}, golden float16"
    )
    assert (row["CompareFailReason"], row["Level"]) == (expected, "not comparable")


def test_integers_that_equal_floats_are_not_doubtful(case: Case) -> None:
    whole = np.arange(1, 65, dtype=np.float32)
    case.npu("a", tensor(whole, dtypes.INT32))
    case.npu_golden("a", tensor(whole))
    case.npu_golden("b", VALUES)
    assert case.compared().row("a:output:0")["CompareFailReason"] == ""


def test_bytes_after_an_array_are_doubtful(case: Case) -> None:
    row, _ = compared(case, RIGHT, VALUES, stated(case))
    assert row["CompareFailReason"] == ""
    (path,) = case.golden.glob("a.*")
    path.write_bytes(path.read_bytes() + b"rest")
    row = case.compared("-fr", stated(case)).row("a:output:0")
    assert "the golden contradicts itself" in row["CompareFailReason"]
    assert "its data has 2052 bytes" in row["CompareFailReason"]
