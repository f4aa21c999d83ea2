"""Conversion of one dump file: read → align → write. Errors become part of the result."""

from __future__ import annotations

import os
import traceback
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.errors import DumpError, LayoutError, OpdiffError
from opdiff.core.reasons import because
from opdiff.core.remote.urls import is_remote
from opdiff.core.source import FileRange
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.filename import parse_dump_name
from opdiff.read.overflow import read_overflow, to_json
from opdiff.run import Work, run
from opdiff.workflows.cluster import is_unread
from opdiff.workflows.convert.byte_copy import copy_npy, copy_raw, write_json
from opdiff.workflows.convert.result_names import MAX_NAME_BYTES, Form, TensorName, shorten, tensor_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.align import Aligned
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import OpDump, Shape, Tensor
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.convert.plan import ConvertJob, ConvertOptions


# Creating a file takes about as long as converting this many bytes.
_MIN_WEIGHT_BYTES = 1 << 18
# All versions of NumPy can load arrays of this rank.
_MAX_NUMPY_RANK = 32


class Failure(Struct, frozen=True):
    """A file, or one of its tensors (`input:0`), that was not converted."""

    path: str
    tensor: str
    reason: Reason


class ConvertResult(Struct, frozen=True):
    """Result of one dump file.

    Attributes:
        written: paths of the written files.
        failures: the file or tensors that were not converted.
        steps: conversion steps by tensor.
        renamed: shortened and full names of results whose names were too long.
        defect: traceback of an unexpected error, else empty.
    """

    written: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    steps: tuple[tuple[str, Reason], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    defect: str = ""


def convert_all(
    jobs: Sequence[ConvertJob], workers: int, cluster: Cluster | None = None
) -> Iterator[tuple[ConvertJob, ConvertResult]]:
    """Convert files of one conversion, and yield results as they are completed.

    Args:
        jobs: the files; for a cluster with absolute paths.
        workers: maximum number of workers on this machine; 0 for all cores.
        cluster: workers that convert and write the results instead; `None` for none.
    """
    if cluster is not None:
        return _convert_on_cluster(jobs, cluster)
    options = jobs[0].options
    work = Work(
        convert_file,
        on_death=lambda job: _failed(job, because("workflows.worker_died")),
        nbytes=lambda job: job.nbytes,
        needs_process=options.custom is not None,
        # Only this process has the passwords and connections.
        in_process=any(is_remote(job.path) for job in jobs),
        # If bytes are only copied, most time is spent creating files, which a folder does one at a time.
        min_parallel_jobs=200 if options.layout or options.form is Form.NPZ else 20_000,
    )
    return run(work, jobs, workers)


def _convert_on_cluster(jobs: Sequence[ConvertJob], cluster: Cluster) -> Iterator[tuple[ConvertJob, ConvertResult]]:
    from opdiff.run.cluster import BatchWork
    from opdiff.run.worker_task import Each

    work = BatchWork(
        Each(convert_file),
        _failed,
        lambda job: max(job.nbytes, _MIN_WEIGHT_BYTES),
        is_unread=lambda result: any(is_unread(failure.reason) for failure in result.failures),
    )
    return cluster.run(work, jobs)


def convert_file(job: ConvertJob) -> ConvertResult:
    """Convert one dump file; errors become part of the result."""
    try:
        os.makedirs(job.folder, exist_ok=True)
        return _convert(job)
    except (OpdiffError, OSError, MemoryError) as error:
        return _failed(job, _reason(error))
    except Exception as error:  # noqa: BLE001  the border: an unexpected error costs one file and is shown as a defect
        return replace(_failed(job, because("workflows.defect", error=repr(error))), defect=traceback.format_exc())


def _failed(job: ConvertJob, reason: Reason, tensor: str = "") -> ConvertResult:
    """Return the result of a file, or one of its tensors, that could not be converted."""
    return ConvertResult(failures=(Failure(job.path, tensor, reason),))


def _convert(job: ConvertJob) -> ConvertResult:
    operator = read_operator(job.path, job.name)
    parsed = parse_dump_name(job.name)
    if parsed and parsed.is_debug and not job.options.layout:
        return _convert_records(job, operator)
    if job.options.form is Form.NPZ:
        result = _convert_to_archive(job, operator)
    else:
        result = _combine([_convert_tensor(job, operator, slot, index) for slot, index in _selected(job, operator)])
    return result if job.options.layout or job.options.slot else _with_blobs(job, operator, result)


def _convert_records(job: ConvertJob, operator: OpDump) -> ConvertResult:
    results = []
    for index, record in enumerate(read_overflow(operator)):
        path, renamed = _result_path(job, f"{os.path.basename(job.path)}.output.{index}.json")
        write_json(path, to_json(record))
        results.append(ConvertResult(written=(path,), renamed=renamed))
    return _combine(results)


def _convert_to_archive(job: ConvertJob, operator: OpDump) -> ConvertResult:
    from opdiff.workflows.convert.array_files import write_npz

    results: list[ConvertResult] = []

    def loaded() -> Iterator[tuple[str, AnyArray, DType]]:
        for slot, index in _selected(job, operator):
            tensor = operator.tensors(slot)[index]
            try:
                aligned = _load(tensor, job.options)
            except (OpdiffError, MemoryError) as error:
                results.append(_failed(job, _reason(error), f"{slot}:{index}"))
                continue
            results.append(ConvertResult(steps=_named_steps(slot, index, (*tensor.notes, *aligned.steps))))
            yield f"{slot}_{index}", aligned.codes, tensor.spec.dtype

    tensors = loaded()
    first = next(tensors, None)
    if first is None:
        return _combine(results)
    path, renamed = _result_path(job, f"{os.path.basename(job.path)}.npz")
    write_npz(path, chain([first], tensors))
    return _combine([ConvertResult(written=(path,), renamed=renamed), *results])


def _convert_tensor(job: ConvertJob, operator: OpDump, slot: Slot, index: int) -> ConvertResult:
    options = job.options
    try:
        return _write_tensor(job, operator, slot, index)
    except (OpdiffError, OSError, MemoryError) as error:
        failure = _failed(job, _reason(error), f"{slot}:{index}")
        if options.form is not Form.MSNPY or not isinstance(error, LayoutError):
            return failure
    # Names of this form have the layout, which distinguishes stored from converted data.
    as_stored = replace(job, options=replace(options, layout=""))
    return _combine([failure, _convert_tensor(as_stored, operator, slot, index)])


def _write_tensor(job: ConvertJob, operator: OpDump, slot: Slot, index: int) -> ConvertResult:
    tensor = operator.tensors(slot)[index]
    name = TensorName(os.path.basename(job.path), slot, index, operator.op_name)
    stored = _find_stored_result(tensor, job.options)
    if stored is not None:
        return _copy_tensor(job, name, tensor, stored)
    from opdiff.workflows.convert.array_files import write_tensor

    aligned = _load(tensor, job.options)
    path, renamed = _result_path(job, _full_name(job, name, tensor, aligned.layout, aligned.codes.shape))
    write_tensor(path, job.options.form, aligned.codes, tensor.spec.dtype)
    return ConvertResult((path,), steps=_named_steps(slot, index, (*tensor.notes, *aligned.steps)), renamed=renamed)


def _find_stored_result(tensor: Tensor, options: ConvertOptions) -> FileRange | None:
    """Return the stored bytes if they are the result already, so that they can be copied."""
    source, dtype = tensor.source, tensor.spec.dtype
    if options.layout or not isinstance(source, FileRange) or source.big_endian or source.fortran_order:
        return None
    # Impossible shapes are reported where arrays are made.
    if len(tensor.spec.shape) > _MAX_NUMPY_RANK or not tensor.spec.count:
        return None
    is_unchanged = (dtype.is_native and options.form in (Form.NPY, Form.MSNPY)) or (
        dtype.bits >= 8 and dtype.storage and options.form is Form.BIN
    )
    return source if is_unchanged and dtype.nbytes(tensor.spec.count) <= source.nbytes else None


def _copy_tensor(job: ConvertJob, name: TensorName, tensor: Tensor, source: FileRange) -> ConvertResult:
    spec = tensor.spec
    shape = spec.shape or (1,)
    path, renamed = _result_path(job, _full_name(job, name, tensor, spec.layout, shape))
    if job.options.form is Form.BIN:
        copy_raw(path, source, spec.dtype.nbytes(spec.count))
    else:
        copy_npy(path, source, spec.dtype, shape)
    return ConvertResult((path,), steps=_named_steps(name.slot, name.index, tensor.notes), renamed=renamed)


def _full_name(job: ConvertJob, name: TensorName, tensor: Tensor, layout: str, shape: Shape) -> str:
    options = job.options
    return tensor_name(name, options.form, tensor.spec.dtype, layout, shape, converted=bool(options.layout))


def _load(tensor: Tensor, options: ConvertOptions) -> Aligned:
    """Return the codes of a tensor in the requested layout; a scalar as an array of one element."""
    from opdiff.align import Aligned, convert

    aligned = Aligned(tensor.codes(), tensor.spec.layout, ())
    if options.layout:
        aligned = convert(aligned.codes, tensor.spec, options.layout, options.shape, options.custom)
    return replace(aligned, codes=aligned.codes.reshape(1)) if aligned.codes.ndim == 0 else aligned


def _with_blobs(job: ConvertJob, operator: OpDump, result: ConvertResult) -> ConvertResult:
    """Write the raw bytes of buffers and spaces; return the combined result."""
    kinds = (("l1buffer", operator.buffers), ("space", operator.spaces))
    results = [result]
    for kind, blobs in kinds:
        for index, blob in enumerate(blobs):
            label = kind if blob.kind == 0 or kind == "space" else f"buffer{blob.kind}"
            path, renamed = _result_path(job, f"{os.path.basename(job.path)}.{label}.{index}.bin")
            copy_raw(path, blob.source, blob.source.nbytes)
            results.append(ConvertResult(written=(path,), renamed=renamed))
    return _combine(results)


def _selected(job: ConvertJob, operator: OpDump) -> list[tuple[Slot, int]]:
    """Return the tensors to convert, inputs first."""
    options = job.options
    slots = [options.slot] if options.slot else [Slot.INPUT, Slot.OUTPUT]
    if options.index is None:
        return [(slot, index) for slot in slots for index in range(len(operator.tensors(slot)))]
    count = len(operator.tensors(slots[0]))
    if options.index >= count:
        problem = because("workflows.no_such_tensor", slot=slots[0], index=options.index, count=count)
        raise DumpError(job.path, problem)
    return [(slots[0], options.index)]


def _result_path(job: ConvertJob, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    short = shorten(name)
    renamed = ((short, name),) if len(os.fsencode(name)) >= MAX_NAME_BYTES else ()
    return os.path.join(job.folder, short), renamed


def _named_steps(slot: Slot, index: int, steps: Sequence[Reason]) -> tuple[tuple[str, Reason], ...]:
    return tuple((f"{slot}:{index}", step) for step in steps)


def _reason(error: OpdiffError | OSError | MemoryError) -> Reason:
    if isinstance(error, OpdiffError):
        return error.brief
    if isinstance(error, MemoryError):
        return because("workflows.out_of_memory")
    # Errors of reading are DumpErrors.
    return because("workflows.cannot_write", error=error.strerror or str(error))


def _combine(results: Sequence[ConvertResult]) -> ConvertResult:
    return ConvertResult(
        written=tuple(path for result in results for path in result.written),
        failures=tuple(failure for result in results for failure in result.failures),
        steps=tuple(step for result in results for step in result.steps),
        renamed=tuple(pair for result in results for pair in result.renamed),
    )
