"""One run of a model whose results are computed into mapped NumPy files.

    types ──► shapes (known by the session, or from a first run that fetches shapes only) ──► files ──► run

Memory holds the model and the tensors that are needed at one time; results are pages of files.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.atomic_file import name_in_errors, open_atomic
from opdiff.core.errors import InputError
from opdiff.core.formatting import size
from opdiff.core.reasons import because
from opdiff.workflows.golden.mapped_arrays import create_array, resident_file_nbytes
from opdiff.workflows.golden.onnx_encoder import node
from opdiff.workflows.golden.runtime import BoundOutput, output_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.mapped_arrays import MappedArray
    from opdiff.workflows.golden.original import OriginalModel
    from opdiff.workflows.golden.runtime import Runner, TensorType

    Progress = Callable[[int, int], None]

# Element types that NumPy has: number in ONNX and type string.
_WRITTEN = {
    "float": (1, "<f4"), "uint8": (2, "|u1"), "int8": (3, "|i1"), "uint16": (4, "<u2"), "int16": (5, "<i2"),
    "int32": (6, "<i4"), "int64": (7, "<i8"), "bool": (9, "|b1"), "float16": (10, "<f2"), "double": (11, "<f8"),
    "uint32": (12, "<u4"), "uint64": (13, "<u8"), "complex64": (14, "<c8"), "complex128": (15, "<c16"),
}  # fmt: skip
# Other types are widened by a `Cast`, which is exact.
_WIDENED = {
    "bfloat16": "float", "float8e4m3fn": "float", "float8e4m3fnuz": "float", "float8e5m2": "float",
    "float8e5m2fnuz": "float", "float8e8m0": "float", "float4e2m1": "float", "int4": "int8", "uint4": "uint8",
    "int2": "int8", "uint2": "uint8",
}  # fmt: skip


class ArrayPlan(Struct, frozen=True):
    """An array to compute.

    Attributes:
        tensor: tensor of the model.
        output: output that holds the array: the tensor itself or a wider copy.
        element: number of the output's element type in ONNX.
        descr: the same as NumPy's type string.
        shape: its shape.
        path: its file.
        is_misdeclared: whether the model states another shape.
    """

    tensor: str
    output: str
    element: int
    descr: str
    shape: Shape
    path: str
    is_misdeclared: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape) * int(self.descr[2:])


class ComputedTensors(Struct, frozen=True):
    """Bytes that were written, and tensors that are not numbers, with the reason."""

    nbytes: int
    not_written: dict[str, Reason]


def compute(
    model: OriginalModel, runner: Runner, paths: Mapping[str, str], progress: Progress, free_nbytes: int
) -> ComputedTensors:
    """Compute tensors of a model into NumPy files.

    Args:
        model: the model.
        runner: its inputs.
        paths: file of each tensor.
        progress: takes bytes done and in total.
        free_nbytes: free disk space, which is checked before anything is written.

    Raises:
        InputError: the model cannot be loaded, or fails; or the disk is too small.
        OSError: a file cannot be written.
    """
    session = runner.open_session(model, model.with_outputs(paths))
    types = output_types(session)
    numeric = {tensor: kind for tensor in paths if (kind := _element_type(types[tensor])) is not None}
    not_written = {
        tensor: because("golden.not_numbers", type=types[tensor].text) for tensor in paths if tensor not in numeric
    }
    widened = {tensor: f"opdiff:cast:{tensor}" for tensor, kind in numeric.items() if kind in _WIDENED}
    if widened:
        session = runner.open_session(model, model.with_outputs(_outputs(numeric, widened), _casts(numeric, widened)))
    shapes = {tensor: types[tensor].shape for tensor in numeric}
    unknown = [tensor for tensor, shape in shapes.items() if shape is None]
    exact = find_shapes(model, runner, unknown)
    plans = _plans(numeric, widened, {**shapes, **exact}, paths)
    _check_disk(model, plans, free_nbytes)
    try:
        _run(model, runner, session, plans, progress)
    except InputError:
        plans = _with_found_shapes(plans, find_shapes(model, runner, numeric))
        if not any(plan.is_misdeclared for plan in plans):
            raise
        _run(model, runner, session, [plan for plan in plans if not plan.is_misdeclared], progress)
        _fetch(model, runner, session, [plan for plan in plans if plan.is_misdeclared])
    return ComputedTensors(sum(plan.nbytes for plan in plans), not_written)


def _with_found_shapes(plans: Iterable[ArrayPlan], found: Mapping[str, Shape]) -> list[ArrayPlan]:
    """Return the plans with shapes from a run; shapes that the model states may be wrong."""
    return [replace(plan, shape=found[plan.tensor], is_misdeclared=found[plan.tensor] != plan.shape) for plan in plans]


def _fetch(model: OriginalModel, runner: Runner, session: Any, plans: Sequence[ArrayPlan]) -> None:  # noqa: ANN401  untyped
    """Write arrays for which ONNX Runtime does not accept memory, because the model states wrong shapes."""
    arrays = runner.run(model, session, [plan.output for plan in plans])
    for plan, array in zip(plans, arrays, strict=True):
        with open_atomic(plan.path) as file:
            np.save(file, array, allow_pickle=False)


def find_shapes(model: OriginalModel, runner: Runner, tensors: Iterable[str]) -> dict[str, Shape]:
    """Return the shapes of tensors by a run that fetches nothing else."""
    names = {tensor: f"opdiff:shape:{tensor}" for tensor in tensors}
    if not names:
        return {}
    nodes = b"".join(node("Shape", [tensor], [name]) for tensor, name in names.items())
    session = runner.open_session(model, model.with_outputs(names.values(), nodes), frees_early=True)
    found = runner.run(model, session, list(names.values()))
    return {tensor: tuple(int(extent) for extent in shape) for tensor, shape in zip(names, found, strict=True)}


def _element_type(kind: TensorType) -> str | None:
    """Return the element type of a tensor of numbers, else `None`."""
    name = kind.text.removeprefix("tensor(").removesuffix(")")
    is_tensor = kind.text == f"tensor({name})"
    return name if is_tensor and (name in _WRITTEN or name in _WIDENED) else None


def _outputs(numeric: Mapping[str, str], widened: Mapping[str, str]) -> list[str]:
    return [widened.get(tensor, tensor) for tensor in numeric]


def _casts(numeric: Mapping[str, str], widened: Mapping[str, str]) -> bytes:
    return b"".join(
        node("Cast", [tensor], [output], {"to": _WRITTEN[_WIDENED[numeric[tensor]]][0]})
        for tensor, output in widened.items()
    )


def _plans(
    numeric: Mapping[str, str], widened: Mapping[str, str], shapes: Mapping[str, Shape | None], paths: Mapping[str, str]
) -> list[ArrayPlan]:
    plans = []
    for tensor, kind in numeric.items():
        element, descr = _WRITTEN[_WIDENED.get(kind, kind)]
        plans.append(
            ArrayPlan(tensor, widened.get(tensor, tensor), element, descr, shapes[tensor] or (), paths[tensor])
        )
    return plans


def _check_disk(model: OriginalModel, plans: Sequence[ArrayPlan], free_nbytes: int) -> None:
    needed = sum(plan.nbytes for plan in plans)
    if needed > free_nbytes:
        raise InputError(model.path, because("golden.too_little_disk", needed=size(needed), free=size(free_nbytes)))


def _run(
    model: OriginalModel,
    runner: Runner,
    session: Any,  # noqa: ANN401  ONNX Runtime is untyped
    plans: Sequence[ArrayPlan],
    progress: Progress,
) -> None:
    total = sum(plan.nbytes for plan in plans)
    arrays: list[MappedArray] = []
    try:
        for plan in plans:
            with suppress(FileNotFoundError):
                os.unlink(plan.path)
            with name_in_errors(os.path.basename(plan.path), plan.path):
                arrays.append(create_array(plan.path, plan.descr, plan.shape))
        bound = [
            BoundOutput(plan.output, plan.element, plan.shape, array.address)
            for plan, array in zip(plans, arrays, strict=True)
            if array.address
        ]
        before = resident_file_nbytes()
        if bound:
            runner.run_into(
                model, session, bound, lambda: progress(_within(resident_file_nbytes() - before, total), total)
            )
        progress(total, total)
    finally:
        for array in arrays:
            array.unmap()


def _within(done: int, total: int) -> int:
    return max(0, min(done, total))


def free_disk_nbytes(folder: str) -> int:
    """Return the free space of the disk that holds a folder."""
    return shutil.disk_usage(folder).free
