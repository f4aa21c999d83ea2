"""Dump files to files that other tools read: read → align → write. The way of `opdiff convert`, on one page."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opdiff.align import Aligned
from opdiff.align import convert as to_layout
from opdiff.errors import DumpError, InputError, LayoutError, OpdiffError, UsageError
from opdiff.model import Slot
from opdiff.read import read_operator
from opdiff.read.directory import scan
from opdiff.read.filename import is_debug_name
from opdiff.read.overflow import read_overflow, to_json
from opdiff.write.names import MAX_NAME, Form, TensorName, fitting, tensor_name
from opdiff.write.tensors import write_bytes, write_json, write_npy, write_npz, write_pt, write_raw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.align import Custom
    from opdiff.dtypes import DType
    from opdiff.elements import AnyArray
    from opdiff.model import OpDump, Shape, Tensor

_WRITERS = {Form.NPY: write_npy, Form.MSNPY: write_npy, Form.BIN: write_raw, Form.PT: write_pt}
# Files beside dumps that are never dumps themselves; arrays are left alone only where nothing would change.
_NOT_DUMPS = (".csv", ".json", ".txt", ".bin", ".pt", ".log", ".md", ".py", ".sh", ".onnx", ".om", ".pbtxt")
_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """What to write, and of what.

    Attributes:
        output: the folder for the results.
        form: the kind of file.
        layout: the layout to bring every tensor to; empty to leave each as it is stored.
        shape: the logical shape in that layout, where the file does not tell or tells it wrongly.
        slot: only inputs, or only outputs.
        index: only that input or output.
        custom: conversions of the user's own.
    """

    output: str
    form: Form = Form.NPY
    layout: str = ""
    shape: Shape = ()
    slot: Slot | None = None
    index: int | None = None
    custom: Custom | None = None


@dataclass(frozen=True, slots=True)
class ConvertJob:
    """One dump file, its real name, and the folder for its results."""

    path: str
    name: str
    folder: str
    nbytes: int
    options: ConvertOptions


@dataclass(frozen=True, slots=True)
class ConvertPlan:
    """What is to be done, and what was left out, with the reason."""

    jobs: tuple[ConvertJob, ...]
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that was not converted: a whole file, or one tensor of it (`input:0`)."""

    path: str
    tensor: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConvertResult:
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


def plan_conversion(paths: Sequence[str], options: ConvertOptions) -> ConvertPlan:
    """The jobs for files and directory trees. The results of a tree keep its folders.

    Raises:
        InputError: a path does not exist.
        UsageError: the options do not fit the paths, or two results would have one name.
    """
    jobs: list[ConvertJob] = []
    skipped: list[tuple[str, str]] = []
    for path in paths:
        if os.path.isdir(path):
            found = _plan_tree(path, options)
            jobs += found.jobs
            skipped += found.skipped
        elif os.path.exists(path):
            jobs.append(_job(path, os.path.basename(path), options.output, options))
        else:
            raise InputError(path, "no such file or directory")
    if options.shape and (len(jobs) > 1 or any(os.path.isdir(path) for path in paths)):
        raise UsageError("--shape is the shape of one file's tensors; give one file")
    _refuse_name_clashes(jobs)
    return ConvertPlan(tuple(jobs), tuple(skipped))


def convert_file(job: ConvertJob) -> ConvertResult:
    """Convert one dump file. Whatever goes wrong becomes part of the result."""
    try:
        os.makedirs(job.folder, exist_ok=True)
        return _convert(job)
    except (OpdiffError, OSError) as error:
        return failed(job, _reason(error))
    except Exception as error:  # noqa: BLE001  the border: an unexpected error costs one file and is shown as ours
        return replace(failed(job, f"a defect of opdiff: {error!r}"), defect=traceback.format_exc())


def failed(job: ConvertJob, reason: str) -> ConvertResult:
    """The result of a file that could not be converted at all."""
    return ConvertResult(failures=(Failure(job.path, "", reason),))


def _plan_tree(root: str, options: ConvertOptions) -> ConvertPlan:
    tree = scan(root)
    skipped = [(problem.path, problem.what) for problem in tree.problems]
    files = [(entry.path, entry.name) for entry in tree.entries()]
    files += [(path, os.path.basename(path)) for path in tree.strangers]
    jobs = []
    for path, name in files:
        reason = _why_not(name, options)
        if reason:
            skipped.append((path, reason))
        else:
            below = os.path.relpath(os.path.dirname(path), root)
            jobs.append(_job(path, name, os.path.normpath(os.path.join(options.output, below)), options))
    return ConvertPlan(tuple(jobs), tuple(skipped))


def _why_not(name: str, options: ConvertOptions) -> str:
    if name.endswith(_NOT_DUMPS):
        return "not a dump file"
    if name.endswith(_ARRAYS) and not options.layout and options.form in (Form.NPY, Form.NPZ, Form.MSNPY):
        return "a NumPy file already"
    return ""


