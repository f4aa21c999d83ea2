"""Slices of FFTS+ operators, and joining them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.read import read_operator
from opdiff.read.directory import scan
from opdiff.read.folder import read_folder
from opdiff.sample.container import EncodedDump, encode_tensor, standard_dump
from opdiff.sample.names import DumpName
from sliced_dumps import Cuts, SliceFile, automatic_slice, automatic_slices, manual_slices

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = np.arange(2 * 24 * 3, dtype=np.float32).reshape(2, 24, 3)
SIDE = np.arange(7, dtype=np.int32)
NAME = DumpName("Conv2D", "net_op", 3, 4, 1671234567890500)
DUMP = EncodedDump(outputs=(encode_tensor(WHOLE, dtypes.FLOAT32), encode_tensor(SIDE, dtypes.INT32)), op_name="net/op")
CUTS = Cuts(((1, 12, 1), (1,)))


def write(folder: Path, files: tuple[SliceFile, ...]) -> list[str]:
    paths = []
    for file in files:
        path = folder / file.name
        path.write_bytes(file.content)
        paths.append(str(path))
    return paths


def joined(folder: Path) -> Any:
    (found,) = scan(str(folder)).folders
    return read_folder(found)


@pytest.mark.parametrize("cut", [automatic_slices, manual_slices])
def test_slices_are_joined(cut: Any, tmp_path: Path) -> None:
    """Join twelve slices, which are sorted by number and not by name or timestamp."""
    write(tmp_path, cut(NAME, DUMP, CUTS, context_id=77))
    operators, problems = joined(tmp_path)
    assert problems == ()
    (operator,) = operators
    assert operator.name == "net_op"
    assert len(operator.files) == 12
    np.testing.assert_array_equal(operator.dump.outputs[0].array(), WHOLE)
    np.testing.assert_array_equal(operator.dump.outputs[1].array(), SIDE)
    assert operator.dump.outputs[0].notes == (because("read.joined", count=12, axis=1),)
    if cut is automatic_slices:
        assert operator.dump.outputs[0].spec.origin_shape == WHOLE.shape


@pytest.mark.parametrize("cut", [automatic_slices, manual_slices])
def test_single_slice_has_the_shape_of_the_slice(cut: Any, tmp_path: Path) -> None:
    paths = write(tmp_path, cut(NAME, DUMP, CUTS))
    operator = read_operator(paths[3])
    np.testing.assert_array_equal(operator.outputs[0].array(), WHOLE[:, 6:8])
    if cut is automatic_slices:
        assert operator.outputs[0].spec.origin_shape == ()


def test_newest_dump_of_a_slice_is_used(tmp_path: Path) -> None:
    newer = replace(DUMP, outputs=(encode_tensor(-WHOLE, dtypes.FLOAT32), DUMP.outputs[1]))
    write(tmp_path, automatic_slices(NAME, DUMP, CUTS))
    write(tmp_path, automatic_slices(replace(NAME, timestamp=NAME.timestamp + 100), newer, CUTS))
    (operator,), _ = joined(tmp_path)
    np.testing.assert_array_equal(operator.dump.outputs[0].array(), -WHOLE)


def test_missing_slice_raises(tmp_path: Path) -> None:
    write(tmp_path, automatic_slices(NAME, DUMP, CUTS)[:-1])
    operators, (problem,) = joined(tmp_path)
    assert operators == ()
    assert str(problem.reason) == "only 11 of 12 slices are present; they cannot be joined"


def test_undivided_operator_is_read_from_the_newest_file(tmp_path: Path) -> None:
    whole = Cuts(((1, 1, 1), (1,)))
    write(tmp_path, automatic_slices(NAME, DUMP, whole))
    (second,) = write(tmp_path, automatic_slices(replace(NAME, timestamp=NAME.timestamp + 5), DUMP, whole))
    (operator,), _ = joined(tmp_path)
    assert operator.dump.path == second


ATTR = {
    "threadMode": True,
    "slice_instance_num": 1,
    "outputCutList": [[1, 1, 1], [1]],
    "output_tensor_slice": [[[{"lower": 0, "higher": n} for n in (2, 24, 3)], [{"lower": 0, "higher": 7}]]],
}


def with_attr(attr: str) -> SliceFile:
    return SliceFile(str(automatic_slice(NAME, 77, 0)), standard_dump(replace(DUMP, attr=attr)))


def damaged(change: dict[str, Any]) -> SliceFile:
    return with_attr(json.dumps(ATTR | change))


@pytest.mark.parametrize("attr", [json.dumps(ATTR), "{}"], ids=["of the whole operator", "empty"])
def test_descriptions_without_division(attr: str, tmp_path: Path) -> None:
    (path,) = write(tmp_path, (with_attr(attr),))
    np.testing.assert_array_equal(read_operator(path).outputs[0].array(), WHOLE)


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (damaged({"output_tensor_slice": []}), "slice 0 has 2 tensors, but shapes are given for 0"),
        (damaged({"slice_instance_num": -1}), "the description of its slices is malformed"),
        (damaged({"output_tensor_slice": [[[{"lower": 0}]]]}), "the description of its slices is malformed"),
        (damaged({"outputCutList": 7}), "the description of its slices is malformed"),
    ],
    ids=["no shapes", "negative count", "no bound", "no list"],
)
def test_invalid_descriptions_raise(file: SliceFile, problem: str, tmp_path: Path) -> None:
    (path,) = write(tmp_path, (file,))
    with pytest.raises(DumpError, match=problem):
        read_operator(path)


@pytest.mark.parametrize("attr", ["not json", "[" * 100_000, "[1]", '{"threads": 1}'])
def test_description_of_other_files_is_ignored(attr: str, tmp_path: Path) -> None:
    dump = replace(DUMP, attr=attr)
    (tmp_path / str(NAME)).write_bytes(standard_dump(dump))
    assert len(read_operator(str(tmp_path / str(NAME))).outputs) == 2
    (path,) = write(tmp_path, (with_attr(attr),))
    with pytest.raises(DumpError, match="the description of its slices is malformed"):
        read_operator(path)


def test_slices_of_other_shapes_raise(tmp_path: Path) -> None:
    other = replace(DUMP, outputs=(encode_tensor(np.zeros((3, 24, 3), np.float32), dtypes.FLOAT32), DUMP.outputs[1]))
    files = manual_slices(NAME, DUMP, CUTS)
    write(tmp_path, (*files[:5], manual_slices(NAME, other, CUTS)[5], *files[6:]))
    _, (problem,) = joined(tmp_path)
    assert "of output 0 do not fit along axis 1" in str(problem.reason)
