"""Golden data of an original model, from its file to a directory that `compare` takes.

model ──names──► operators ──plan──► files ◄──run── inputs
                                      └──► directory: arrays, links for second names, manifest
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import codes as elements
from opdiff.core.atomic_file import fill_folder, open_atomic
from opdiff.core.tensor import file_safe_name
from opdiff.workflows.convert.result_names import write_mapping
from opdiff.workflows.golden.compiled_model import check_original, fitting_shapes, read_compiled
from opdiff.workflows.golden.file_plan import plan_files
from opdiff.workflows.golden.manifest import describe_run, find_manifest, write_manifest
from opdiff.workflows.golden.model_inputs import load_inputs
from opdiff.workflows.golden.original import Omitted, read_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.workflows.golden.computing import Progress
    from opdiff.workflows.golden.file_plan import FilePlan
    from opdiff.workflows.golden.manifest import Manifest
    from opdiff.workflows.golden.model_inputs import ModelInput
    from opdiff.workflows.golden.options import GoldenOptions
    from opdiff.workflows.golden.original import PreparedModel

    Notify = Callable[[Reason], None]

_INPUT_FOLDER = "inputs"
_KEY_DIGITS = 16


class GoldenResult(Struct, frozen=True):
    """A golden directory that was written.

    Attributes:
        folder: the directory.
        files: number of golden files.
        nbytes: bytes of their elements.
        omitted: operators, or outputs of them, without a file.
        input_files: raw files of random inputs, for the run on the NPU.
        is_reused: whether the directory was there already.
    """

    folder: str
    files: int
    nbytes: int
    omitted: tuple[Omitted, ...]
    input_files: tuple[str, ...] = ()
    is_reused: bool = False


def make_golden(options: GoldenOptions, notify: Notify, progress: Progress) -> GoldenResult:
    """Run a model and write the outputs of its operators.

    Args:
        options: model, inputs and output directory.
        notify: takes remarks before the model runs.
        progress: takes bytes done and in total.

    Raises:
        UsageError: the options do not fit the model, or an engine is not installed.
        InputError: the model, an input or a rule file cannot be used.
        OSError: a file cannot be written.
    """
    compiled = read_compiled(options.rules) if options.rules else None
    source = read_source(options, compiled.shapes if compiled else {})
    specs = source.original.inputs
    if compiled:
        names = {*source.operator_names, *(spec.name for spec in specs)}
        for note in check_original(compiled, options.model, names, force=options.force):
            notify(note)
    inputs = load_inputs(specs, options, fitting_shapes(compiled.shapes, specs) if compiled else {})
    manifest = describe_run(source.original.files, inputs, options)
    target = os.path.join(options.output, f"golden-{manifest.key[:_KEY_DIGITS]}") if options.reuse else options.output
    present = find_manifest(target) if options.reuse else None
    if present is not None and present.key == manifest.key:
        return GoldenResult(target, present.files, present.nbytes, (), is_reused=True)
    prepared = source.prepare(inputs, options.libraries)
    needed = compiled.compared if compiled and options.only_needed else None
    run = _Run(prepared, inputs, plan_files(prepared.model, options, time.time_ns() // 1000, needed), manifest)
    with fill_folder(target) as folder:
        result = run.write(folder, progress)
    files = tuple(os.path.join(target, name) for name in result.input_files)
    return replace(result, folder=target, input_files=files)


class _Run(Struct, frozen=True):
    """A model with its inputs, the files to write, and the manifest as far as it is known before the run."""

    prepared: PreparedModel
    inputs: tuple[ModelInput, ...]
    plan: FilePlan
    manifest: Manifest

    def write(self, folder: str, progress: Progress) -> GoldenResult:
        """Write all files of the run to a folder; paths in the result are relative to it."""
        own = {item.name for item in self.inputs}
        computed_files = {tensor: names for tensor, names in self.plan.files.items() if tensor not in own}
        paths = {tensor: os.path.join(folder, names[0]) for tensor, names in computed_files.items()}
        computed = self.prepared.compute(paths, progress, shutil.disk_usage(folder).free)
        nbytes = computed.nbytes + self._write_inputs(folder)
        files = {tensor: names for tensor, names in self.plan.files.items() if tensor not in computed.not_written}
        for names in files.values():
            _link(folder, names)
        if self.plan.renamed:
            write_mapping(folder, self.plan.renamed)
        omitted = (*self.plan.omitted, *self._not_numbers(computed.not_written))
        result = GoldenResult(folder, sum(map(len, files.values())), nbytes, omitted, self._write_random(folder))
        write_manifest(folder, self._filled_manifest(result))
        return result

    def _write_inputs(self, folder: str) -> int:
        """Write the inputs as outputs of `Data` operators; return their bytes."""
        nbytes = 0
        for item in self.inputs:
            array = elements.decode(item.codes, item.dtype)
            for name in self.plan.files.get(item.name, ())[:1]:
                with open_atomic(os.path.join(folder, name)) as file:
                    np.save(file, array, allow_pickle=False)
                nbytes += array.nbytes
        return nbytes

    def _write_random(self, folder: str) -> tuple[str, ...]:
        """Write random inputs as raw files, for the run on the NPU; return their names."""
        random = [item for item in self.inputs if item.is_random]
        if random:
            os.mkdir(os.path.join(folder, _INPUT_FOLDER))
        names = [os.path.join(_INPUT_FOLDER, f"{file_safe_name(item.name)}.bin") for item in random]
        for name, item in zip(names, random, strict=True):
            with open_atomic(os.path.join(folder, name)) as file:
                file.write(item.codes.tobytes())
        return tuple(names)

    def _not_numbers(self, reasons: dict[str, Reason]) -> list[Omitted]:
        return [
            Omitted(operator.name, reasons[tensor])
            for operator in self.prepared.model.operators
            for tensor in operator.outputs
            if tensor in reasons and tensor in self.plan.files
        ]

    def _filled_manifest(self, result: GoldenResult) -> Manifest:
        without: dict[str, list[str]] = {}
        for item in result.omitted:
            without.setdefault(item.reason.code.removeprefix("golden."), []).append(item.name)
        return replace(
            self.manifest,
            engine=self.prepared.engine,
            files=result.files,
            nbytes=result.nbytes,
            without_file={code: tuple(dict.fromkeys(names)) for code, names in without.items()},
        )


def _link(folder: str, names: Sequence[str]) -> None:
    """Make the further names of a file: links to it, or copies where the file system has no links."""
    first = os.path.join(folder, names[0])
    for name in names[1:]:
        try:
            os.link(first, os.path.join(folder, name))
        except OSError:
            shutil.copyfile(first, os.path.join(folder, name))
