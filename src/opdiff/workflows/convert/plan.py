"""Files to convert, and the folders of their results."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.core.reasons import because
from opdiff.core.remote.urls import is_remote
from opdiff.read import read_operator
from opdiff.read.directory import real_name, scan
from opdiff.read.filename import is_hashed
from opdiff.workflows.convert.result_names import Form

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape, Slot

# Endings of files that are never dumps; arrays are skipped only if conversion would not change them.
_OTHER_ENDINGS = (".csv", ".json", ".txt", ".bin", ".pt", ".log", ".md", ".py", ".sh", ".onnx", ".om", ".pbtxt")
_UNCHANGED_ENDINGS = {Form.NPY: (".npy", ".npz"), Form.MSNPY: (".npy", ".npz"), Form.NPZ: (".npz",)}
# Names of earlier results, starting with the name of their dump.
_RESULT_NAME = re.compile(r"(.+?)\.(?:(?:input|output)\..+\.npy|npz)")


class ConvertOptions(Struct, frozen=True):
    """Options of a conversion.

    Attributes:
        output: folder of the results.
        form: kind of file.
        layout: layout of the results; empty for the stored layout.
        shape: logical shape in that layout, if it is missing or wrong in the file.
        slot: inputs or outputs only.
        index: index of the only input or output.
        custom: user-defined conversions.
    """

    output: str
    form: Form = Form.NPY
    layout: str = ""
    shape: Shape = ()
    slot: Slot | None = None
    index: int | None = None
    custom: Conversions | None = None


class ConvertJob(Struct, frozen=True):
    """One dump file, its real name, and the folder of its results."""

    path: str
    name: str
    folder: str
    nbytes: int
    options: ConvertOptions


class ConvertPlan(Struct, frozen=True):
    """Jobs, and skipped files with the reason."""

    jobs: tuple[ConvertJob, ...]
    skipped: tuple[tuple[str, Reason], ...] = ()


def find_conversions(layout: str, directory: str) -> Conversions | None:
    """Find the user-defined conversions of a directory, if any, and check that the layout exists.

    Raises:
        UsageError: neither opdiff nor a user-defined conversion has the layout.
    """
    from opdiff.align import LAYOUTS
    from opdiff.align.custom import load_conversions

    custom = load_conversions(directory) if directory else None
    known = {*LAYOUTS.names(), *(script.target for script in (custom.scripts if custom else ()))}
    if layout not in known:
        raise UsageError(because("workflows.unknown_format", layout=layout, names=tuple(sorted(known))))
    return custom


def plan_conversion(paths: Sequence[str], options: ConvertOptions) -> ConvertPlan:
    """Return the jobs for files and directory trees. Results of a tree keep its folders.

    Raises:
        InputError: a path does not exist.
        UsageError: the options do not fit the paths, or two results would have the same name.
    """
    if options.shape and (len(paths) > 1 or any(filesystem.isdir(path) for path in paths)):
        raise UsageError(because("workflows.shape_of_one_file"))
    jobs: dict[ConvertJob, None] = {}
    skipped: list[tuple[str, Reason]] = []
    for path in dict.fromkeys(paths):
        if filesystem.isdir(path):
            found = _plan_tree(path, options)
            jobs.update(dict.fromkeys(found.jobs))
            skipped += found.skipped
        elif filesystem.exists(path):
            jobs[_job(path, real_name(path), options.output, options)] = None
        else:
            raise InputError(path, because("core.no_such_path"))
    _refuse_name_clashes(jobs)
    return ConvertPlan(tuple(jobs), tuple(skipped))


def _plan_tree(root: str, options: ConvertOptions) -> ConvertPlan:
    tree = scan(root)
    # A hash is sufficient as a name of results, even if the real name is unknown.
    nameless = {problem.path for problem in tree.problems if _is_nameless_file(problem.path)}
    skipped = [(problem.path, problem.reason) for problem in tree.problems if problem.path not in nameless]
    files = [(entry.path, entry.name) for entry in tree.entries()]
    files += [(path, os.path.basename(path)) for path in (*tree.unrecognized, *sorted(nameless))]
    own_results = _output_inside(root, options.output)
    files = [file for file in files if not (own_results and file[0].startswith(own_results))]
    paths = {path for path, _ in files}
    jobs = []
    for path, name in files:
        reason = _find_reason_to_skip(path, name, paths, options)
        if reason:
            skipped.append((path, reason))
        else:
            below = os.path.relpath(os.path.dirname(path), root)
            jobs.append(_job(path, name, os.path.join(options.output, below), options))
    return ConvertPlan(tuple(jobs), tuple(skipped))


def _is_nameless_file(path: str) -> bool:
    return is_hashed(os.path.basename(path)) and filesystem.isfile(path) and not filesystem.islink(path)


def _output_inside(root: str, output: str) -> str:
    """Return the prefix of paths in the output folder, if the folder is inside of the tree; else empty."""
    if is_remote(root):
        return ""
    below = os.path.relpath(os.path.realpath(output), os.path.realpath(root))
    is_inside = below != os.curdir and below.split(os.sep)[0] != os.pardir
    return os.path.join(root, below, "") if is_inside else ""


def _find_reason_to_skip(path: str, name: str, all_paths: Collection[str], options: ConvertOptions) -> Reason | None:
    if name.endswith(_OTHER_ENDINGS):
        return because("workflows.not_a_dump")
    if not options.layout and name.endswith(_UNCHANGED_ENDINGS.get(options.form, ())) and not _has_lost_type(path):
        return because("workflows.numpy_already")
    result = _RESULT_NAME.fullmatch(path)
    return because("workflows.earlier_result") if result and result[1] in all_paths else None


def _has_lost_type(path: str) -> bool:
    """Return whether the elements of a NumPy file have a type unknown to NumPy; conversion decodes them."""
    with suppress(OpdiffError):
        return any(tensor.notes for tensor in read_operator(path).outputs)
    return False


def _job(path: str, name: str, folder: str, options: ConvertOptions) -> ConvertJob:
    nbytes = 0
    with suppress(OSError):  # a file that disappeared fails later, on its own
        nbytes = filesystem.getsize(path)
    return ConvertJob(path, name, os.path.normpath(folder), nbytes, options)


def _refuse_name_clashes(jobs: Collection[ConvertJob]) -> None:
    by_result: dict[tuple[str, str], ConvertJob] = {}
    for job in jobs:
        other = by_result.setdefault((job.folder, os.path.basename(job.path)), job)
        if other is not job:
            problem = because("workflows.same_results", first=other.path, second=job.path)
            raise UsageError(problem)