def _job(path: str, name: str, folder: str, options: ConvertOptions) -> ConvertJob:
    return ConvertJob(path, name, folder, os.path.getsize(path), options)


def _refuse_name_clashes(jobs: Sequence[ConvertJob]) -> None:
    places: dict[tuple[str, str], str] = {}
    for job in jobs:
        place = (job.folder, os.path.basename(job.path))
        other = places.setdefault(place, job.path)
        if other is not job.path:
            raise UsageError(f"{other} and {job.path} would have the same results; convert them into different folders")


def _convert(job: ConvertJob) -> ConvertResult:
    operator = read_operator(job.path, job.name)
    if is_debug_name(job.name) and not job.options.layout:
        return _convert_records(job, operator)
    if job.options.form is Form.NPZ:
        return _convert_to_archive(job, operator)
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
    results: list[ConvertResult] = []

    def loaded() -> Iterator[tuple[str, AnyArray, DType]]:
        for slot, index in _chosen(job, operator):
            tensor = operator.tensors(slot)[index]
            try:
                aligned = _load(tensor, job.options)
            except OpdiffError as error:
                results.append(_failed_tensor(job, slot, index, error))
                continue
            results.append(ConvertResult(steps=_named_steps(slot, index, tensor, aligned)))
            yield f"{slot}_{index}", aligned.codes, tensor.spec.dtype

    path, renamed = _place(job, f"{os.path.basename(job.path)}.npz")
    write_npz(path, loaded())
    if results and all(result.failures for result in results):
        os.unlink(path)
        return _combine(results)
    return _combine([ConvertResult(written=(path,), renamed=renamed), *results])


def _convert_tensor(job: ConvertJob, operator: OpDump, slot: Slot, index: int) -> ConvertResult:
    options, tensor = job.options, operator.tensors(slot)[index]
    converted, failures = bool(options.layout), ConvertResult()
    try:
        aligned = _load(tensor, options)
    except LayoutError as error:
        failures = _failed_tensor(job, slot, index, error)
        if options.form is not Form.MSNPY:
            return failures
        # This form names the layout, so data that stays in its own can be told from converted data.
        aligned, converted = _load(tensor, replace(options, layout="")), False
    except OpdiffError as error:
        return _failed_tensor(job, slot, index, error)
    name = TensorName(os.path.basename(job.path), slot, index, operator.op_name)
    dtype, shape = tensor.spec.dtype, aligned.codes.shape
    path, renamed = _place(job, tensor_name(name, options.form, dtype, aligned.layout, shape, converted=converted))
    _WRITERS[options.form](path, aligned.codes, dtype)
    done = ConvertResult((path,), steps=_named_steps(slot, index, tensor, aligned), renamed=renamed)
    return _combine([failures, done])


def _load(tensor: Tensor, options: ConvertOptions) -> Aligned:
    """The codes of a tensor in the wanted layout; a scalar as an array of one element, as users of dumps expect."""
    aligned = Aligned(tensor.codes(), tensor.spec.layout, ())
    if options.layout:
        aligned = to_layout(aligned.codes, tensor.spec, options.layout, options.shape, options.custom)
    return replace(aligned, codes=aligned.codes.reshape(1)) if aligned.codes.ndim == 0 else aligned


def _with_blobs(job: ConvertJob, operator: OpDump, result: ConvertResult) -> ConvertResult:
    """The result with the raw bytes of buffers and spaces."""
    kinds = (("l1buffer", operator.buffers), ("space", operator.spaces))
    results = [result]
    for kind, blobs in kinds:
        for index, blob in enumerate(blobs):
            label = kind if blob.kind == 0 or kind == "space" else f"buffer{blob.kind}"
            path, renamed = _place(job, f"{os.path.basename(job.path)}.{label}.{index}.bin")
            write_bytes(path, blob.source.raw())
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
        raise DumpError(job.path, f"{slots[0]} {options.index} is wanted, but it has {count} {slots[0]}s")
    return [(slots[0], options.index)]


def _place(job: ConvertJob, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    short = fitting(name)
    renamed = ((short, name),) if len(os.fsencode(name)) >= MAX_NAME else ()
    return os.path.join(job.folder, short), renamed


def _named_steps(slot: Slot, index: int, tensor: Tensor, aligned: Aligned) -> tuple[tuple[str, str], ...]:
    return tuple((f"{slot}:{index}", step) for step in (*tensor.notes, *aligned.steps))


def _failed_tensor(job: ConvertJob, slot: Slot, index: int, error: OpdiffError) -> ConvertResult:
    return ConvertResult(failures=(Failure(job.path, f"{slot}:{index}", _reason(error)),))


def _reason(error: OpdiffError | OSError) -> str:
    return error.brief if isinstance(error, DumpError) else str(error)


def _combine(results: Sequence[ConvertResult]) -> ConvertResult:
    return ConvertResult(
        written=tuple(path for result in results for path in result.written),
        failures=tuple(failure for result in results for failure in result.failures),
        steps=tuple(step for result in results for step in result.steps),
        renamed=tuple(pair for result in results for pair in result.renamed),
    )
