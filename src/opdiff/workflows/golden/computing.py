"""One run of a model whose results are computed into mapped NumPy files.

    types ──► shapes (known by the session, or from a first run that fetches shapes only) ──► files ──► run

Memory holds the model and the tensors that are needed at one time; results are pages of files.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from math import prod
from mmap import MAP_SHARED, PROT_READ, PROT_WRITE
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.atomic_file import name_in_errors, open_atomic
from opdiff.core.errors import InputError
from opdiff.core.formatting import size
from opdiff.core.onnx_encoder import node
from opdiff.core.reasons import because
from opdiff.workflows.convert.byte_copy import npy_header
from opdiff.workflows.golden.runtime import BoundOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.original import OriginalModel
    from opdiff.workflows.golden.runtime import Runner, Session, TensorType

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
_MAP_FAILED = ctypes.c_void_p(-1).value


class _ArrayPlan(Struct, frozen=True):
    """An array to compute.

    Attributes:
        tensor: tensor of the model.
        output: output that holds the array: the tensor itself or a wider copy.
        element: number of the output's element type in ONNX.
        descr: the same as NumPy's type string.
        shape: its shape; `None` until it is known.
        path: its file.
        is_misdeclared: whether the model states another shape.
    """

    tensor: str
    output: str
    element: int
    descr: str
    shape: Shape | None
    path: str
    is_misdeclared: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape or ()) * int(self.descr[2:])

    def with_shape(self, found: Shape) -> _ArrayPlan:
        """Return the plan with a shape from a run; the shape that the model states may be wrong."""
        return replace(self, shape=found, is_misdeclared=self.shape is not None and found != self.shape)


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
    types = session.output_types()
    plans = [plan for tensor, path in paths.items() if (plan := _find_plan(tensor, types[tensor], path))]
    not_written = {tensor: because("golden.not_numbers", type=types[tensor].text) for tensor in paths}
    for plan in plans:
        del not_written[plan.tensor]
    widened = [plan for plan in plans if plan.output != plan.tensor]
    if widened:
        casts = b"".join(node("Cast", [plan.tensor], [plan.output], {"to": plan.element}) for plan in widened)
        session = runner.open_session(model, model.with_outputs([plan.output for plan in plans], casts))
    exact = find_shapes(model, runner, [plan.tensor for plan in plans if plan.shape is None])
    plans = [plan.with_shape(exact[plan.tensor]) if plan.tensor in exact else plan for plan in plans]
    needed = sum(plan.nbytes for plan in plans)
    if needed > free_nbytes:
        raise InputError(model.path, because("golden.too_little_disk", needed=size(needed), free=size(free_nbytes)))
    try:
        _run(session, plans, progress)
    except InputError:
        found = find_shapes(model, runner, [plan.tensor for plan in plans])
        plans = [plan.with_shape(found[plan.tensor]) for plan in plans]
        if not any(plan.is_misdeclared for plan in plans):
            raise
        _run(session, [plan for plan in plans if not plan.is_misdeclared], progress)
        _fetch(session, [plan for plan in plans if plan.is_misdeclared])
    return ComputedTensors(sum(plan.nbytes for plan in plans), not_written)


def _find_plan(tensor: str, kind: TensorType, path: str) -> _ArrayPlan | None:
    """Return the array of a tensor; `None` if the tensor does not hold numbers."""
    name = kind.text.removeprefix("tensor(").removesuffix(")")
    written = _WIDENED.get(name, name)
    if kind.text != f"tensor({name})" or written not in _WRITTEN:
        return None
    output = f"opdiff:cast:{tensor}" if name in _WIDENED else tensor
    return _ArrayPlan(tensor, output, *_WRITTEN[written], kind.shape, path)


def _fetch(session: Session, plans: Sequence[_ArrayPlan]) -> None:
    """Write arrays for which ONNX Runtime does not accept memory, because the model states wrong shapes."""
    arrays = session.run([plan.output for plan in plans])
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
    found = session.run(list(names.values()))
    return {tensor: tuple(int(extent) for extent in shape) for tensor, shape in zip(names, found, strict=True)}


def _run(session: Session, plans: Sequence[_ArrayPlan], progress: Progress) -> None:
    total = sum(plan.nbytes for plan in plans)
    arrays: list[_MappedArray] = []
    try:
        for plan in plans:
            with suppress(FileNotFoundError):
                os.unlink(plan.path)
            with name_in_errors(os.path.basename(plan.path), plan.path):
                arrays.append(_create_array(plan.path, plan.descr, plan.shape or ()))
        bound = [
            BoundOutput(plan.output, plan.element, plan.shape or (), array.address)
            for plan, array in zip(plans, arrays, strict=True)
            if array.address
        ]
        before = _resident_file_nbytes()
        if bound:
            session.run_into(bound, lambda: progress(max(0, min(_resident_file_nbytes() - before, total)), total))
        progress(total, total)
    finally:
        for array in arrays:
            array.unmap()


# Mapped files


class _MappedArray(Struct, frozen=True):
    """A mapped NumPy file; its elements begin at `address`. An empty array is not mapped."""

    start: int
    address: int
    nbytes: int

    def unmap(self) -> None:
        """End the mapping; the system writes the pages to the file."""
        if self.start:
            _libc().munmap(self.start, self.nbytes)


def _create_array(path: str, descr: str, shape: Shape) -> _MappedArray:
    """Create a NumPy file of a known size, with its disk space reserved, and map it.

    A mapping by `mmap.mmap` would keep a descriptor open for each of thousands of files.

    Raises:
        OSError: the file cannot be created, or the disk is full.
    """
    header = npy_header(descr, shape)
    nbytes = len(header) + prod(shape) * int(descr[2:])
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        os.write(descriptor, header)
        if nbytes == len(header):
            return _MappedArray(0, 0, nbytes)
        # Without reserved space, a full disk would end the process with a signal.
        os.posix_fallocate(descriptor, 0, nbytes)
        start = _libc().mmap(None, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)
        if start is None or start == _MAP_FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)
    return _MappedArray(start, start + len(header), nbytes)


def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def _resident_file_nbytes() -> int:
    """Return the bytes of mapped files that are in memory: how much of the results was written so far."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[2]) * os.sysconf("SC_PAGE_SIZE")
