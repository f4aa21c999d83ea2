"""One dump file to its results: read → align → write. Whatever goes wrong becomes part of the result."""

from __future__ import annotations

import os
import traceback
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import DumpError, LayoutError, OpdiffError
from opdiff.core.source import FileRange
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.filename import parse_dump_name
from opdiff.read.overflow import read_overflow, to_json
from opdiff.workflows.convert.byte_copy import copy_npy, copy_raw, write_json
from opdiff.workflows.convert.result_names import MAX_NAME_BYTES, Form, TensorName, shorten, tensor_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.align import Aligned
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import OpDump, Shape, Tensor
    from opdiff.workflows.convert.plan import ConvertJob, ConvertOptions


# Every NumPy can load an array of so many axes.
_USUAL_RANK = 32


class Failure(NamedTuple):
    """Something that was not converted: a whole file, or one tensor of it (`input:0`)."""

    path: str
    tensor: str
    reason: str


class ConvertResult(NamedTuple):
    """What became of one dump file.

    Attributes:
        written: the files that were made.
        failures: what could not be made.
        steps: what was done to the data on the way, by tensor.
        renamed: names that were too long, with the full ones.
        defect: the traceback of an error that should not have happened, else empty.
    """

    written: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    steps: tuple[tuple[str, str], ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    defect: str = ""


def convert_file(job: ConvertJob) -> ConvertResult:
    """Convert one dump file. Whatever goes wrong becomes part of the result."""
    try:
        os.makedirs(job.folder, exist_ok=True)
        return _convert(job)
    except (OpdiffError, OSError, MemoryError) as error:
        return failed(job, _reason(error))
    except Exception as error:  # noqa: BLE001  the border: an unexpected error costs one file and is shown as ours
        return failed(job, f"a defect of opdiff: {error!r}")._replace(defect=traceback.format_exc())


def failed(job: ConvertJob, reason: str) -> ConvertResult:
    """The result of a file that could not be converted at all."""
    return ConvertResult(failures=(Failure(job.path, "", reason),))


def _convert(job: ConvertJob) -> ConvertResult:
    operator = read_operator(job.path, job.name)
    parsed = parse_dump_name(job.name)
    if parsed and parsed.is_debug and not job.options.layout:
        return _convert_records(job, operator)
    if job.options.form is Form.NPZ:
        result = _convert_to_archive(job, operator)
    else:
        result = _combine([_convert_tensor(job, operator, slot, index) for slot, index in _chosen(job, operator)])
    return result if job.options.layout or job.options.slot else _with_blobs(job, operator, result)


def _convert_records(job: ConvertJob, operator: OpDump) -> ConvertResult:
    results = []
    for index, record in enumerate(read_overflow(operator)):
        path, renamed = _place(job, f"{os.path.basename(job.path)}.output.{index}.json")
        write_json(path, to_json(record))
        results.append(ConvertResult(written=(path,), renamed=renamed))
    return _combine(results)


def _convert_to_archive(job: ConvertJob, operator: OpDump) -> ConvertResult:
    from opdiff.workflows.convert.array_files import write_npz

    results: list[ConvertResult] = []

    def loaded() -> Iterator[tuple[str, AnyArray, DType]]:
        for slot, index in _chosen(job, operator):
            tensor = operator.tensors(slot)[index]
            try:
                aligned = _load(tensor, job.options)
            except (OpdiffError, MemoryError) as error:
                results.append(_failed_tensor(job, slot, index, error))
                continue
            results.append(ConvertResult(steps=_named_steps(slot, index, (*tensor.notes, *aligned.steps))))
            yield f"{slot}_{index}", aligned.codes, tensor.spec.dtype

    tensors = loaded()
    first = next(tensors, None)
    if first is None:
        return _combine(results)
    path, renamed = _place(job, f"{os.path.basename(job.path)}.npz")
    write_npz(path, chain([first], tensors))
    return _combine([ConvertResult(written=(path,), renamed=renamed), *results])


def _convert_tensor(job: ConvertJob, operator: OpDump, slot: Slot, index: int) -> ConvertResult:
    options = job.options
    try:
        return _write_tensor(job, operator, slot, index)
    except (OpdiffError, OSError, MemoryError) as error:
        failure = _failed_tensor(job, slot, index, error)
        if options.form is not Form.MSNPY or not isinstance(error, LayoutError):
            return failure
    # This form names the layout, so data that stays in its own can be told from converted data.
    as_stored = job._replace(options=options._replace(layout=""))
    return _combine([failure, _convert_tensor(as_stored, operator, slot, index)])


def _write_tensor(job: ConvertJob, operator: OpDump, slot: Slot, index: int) -> ConvertResult:
    tensor = operator.tensors(slot)[index]
    name = TensorName(os.path.basename(job.path), slot, index, operator.op_name)
    stored = _find_stored_result(tensor, job.options)
    if stored is not None:
        return _copy_tensor(job, name, tensor, stored)
    from opdiff.workflows.convert.array_files import write_tensor

    aligned = _load(tensor, job.options)
    path, renamed = _place(job, _full_name(job, name, tensor, aligned.layout, aligned.codes.shape))
    write_tensor(path, job.options.form, aligned.codes, tensor.spec.dtype)
    return ConvertResult((path,), steps=_named_steps(slot, index, (*tensor.notes, *aligned.steps)), renamed=renamed)


def _find_stored_result(tensor: Tensor, options: ConvertOptions) -> FileRange | None:
    """Where the bytes of the result are already, so that they need not be looked at."""
    source, dtype = tensor.source, tensor.spec.dtype
    if options.layout or not isinstance(source, FileRange) or source.big_endian or source.fortran_order:
        return None
    # Shapes that no array can have are found out where arrays are made.
    if len(tensor.spec.shape) > _USUAL_RANK or not tensor.spec.count:
        return None
    is_kept = (dtype.is_native and options.form in (Form.NPY, Form.MSNPY)) or (
        dtype.bits >= 8 and dtype.storage and options.form is Form.BIN
    )
    return source if is_kept and dtype.nbytes(tensor.spec.count) <= source.nbytes else None


def _copy_tensor(job: ConvertJob, name: TensorName, tensor: Tensor, source: FileRange) -> ConvertResult:
    spec = tensor.spec
    shape = spec.shape or (1,)
    path, renamed = _place(job, _full_name(job, name, tensor, spec.layout, shape))
    if job.options.form is Form.BIN:
        copy_raw(path, source, spec.dtype.nbytes(spec.count))
    else:
        copy_npy(path, source, spec.dtype, shape)
    return ConvertResult((path,), steps=_named_steps(name.slot, name.index, tensor.notes), renamed=renamed)


def _full_name(job: ConvertJob, name: TensorName, tensor: Tensor, layout: str, shape: Shape) -> str:
    options = job.options
    return tensor_name(name, options.form, tensor.spec.dtype, layout, shape, converted=bool(options.layout))


def _load(tensor: Tensor, options: ConvertOptions) -> Aligned:
    """The codes of a tensor in the wanted layout; a scalar as an array of one element, as users of dumps expect."""
    from opdiff.align import Aligned, convert

    aligned = Aligned(tensor.codes(), tensor.spec.layout, ())
    if options.layout:
        aligned = convert(aligned.codes, tensor.spec, options.layout, options.shape, options.custom)
    return aligned._replace(codes=aligned.codes.reshape(1)) if aligned.codes.ndim == 0 else aligned


def _with_blobs(job: ConvertJob, operator: OpDump, result: ConvertResult) -> ConvertResult:
    """The result with the raw bytes of buffers and spaces."""
    kinds = (("l1buffer", operator.buffers), ("space", operator.spaces))
    results = [result]
    for kind, blobs in kinds:
        for index, blob in enumerate(blobs):
            label = kind if blob.kind == 0 or kind == "space" else f"buffer{blob.kind}"
            path, renamed = _place(job, f"{os.path.basename(job.path)}.{label}.{index}.bin")
            copy_raw(path, blob.source, blob.source.nbytes)
            results.append(ConvertResult(written=(path,), renamed=renamed))
    return _combine(results)


def _chosen(job: ConvertJob, operator: OpDump) -> list[tuple[Slot, int]]:
    """Which tensors to convert: inputs first, as in the file."""
    options = job.options
    slots = [options.slot] if options.slot else [Slot.INPUT, Slot.OUTPUT]
    if options.index is None:
        return [(slot, index) for slot in slots for index in range(len(operator.tensors(slot)))]
    count = len(operator.tensors(slots[0]))
    if options.index >= count:
        raise DumpError(job.path, f"{slots[0]} {options.index} is wanted, but the number of {slots[0]}s is {count}")
    return [(slots[0], options.index)]


def _place(job: ConvertJob, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    short = shorten(name)
    renamed = ((short, name),) if len(os.fsencode(name)) >= MAX_NAME_BYTES else ()
    return os.path.join(job.folder, short), renamed


def _named_steps(slot: Slot, index: int, steps: Sequence[Reason]) -> tuple[tuple[str, str], ...]:
    return tuple((f"{slot}:{index}", str(step)) for step in steps)


def _failed_tensor(
    job: ConvertJob, slot: Slot, index: int, error: OpdiffError | OSError | MemoryError
) -> ConvertResult:
    return ConvertResult(failures=(Failure(job.path, f"{slot}:{index}", _reason(error)),))


def _reason(error: OpdiffError | OSError | MemoryError) -> str:
    if isinstance(error, OpdiffError):
        return str(error.brief)
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    # Whatever goes wrong when reading is a DumpError.
    return f"the result cannot be written: {error.strerror or error}"


def _combine(results: Sequence[ConvertResult]) -> ConvertResult:
    return ConvertResult(
        written=tuple(path for result in results for path in result.written),
        failures=tuple(failure for result in results for failure in result.failures),
        steps=tuple(step for result in results for step in result.steps),
        renamed=tuple(pair for result in results for pair in result.renamed),
    )
