"""Requirements of equal results of a replay besides its inputs: the files of the model, and the engine."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.workflows.golden.manifest import hash_files
from opdiff.workflows.golden.onnx_model import read_onnx

if TYPE_CHECKING:
    from opdiff.workflows.golden.manifest import HashedFile
    from opdiff.workflows.replay.options import ReplayOptions


class Requirements(Struct, frozen=True):
    """Model and engine of one process.

    Attributes:
        model: files of the model with their hashes; empty without a model, or if they cannot be read.
        engine: version of ONNX Runtime; empty if it is not installed.
    """

    model: tuple[HashedFile, ...] = ()
    engine: str = ""

    @classmethod
    def of(cls, options: ReplayOptions) -> Requirements:
        """Return the model and engine of this process."""
        return cls(_hashed_model(options), _engine())

    def fulfil(self, wanted: Requirements) -> bool:
        """Return whether a process with this model and engine computes the same; unknown requirements do not count."""
        pairs = (self.model, wanted.model), (self.engine, wanted.engine)
        return all(not other or own == other for own, other in pairs)


def _hashed_model(options: ReplayOptions) -> tuple[HashedFile, ...]:
    if not options.model:
        return ()
    try:
        if options.weights:
            return hash_files((options.model, options.weights))
        model = read_onnx(options.model)
        return hash_files((model.path, *(os.path.join(model.folder, name) for name in model.external_files)))
    except (InputError, OSError):
        return ()


def _engine() -> str:
    try:
        return version("onnxruntime")
    except PackageNotFoundError:
        return ""
