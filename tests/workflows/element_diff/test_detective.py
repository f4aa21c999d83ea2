"""What was done to a tensor is named, and nothing is named where nothing was done."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dump_files import TIME, add, dump, tensor
from made_dumps import numbers
from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.comparison import OpLabel, Pairing
from opdiff.core.dump import with_data
from opdiff.core.tensor import Slot, Tensor, TensorKey
from opdiff.read import read_operator
from opdiff.sample.container import EncodedTensor
from opdiff.sample.storage import store
from opdiff.workflows.element_diff.detective import Explanation, Suspect, What, investigate

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray

KEY = TensorKey("a", Slot.OUTPUT, 0)


def golden_tensor(folder: Path, values: AnyArray, name: str = "a.0.1.npy") -> Tensor:
    np.save(folder / name, values)
    return read_operator(str(folder / name)).outputs[0]


def asked(folder: Path, target: EncodedTensor, golden: AnyArray, *suspects: AnyArray) -> tuple[Explanation, ...]:
    path = add(folder, f"Op.a.1.2.{TIME}", dump(target))
    layout = "NCHW" if golden.ndim == 4 else ""
    both = with_data(KEY, read_operator(path).outputs[0]), with_data(KEY, golden_tensor(folder, golden))
    pairing = Pairing(OpLabel(0, 0, "Op", "a", "a"), *both, layout, golden.shape)
    others = [
        Suspect(f"other{number}:output:0", golden_tensor(folder, other, f"other{number}.0.1.npy"))
        for number, other in enumerate(suspects)
    ]
    return investigate(pairing, others)


def stored_as(values: AnyArray, layout: str, shape: tuple[int, ...], declared: str) -> EncodedTensor:
    """A tensor whose header says something else than its bytes."""
    held = store(elements.encode(values, dtypes.FLOAT32), layout, c0=16) if layout else values
    return EncodedTensor(dtypes.FLOAT32, shape, declared, np.ascontiguousarray(held).tobytes(), values.shape)


@pytest.mark.parametrize("order", list(permutations(range(3)))[1:], ids=str)
def test_every_order_of_axes(tmp_path: Path, order: tuple[int, ...]) -> None:
    golden = numbers(3, 5, 7)
    wrong = np.ascontiguousarray(golden.transpose(order)).reshape(golden.shape)
    (found,) = asked(tmp_path, tensor(wrong), golden)
    assert found.kind is What.AXES
    assert f"in the order {' '.join(map(str, order))}, not 0 1 2" in found.text
    assert found.after == 0.0
    assert found.before > 0.5
    assert (found.looked_at, found.is_sampled) == (105, False)


@given(shape=st.tuples(*[st.integers(2, 6)] * 3), noise=st.floats(0, 0.01), seed=st.integers(0, 99))
def test_orders_are_found_in_spite_of_noise(
    tmp_path_factory: pytest.TempPathFactory, shape: tuple[int, ...], noise: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    golden = random.normal(size=shape).astype(np.float32)
    wrong = golden.swapaxes(1, 2).reshape(shape) * (1 + noise * random.uniform(-1, 1, shape))
    found = asked(tmp_path_factory.mktemp("noise"), tensor(wrong.astype(np.float32)), golden)
    assert found
    assert all(item.after <= 0.05 and item.after <= item.before / 4 for item in found)


@pytest.mark.parametrize(("extent", "table"), [(3, [2, 1, 0]), (4, [2, 1, 0, 3])])
def test_colours(tmp_path: Path, extent: int, table: list[int]) -> None:
    golden = numbers(1, extent, 6, 5)
    (found,) = asked(tmp_path, tensor(golden[:, table], layout="NCHW"), golden)
    assert found.kind is What.CHANNELS
    assert "axis 1 (C)" in found.text
    assert "RGB and BGR" in found.text


def test_an_axis_that_runs_backwards(tmp_path: Path) -> None:
    golden = numbers(6, 9)
    (found,) = asked(tmp_path, tensor(golden[:, ::-1]), golden)
    assert (found.kind, found.text) == (What.REVERSED, "axis 1 runs backwards")


def test_bytes_in_the_opposite_order(tmp_path: Path) -> None:
    golden = numbers(6, 9)
    wrong = EncodedTensor(dtypes.FLOAT32, golden.shape, "ND", golden.astype(">f4").tobytes(), golden.shape)
    (found,) = asked(tmp_path, wrong, golden)
    assert found.kind is What.BYTES


@pytest.mark.parametrize("layout", ["NC1HWC0", "C1HWNC0", "FRACTAL_NZ"])
def test_data_in_another_layout_than_its_header_says(tmp_path: Path, layout: str) -> None:
    golden = numbers(2, 32, 32, 48)
    (found, *_) = asked(tmp_path, stored_as(golden, layout, golden.shape, "NCHW"), golden)
    assert found.kind is What.LAYOUT
    assert f"stored as {layout}" in found.text
    assert "declared NCHW" in found.text


def test_data_that_never_got_its_layout(tmp_path: Path) -> None:
    golden = numbers(1, 32, 4, 5)
    wrong = stored_as(golden, "", (1, 2, 4, 5, 16), "NC1HWC0")
    (found, *_) = asked(tmp_path, wrong, golden)
    assert found.kind is What.LAYOUT
    assert "stored plainly, in the order C H W, though it is declared NC1HWC0" in found.text


def test_tiles_of_another_size(tmp_path: Path) -> None:
    golden = numbers(1, 64, 4, 5)
    held = store(golden, "NC1HWC0", c0=32)
    wrong = EncodedTensor(
        dtypes.FLOAT32, (1, 4, 4, 5, 16), "NC1HWC0", np.ascontiguousarray(held).tobytes(), golden.shape
    )
    (found, *_) = asked(tmp_path, wrong, golden)
    assert "stored as NC1HWC0 with tiles of 32" in found.text


def test_another_tensor(tmp_path: Path) -> None:
    golden, first, second = (numbers(6, 9, seed=seed) for seed in range(3))
    (found,) = asked(tmp_path, tensor(second, dtypes.FLOAT16), golden, first, second, numbers(3, 3))
    assert (found.kind, found.text) == (What.OTHER, "this is the data of other1:output:0")


def test_an_order_that_is_not_known(tmp_path: Path) -> None:
    golden = numbers(20, 9)
    shuffled = np.random.default_rng(5).permutation(golden.reshape(-1)).reshape(golden.shape)
    (found,) = asked(tmp_path, tensor(shuffled), golden)
    assert found.kind is What.ORDER
    assert found.after == 0.0


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
def test_nothing_is_said_without_evidence(tmp_path: Path, change: object) -> None:
    golden = numbers(6, 9)
    assert callable(change)
    assert asked(tmp_path, tensor(change(golden)), golden, numbers(6, 9, seed=3)) == ()


@pytest.mark.parametrize("golden", [np.zeros((4, 5)), np.ones((4, 5)), np.arange(4.0).reshape(2, 2)])
def test_too_little_to_tell(tmp_path: Path, golden: AnyArray) -> None:
    assert asked(tmp_path, tensor(golden.astype(np.float32) * 3 + 1), golden.astype(np.float32)) == ()


def test_large_tensors_are_sampled(tmp_path: Path) -> None:
    golden = np.random.default_rng(0).normal(size=(3, 700, 800)).astype(np.float32)
    (found,) = asked(tmp_path, tensor(golden.transpose(0, 2, 1).reshape(golden.shape)), golden)
    assert found.kind is What.AXES
    assert found.is_sampled
    assert found.looked_at <= 1 << 16
    assert found.count == golden.size
