"""Files of original models: one reader for each framework, chosen by the name's ending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from opdiff.core.errors import UsageError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.computing import ComputedTensors, Progress
    from opdiff.workflows.golden.model_inputs import ModelInput
    from opdiff.workflows.golden.options import GoldenOptions
    from opdiff.workflows.golden.original import OriginalModel

_CAFFE_ENDING, _TENSORFLOW_ENDING = ".prototxt", ".pb"


class PreparedModel(Struct, frozen=True):
    """A model whose inputs are known.

    Attributes:
        model: the model, with the operators of branches that run.
        engine: name and version of the engine.
        compute: computes tensors into files: path by tensor, progress, and free disk space.
    """

    model: OriginalModel
    engine: str
    compute: Callable[[Mapping[str, str], Progress, int], ComputedTensors]


class ModelSource(Protocol):
    """A model file that was read."""

    @property
    def original(self) -> OriginalModel:
        """The model before its inputs are known."""

    @property
    def operator_names(self) -> frozenset[str]:
        """Names of all operators, including operators that do not run."""

    def prepare(self, inputs: Sequence[ModelInput], libraries: Sequence[str]) -> PreparedModel:
        """Return the model ready to run."""


def read_source(options: GoldenOptions, known_shapes: Mapping[str, Shape]) -> ModelSource:
    """Read a model.

    Raises:
        UsageError: files do not belong together, or an engine is not installed.
        InputError: a file cannot be used.
    """
    if options.model.endswith(_CAFFE_ENDING) or options.weights:
        from opdiff.workflows.golden.caffe.translation import CaffeOriginal

        if not options.weights:
            raise UsageError(because("golden.caffe_two_files"))
        return CaffeOriginal(options.model, options.weights, {**known_shapes, **options.shapes})
    if options.model.endswith(_TENSORFLOW_ENDING):
        from opdiff.workflows.golden.tensorflow_graph import TensorFlowOriginal

        if options.libraries:
            raise UsageError(because("golden.library_for_onnx"))
        return TensorFlowOriginal(options.model)
    from opdiff.workflows.golden.onnx_original import OnnxOriginal

    return OnnxOriginal(options.model, allow_unknown=bool(options.libraries))
