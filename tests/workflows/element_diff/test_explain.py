"""Explanations: known reorderings are named, and nothing is named without evidence."""

from __future__ import annotations

import re
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dump_files import TIME, add, dump, tensor
from made_dumps import numbers
from opdiff.core import dtypes
from opdiff.core.dump import side_tensor
from opdiff.core.error_facts import Explanation, ExplanationKind
from opdiff.core.pairing import OpLabel, Pairing
from opdiff.core.reasons import because
from opdiff.core.tensor import Declared, Slot, Tensor, TensorKey
from opdiff.read import read_operator
from opdiff.sample.container import EncodedTensor
from opdiff.sample.storage import store
from opdiff.workflows.element_diff.explain import explain
from opdiff.workflows.element_diff.explanation import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.codes import AnyArray

KEY = TensorKey("a", Slot.OUTPUT, 0)
LARGE = (2, 32, 32, 48)


def golden_tensor(folder: Path, values: AnyArray, name: str = "a.0.1.npy") -> Tensor:
    np.save(folder / name, values)
    return read_operator(str(folder / name)).outputs[0]


def explanations(
    folder: Path, target: EncodedTensor, golden: AnyArray, *candidates: AnyArray
) -> tuple[Explanation, ...]:
    path = add(folder, f"Op.a.1.2.{TIME}", dump(target))
    layout = "NCHW" if golden.ndim == 4 else ""
    both = side_tensor(KEY, read_operator(path).outputs[0]), side_tensor(KEY, golden_tensor(folder, golden))
    pairing = Pairing(OpLabel(0, 0, "Op", "a", "a"), *both, Declared(layout, golden.shape))
    others = [
        Candidate(TensorKey(f"other{number}", Slot.OUTPUT, 0), golden_tensor(folder, other, f"other{number}.0.1.npy"))
        for number, other in enumerate(candidates)
    ]
    return explain(pairing, others)


def holding(
    held: AnyArray, origin: tuple[int, ...], declared: str = "ND", shape: tuple[int, ...] = ()
) -> EncodedTensor:
    """Return a float32 tensor whose header contradicts its bytes."""
    return EncodedTensor(dtypes.FLOAT32, shape or origin, declared, np.ascontiguousarray(held).tobytes(), origin)


@pytest.mark.parametrize("order", list(permutations(range(3)))[1:], ids=str)
def test_every_axis_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    golden = numbers(3, 5, 7)
    wrong = np.ascontiguousarray(golden.transpose(order)).reshape(golden.shape)
    (found,) = explanations(tmp_path, tensor(wrong), golden)
    assert found.kind is ExplanationKind.AXIS_ORDER
    assert f"in the order ({', '.join(map(str, order))}) instead of (0, 1, 2)" in str(found.reason)
    assert found.after == 0.0
    assert found.before > 0.5
    assert (found.examined, found.is_sampled) == (105, False)


@given(shape=st.tuples(*[st.integers(2, 6)] * 3), noise=st.floats(0, 0.01), seed=st.integers(0, 99))
def test_axis_orders_are_found_despite_noise(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, ...], noise: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    golden = random.normal(size=shape).astype(np.float32)
    wrong = golden.swapaxes(1, 2).reshape(shape) * (1 + noise * random.uniform(-1, 1, shape))
    found = explanations(tmp_path_factory.mktemp("noise"), tensor(wrong.astype(np.float32)), golden)
    assert found
    assert all(item.after <= 0.05 and item.after <= item.before / 4 for item in found)


COLOURS = r"axis 1 \(C\).*RGB and BGR"
UNTILED = r"stored without tiles in the order \(C, H, W\), although NC1HWC0 is declared"
TILED = "stored as {}.*NCHW is declared"

