"""Dumps of one folder: choice of the folder, kind, and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from dump_files import TIME, add, dump, tensor
from opdiff.core.dump import DumpKind, SkippedPath
from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.dump import read_dump

if TYPE_CHECKING:
    from pathlib import Path

VALID_DUMP = dump(tensor([1.0, 2.0]), inputs=(tensor([3.0, 4.0]),))


def save(folder: Path, name: str, *values: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / name, np.array(values, np.float32))


def test_npu_dump(tmp_path: Path) -> None:
    for name in (f"Sub.b.1.2.{TIME + 5}", f"Add.a.1.2.{TIME}", f"Add.a.1.2.{TIME + 1}"):
        add(tmp_path, name, VALID_DUMP)
    add(tmp_path, f"Mul.c.1.2.{TIME + 2}", VALID_DUMP[:-1])
    found = read_dump(str(tmp_path))
    assert (found.kind, found.quantized) == (DumpKind.NPU, False)
    assert list(found.operators) == ["a", "c", "b"]
    newest = found.operators["a"]
    assert (newest.op_type, newest.timestamp) == ("Add", TIME + 1)
    assert sorted(newest.inputs) == sorted(newest.outputs) == [0]
    broken = found.operators["c"]
    assert "it is truncated" in str(broken.problem)
    assert not broken.outputs


def test_golden_arrays(tmp_path: Path) -> None:
    save(tmp_path, f"a.0.{TIME}.npy", 1.0)
    save(tmp_path, f"a.0.{TIME + 1}.npy", 2.0)
    save(tmp_path, f"a.2.{TIME}.npy", 3.0)
    add(tmp_path, f"a.1.{TIME}.npy", b"nothing")
    found = read_dump(str(tmp_path))
    assert found.kind is DumpKind.ARRAYS
    operator = found.operators["a"]
    assert sorted(operator.outputs) == [0, 2]
    np.testing.assert_array_equal(operator.outputs[0].array(), [2.0])
    assert str(operator.problem).startswith(f"a.1.{TIME}.npy: not a NumPy array")


def test_converted_dumps_are_read_as_a_dump(tmp_path: Path) -> None:
    save(tmp_path, f"Add.a.1.2.{TIME}.output.1.npy", 1.0)
    save(tmp_path, f"Add.a.1.2.{TIME}.input.0.1x1.npy", 2.0)
    found = read_dump(str(tmp_path))
    assert found.kind is DumpKind.NPU
    operator = found.operators["a"]
    assert (operator.op_type, sorted(operator.inputs), sorted(operator.outputs)) == ("Add", [0], [1])


def test_dump_takes_precedence_over_converted_files(tmp_path: Path) -> None:
    add(tmp_path, f"Add.a.1.2.{TIME}", VALID_DUMP)
    save(tmp_path, f"Add.a.1.2.{TIME}.output.0.npy", 9.0)
    found = read_dump(str(tmp_path))
    np.testing.assert_array_equal(found.operators["a"].outputs[0].array(), [1.0, 2.0])
    assert [problem.reason for problem in found.skipped] == [because("read.converted_twice")]


def test_names_are_shortened_only_if_unambiguous(tmp_path: Path) -> None:
    for number in range(2):
        add(tmp_path, f"Add.g_sgt_graph_{number}_conv.1.2.{TIME + number}", VALID_DUMP)
    assert list(read_dump(str(tmp_path)).operators) == ["g_sgt_graph_0_conv", "g_sgt_graph_1_conv"]


QUANTIZED = [
    "Op.conv1_quant_layer", "Op.x_AscendDequant", "Op.a_anti_quant", "Op.b_dequant", "Op.c_quantized_1",
    "AscendQuant.x", "AscendDequant.x", "AscendAntiQuant.x", "AscendRequantS16.x",
]  # fmt: skip


@pytest.mark.parametrize("name", [*QUANTIZED, "Op.head_quantity", "Op.my_quantile", "Op.quant"])
def test_quantization_is_known_by_names_and_types(name: str, tmp_path: Path) -> None:
    add(tmp_path, f"{name}.1.2.{TIME}", VALID_DUMP)
    assert read_dump(str(tmp_path)).quantized == (name in QUANTIZED)


def test_sub_graph_prefixes_with_and_without_rules(tmp_path: Path) -> None:
    add(tmp_path, f"Add.g_sgt_graph_0_a_lxslice1.1.2.{TIME}", VALID_DUMP)
    assert list(read_dump(str(tmp_path)).operators) == ["a"]
    assert list(read_dump(str(tmp_path), with_rules=True).operators) == ["g_sgt_graph_0_a"]


def test_files_below_are_used_if_the_directory_has_none(tmp_path: Path) -> None:
    below = tmp_path / "20240115103052" / "0" / "net" / "1" / "0"
    add(below, f"Add.b.1.2.{TIME}", VALID_DUMP)
    add(tmp_path, "README.txt", b"x")
    assert read_dump(str(tmp_path)).path == str(below)
    add(tmp_path, f"Add.a.1.2.{TIME}", VALID_DUMP)
    assert list(read_dump(str(tmp_path)).operators) == ["a"]


def _several(root: Path) -> None:
    for number in range(7):
        add(root / str(number), f"Add.a.1.2.{TIME}", VALID_DUMP)


def _mixed(root: Path) -> None:
    add(root, f"Add.a.1.2.{TIME}", VALID_DUMP)
    save(root, f"a.0.{TIME}.npy", 1.0)


def _none(root: Path) -> None:
    add(root, "README.txt", b"x")
    add(root, f"Opdebug.Node_OpDebug.1.2.{TIME}", VALID_DUMP)


@pytest.mark.parametrize(
    ("fill", "problem"),
    [
        (_several, "several folders have dump files; give one of them: 0, 1, 2, 3, 4 and 2 more"),
        (_mixed, "1 NPU dumps and 1 golden files are mixed here; keep them in two folders"),
        (_none, "no dump files here (2 other files, 0 left out)"),
    ],
)
def test_directories_without_one_dump_raise(fill: object, problem: str, tmp_path: Path) -> None:
    assert callable(fill)
    fill(tmp_path)
    with pytest.raises(InputError) as caught:
        read_dump(str(tmp_path))
    assert str(caught.value.problem) == problem


def test_skipped_files_are_listed(tmp_path: Path) -> None:
    add(tmp_path, f"Add.a.1.2.{TIME}", VALID_DUMP)
    add(tmp_path, f"Add.b.1.2.{TIME}.tmp", VALID_DUMP)
    add(tmp_path, "1234567890", VALID_DUMP)
    add(tmp_path / "below", "README", b"")
    assert read_dump(str(tmp_path)).skipped == (
        SkippedPath(str(tmp_path / "1234567890"), because("read.hash_not_mapped"), is_hash=True),
        SkippedPath(str(tmp_path / f"Add.b.1.2.{TIME}.tmp"), because("read.unknown_name")),
    )


INPUTS, OUTPUTS = dump(inputs=(tensor([3.0, 4.0]),)), dump(tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("files", "inputs", "outputs", "unused"),
    [
        (("I", "O"), 0, 1, ()),
        (("I", "O", "I", "O"), 2, 3, (0, 1)),
        (("O", "I"), 1, None, (0,)),
        (("I", "O", "I"), 2, None, (0, 1)),
        (("I", "O", "O"), None, 2, (0, 1)),
        (("I", "IO"), 1, 1, (0,)),
        (("-", "O"), None, 1, (0,)),
    ],
)
def test_inputs_and_outputs_of_one_execution_are_joined(
    tmp_path: Path, files: tuple[str, ...], inputs: int | None, outputs: int | None, unused: tuple[int, ...]
) -> None:
    contents = {"I": INPUTS, "O": OUTPUTS, "IO": VALID_DUMP, "-": INPUTS[:-1]}
    paths = [add(tmp_path, f"HcomAllReduce.a.1.2.{TIME + n}", contents[kind]) for n, kind in enumerate(files)]
    found = read_dump(str(tmp_path))
    operator = found.operators["a"]
    assert [tensor.source.path for tensor in operator.inputs.values()] == ([] if inputs is None else [paths[inputs]])
    assert [tensor.source.path for tensor in operator.outputs.values()] == ([] if outputs is None else [paths[outputs]])
    assert sorted(file.path for file in found.unused) == [paths[number] for number in unused]
    assert (operator.timestamp, operator.problem) == (TIME + len(files) - 1, None)


@pytest.mark.parametrize("other", ["HcomBroadcast.a.1.2", "HcomAllReduce.a.7.2", "HcomAllReduce.a.1.7"])
def test_files_of_other_types_tasks_and_streams_are_not_joined(tmp_path: Path, other: str) -> None:
    path = add(tmp_path, f"{other}.{TIME}", INPUTS)
    add(tmp_path, f"HcomAllReduce.a.1.2.{TIME + 1}", OUTPUTS)
    found = read_dump(str(tmp_path))
    assert not found.operators["a"].inputs
    assert [str(file) for file in found.unused] == [
        f"{path}: the operator has several dumps, and HcomAllReduce.a.1.2.{TIME + 1} is used"
    ]


def test_earlier_arrays_are_named(tmp_path: Path) -> None:
    save(tmp_path, f"a.0.{TIME}.npy", 1.0)
    save(tmp_path, f"a.0.{TIME + 1}.npy", 2.0)
    save(tmp_path, f"a.1.{TIME}.npy", 2.0)
    assert [file.path for file in read_dump(str(tmp_path)).unused] == [str(tmp_path / f"a.0.{TIME}.npy")]
