"""Golden data under the names that people give it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dump_files import add
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError
from opdiff.read.golden_arrays import read_golden

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("conv1", "Conv_1", "block1/conv2", "pool", "a/b")


def write(folder: Path, *names: str) -> None:
    """Write arrays that hold their position in the list."""
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(folder / name, np.array([number], np.float32))


def contents(path: Path, names: tuple[str, ...] = NAMES) -> dict[str, dict[int, float]]:
    dump = read_golden(str(path), names)
    assert dump.kind is DumpKind.ARRAYS
    return {
        name: {number: float(tensor.array()[0]) for number, tensor in operator.outputs.items()}
        for name, operator in dump.operators.items()
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["conv1.npy", "pool.npy"], {"conv1": {0: 0}, "pool": {0: 1}}),
        (["conv1_0.npy", "conv1_1.npy"], {"conv1": {0: 0, 1: 1}}),
        (["Conv_1.npy", "pool_1.npy"], {"Conv_1": {0: 0}, "pool": {1: 1}}),
        (["conv1:0.npy"], {"conv1": {0: 0}}),
        (["block1/conv2.npy", "pool.npy"], {"block1_conv2": {0: 0}, "pool": {0: 1}}),
        (["run/5/conv1.npy", "run/5/a_b.npy"], {"conv1": {0: 0}, "a_b": {0: 1}}),
        (["x/conv1.0.npy", "y/pool.0.npy"], {"conv1": {0: 0}, "pool": {0: 1}}),
        (["conv1.npy", "unknown_7.npy"], {"conv1": {0: 0}, "unknown_7": {0: 1}}),
        (["conv1.0.npy", "other.npy"], {"conv1": {0: 0}}),
    ],
    ids=["bare", "underscore", "by the rules", "colon", "nested", "folders of a run", "several folders", "unknown",
         "documented names come first"],
)  # fmt: skip
def test_names_are_read_by_the_rules(tmp_path: Path, files: list[str], expected: dict[str, dict[int, float]]) -> None:
    write(tmp_path, *files)
    assert contents(tmp_path) == expected


@pytest.mark.parametrize("given", ["directory", "file"])
def test_an_archive_has_an_output_for_each_array(tmp_path: Path, given: str) -> None:
    arrays = {"conv1": 0, "pool_1": 1, "a/b:0": 2, "Conv_1": 3}
    made: dict[str, Any] = {name: np.array([number], np.float32) for name, number in arrays.items()}
    np.savez(tmp_path / "golden.npz", **made)
    path = tmp_path if given == "directory" else tmp_path / "golden.npz"
    assert contents(path) == {"conv1": {0: 0}, "pool": {1: 1}, "a_b": {0: 2}, "Conv_1": {0: 3}}


def test_without_rules_names_are_operators(tmp_path: Path) -> None:
    write(tmp_path, "conv_1.npy")
    assert contents(tmp_path, ()) == {"conv_1": {0: 0}}


def test_a_damaged_array_costs_its_operator(tmp_path: Path) -> None:
    write(tmp_path, "conv1.npy", "pool.npy")
    (tmp_path / "pool.npy").write_bytes(b"\x93NUMPY")
    dump = read_golden(str(tmp_path), NAMES)
    assert dump.operators["conv1"].problem is None
    assert dump.operators["pool"].problem is not None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["b.txt", "a.txt"], r"no dump files here \(2 other files, 0 left out\); found a.txt, b.txt; golden files are"),
        (["b.npy", "a.npy"], "operator of the rules, such as Conv_1, a/b, block1/conv2, …; found a.npy, b.npy; golden"),
    ],
    ids=["no arrays", "other names"],
)  # fmt: skip
def test_the_error_shows_names_found_and_expected(tmp_path: Path, files: list[str], message: str) -> None:
    write(tmp_path, *(name for name in files if name.endswith(".npy")))
    for name in files:
        if name.endswith(".txt"):
            (tmp_path / name).write_text("")
    with pytest.raises(InputError, match=message):
        read_golden(str(tmp_path), NAMES)


def test_other_dumps_stay_what_they_are(tmp_path: Path) -> None:
    add(tmp_path / "a", "Conv2D.c.1.2.1650000000000000")
    add(tmp_path / "b", "Conv2D.c.1.2.1650000000000000")
    with pytest.raises(InputError, match="several folders have dump files; give one of them: a, b"):
        read_golden(str(tmp_path), NAMES)


def test_of_two_names_of_one_output_the_other_one_is_named(tmp_path: Path) -> None:
    np.save(tmp_path / "conv.npy", np.zeros(2))
    np.save(tmp_path / "conv_0.npy", np.ones(2))
    found = read_golden(str(tmp_path), ["conv"])
    assert [str(file) for file in found.unused] == [
        f"{tmp_path / 'conv.npy'}: the operator has several dumps, and conv_0.npy is used"
    ]
    np.testing.assert_array_equal(found.operators["conv"].outputs[0].array(), np.ones(2))
    (tmp_path / "conv_0.npy").write_bytes(b"")
    assert not read_golden(str(tmp_path), ["conv"]).operators["conv"].outputs
