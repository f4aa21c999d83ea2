"""Which files to convert, and where the results go."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.read import read_operator
from opdiff.read.directory import real_name, scan
from opdiff.read.filename import is_hashed
from opdiff.workflows.convert.result_names import Form

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from opdiff.align.custom import Custom
    from opdiff.core.tensor import Shape, Slot

# Files beside dumps that are never dumps themselves; arrays are left alone only where nothing would change.
_NOT_DUMPS = (".csv", ".json", ".txt", ".bin", ".pt", ".log", ".md", ".py", ".sh", ".onnx", ".om", ".pbtxt")
_UNCHANGED = {Form.NPY: (".npy", ".npz"), Form.MSNPY: (".npy", ".npz"), Form.NPZ: (".npz",)}
# What `convert` itself puts behind the name of a dump.
_RESULT = re.compile(r"(.+?)\.(?:(?:input|output)\..+\.npy|npz)")


class ConvertOptions(NamedTuple):
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
    index: int | None = None  # type: ignore[assignment]  # hides tuple.index
    custom: Custom | None = None


class ConvertJob(NamedTuple):
    """One dump file, its real name, and the folder for its results."""

    path: str
    name: str
    folder: str
    nbytes: int
    options: ConvertOptions


class ConvertPlan(NamedTuple):
    """What is to be done, and what was left out, with the reason."""

    jobs: tuple[ConvertJob, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def plan_conversion(paths: Sequence[str], options: ConvertOptions) -> ConvertPlan:
    """The jobs for files and directory trees. The results of a tree keep its folders.

    Raises:
        InputError: a path does not exist.
        UsageError: the options do not fit the paths, or two results would have one name.
    """
    if options.shape and (len(paths) > 1 or any(os.path.isdir(path) for path in paths)):
        raise UsageError("--shape is the shape of one file's tensors; give one file")
    # What is named twice is done once.
    jobs: dict[ConvertJob, None] = {}
    skipped: list[tuple[str, str]] = []
    for path in dict.fromkeys(paths):
        if os.path.isdir(path):
            found = _plan_tree(path, options)
            jobs.update(dict.fromkeys(found.jobs))
            skipped += found.skipped
        elif os.path.exists(path):
            jobs[_job(path, real_name(path), options.output, options)] = None
        else:
            raise InputError(path, "no such file or directory")
    _refuse_name_clashes(jobs)
    return ConvertPlan(tuple(jobs), tuple(skipped))


def _plan_tree(root: str, options: ConvertOptions) -> ConvertPlan:
    tree = scan(root)
    # A hash is name enough for a result, whether or not the real name is known.
    nameless = {problem.path for problem in tree.problems if _is_nameless_file(problem.path)}
    skipped = [(problem.path, str(problem.reason)) for problem in tree.problems if problem.path not in nameless]
    files = [(entry.path, entry.name) for entry in tree.entries()]
    files += [(path, os.path.basename(path)) for path in (*tree.strangers, *sorted(nameless))]
    own_results = _output_inside(root, options.output)
    files = [file for file in files if not (own_results and file[0].startswith(own_results))]
    paths = {path for path, _ in files}
    jobs = []
    for path, name in files:
        reason = _why_not(path, name, paths, options)
        if reason:
            skipped.append((path, reason))
        else:
            below = os.path.relpath(os.path.dirname(path), root)
            jobs.append(_job(path, name, os.path.join(options.output, below), options))
    return ConvertPlan(tuple(jobs), tuple(skipped))


def _is_nameless_file(path: str) -> bool:
    return is_hashed(os.path.basename(path)) and os.path.isfile(path) and not os.path.islink(path)


def _output_inside(root: str, output: str) -> str:
    """How paths of the tree begin that are in the output folder and so are results; empty if that is elsewhere."""
    below = os.path.relpath(os.path.realpath(output), os.path.realpath(root))
    is_inside = below != os.curdir and below.split(os.sep)[0] != os.pardir
    return os.path.join(root, below, "") if is_inside else ""


def _why_not(path: str, name: str, beside: Collection[str], options: ConvertOptions) -> str:
    if name.endswith(_NOT_DUMPS):
        return "not a dump file"
    if not options.layout and name.endswith(_UNCHANGED.get(options.form, ())) and not _lost_its_type(path):
        return "a NumPy file already"
    result = _RESULT.fullmatch(path)
    return "the result of an earlier conversion" if result and result[1] in beside else ""


def _lost_its_type(path: str) -> bool:
    """Whether a NumPy file has elements that NumPy does not know; converting it gives numbers."""
    with suppress(OpdiffError):
        return any(tensor.notes for tensor in read_operator(path).outputs)
    return False


def _job(path: str, name: str, folder: str, options: ConvertOptions) -> ConvertJob:
    nbytes = 0
    with suppress(OSError):  # a file that went away fails when its turn comes, and alone
        nbytes = os.path.getsize(path)
    return ConvertJob(path, name, os.path.normpath(folder), nbytes, options)


def _refuse_name_clashes(jobs: Collection[ConvertJob]) -> None:
    places: dict[tuple[str, str], ConvertJob] = {}
    for job in jobs:
        other = places.setdefault((job.folder, os.path.basename(job.path)), job)
        if other is not job:
            problem = f"{other.path} and {job.path} would have the same results; convert them into different folders"
            raise UsageError(problem)