# Shape, wrong tensor for the golden one, and the kind and the text of its explanation.
MISTAKES: dict[str, tuple[tuple[int, ...], Callable[[AnyArray], EncodedTensor], str, str]] = {
    "colours": ((1, 3, 6, 5), lambda x: tensor(x[:, [2, 1, 0]], layout="NCHW"), "channel order", COLOURS),
    "alpha": ((1, 4, 6, 5), lambda x: tensor(x[:, [2, 1, 0, 3]], layout="NCHW"), "channel order", COLOURS),
    "axis": ((6, 9), lambda x: tensor(x[:, ::-1]), "reversed axis", "^axis 1 is reversed$"),
    "bytes": ((6, 9), lambda x: holding(x.astype(">f4"), x.shape), "byte order", ""),
    "NC1HWC0": (LARGE, lambda x: holding(store(x, "NC1HWC0"), LARGE, "NCHW"), "layout", TILED.format("NC1HWC0")),
    "C1HWNC0": (LARGE, lambda x: holding(store(x, "C1HWNC0"), LARGE, "NCHW"), "layout", TILED.format("C1HWNC0")),
    "NZ": (LARGE, lambda x: holding(store(x, "FRACTAL_NZ"), LARGE, "NCHW"), "layout", TILED.format("FRACTAL_NZ")),
    "no tiles": ((1, 32, 4, 5), lambda x: holding(x, x.shape, "NC1HWC0", (1, 2, 4, 5, 16)), "layout", UNTILED),
    "other tiles": (
        (1, 64, 4, 5), lambda x: holding(store(x, "NC1HWC0", c0=32), x.shape, "NC1HWC0", (1, 4, 4, 5, 16)),
        "layout", "stored as NC1HWC0 with tiles of 32",
    ),
    "unknown": ((20, 9), lambda x: tensor(np.random.default_rng(5).permuted(x)), "unknown order", ""),
}  # fmt: skip


@pytest.mark.parametrize(("shape", "wrong", "kind", "text"), MISTAKES.values(), ids=MISTAKES)
def test_known_mistakes(
    tmp_path: Path, shape: tuple[int, ...], wrong: Callable[[AnyArray], EncodedTensor], kind: str, text: str
) -> None:
    golden = numbers(*shape)
    found, *others = explanations(tmp_path, wrong(golden), golden)
    assert (found.kind, found.after) == (kind, 0.0)
    assert re.search(text, str(found.reason))
    assert not others or kind == "layout"


def test_other_tensor(tmp_path: Path) -> None:
    golden, first, second = (numbers(6, 9, seed=seed) for seed in range(3))
    (found,) = explanations(tmp_path, tensor(second, dtypes.FLOAT16), golden, first, second, numbers(3, 3))
    assert (found.kind, found.reason) == (
        ExplanationKind.OTHER_TENSOR,
        because("workflows.other_tensor", tensor="other1:output:0"),
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda golden: golden, id="equal"),
        pytest.param(lambda golden: golden * np.float32(1.0005), id="noise"),
        pytest.param(lambda golden: golden * 2, id="scaled"),
        pytest.param(np.zeros_like, id="zero"),
        pytest.param(lambda golden: numbers(*golden.shape, seed=77), id="unrelated"),
        pytest.param(lambda golden: np.full_like(golden, np.nan), id="NaN"),
    ],
)
def test_no_explanation_without_evidence(tmp_path: Path, change: object) -> None:
    golden = numbers(6, 9)
    assert callable(change)
    assert explanations(tmp_path, tensor(change(golden)), golden, numbers(6, 9, seed=3)) == ()


@pytest.mark.parametrize("golden", [np.zeros((4, 5)), np.ones((4, 5)), np.arange(4.0).reshape(2, 2)])
def test_no_explanation_of_few_values(tmp_path: Path, golden: AnyArray) -> None:
    assert explanations(tmp_path, tensor(golden.astype(np.float32) * 3 + 1), golden.astype(np.float32)) == ()


def test_large_tensors_are_sampled(tmp_path: Path) -> None:
    golden = np.random.default_rng(0).normal(size=(3, 700, 800)).astype(np.float32)
    (found,) = explanations(tmp_path, tensor(golden.transpose(0, 2, 1).reshape(golden.shape)), golden)
    assert found.kind is ExplanationKind.AXIS_ORDER
    assert found.is_sampled
    assert found.examined <= 1 << 16
    assert found.total == golden.size
