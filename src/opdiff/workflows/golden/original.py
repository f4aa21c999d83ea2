"""The original model as golden data sees it, whatever file it came from: ONNX bytes, inputs and named operators.

Each framework has a reader, chosen by the ending of the file's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from opdiff.core import wire
from opdiff.core.errors import UsageError
from opdiff.core.onnx_encoder import graph_output
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.computing import ComputedTensors, Progress
    from opdiff.workflows.golden.model_inputs import ModelInput
    from opdiff.workflows.golden.onnx_model import InputSpec, ModelBytes
    from opdiff.workflows.golden.options import GoldenOptions

_GRAPH_OF_MODEL = 7
_CAFFE_ENDING, _TENSORFLOW_ENDING = ".prototxt", ".pb"


class Operator(Struct, frozen=True):
    """An operator under its name in rule files, and the tensors it produces; an absent tensor is an empty string."""

    name: str
    op_type: str
    outputs: tuple[str, ...]


class Alias(Struct, frozen=True):
    """A second name under which a tensor is written; `replaces` says that it takes the name from an operator."""

    name: str
    tensor: str
    replaces: bool = False


class Omitted(Struct, frozen=True):
    """An operator, or one output of it, that has no file, and the reason."""

    name: str
    reason: Reason


class OriginalModel(Struct, frozen=True):
    """A model that ONNX Runtime can run.

    Attributes:
        path: the file that the user named.
        files: all files of the model, for the manifest.
        data: its bytes as an ONNX model.
        additions: nodes and weights to be added to its graph, encoded.
        folder: folder of external weights.
        inputs: inputs without default value.
        outputs: names of the model's outputs.
        operators: operators in the order of the file.
        aliases: further names of tensors.
        omitted: operators whose tensors cannot be computed.
    """

    path: str
    files: tuple[str, ...]
    data: ModelBytes
    folder: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[str, ...]
    operators: tuple[Operator, ...]
    additions: bytes = b""
    aliases: tuple[Alias, ...] = ()
    omitted: tuple[Omitted, ...] = ()

    def with_outputs(self, tensors: Iterable[str], nodes: bytes = b"") -> bytes:
        """Return the model's bytes with more outputs and nodes.

        Protobuf merges repeated messages, so that one more graph field at the end extends the graph.
        """
        outputs = b"".join(graph_output(name) for name in dict.fromkeys(tensors) if name not in self.outputs)
        return b"".join((self.data, wire.block(_GRAPH_OF_MODEL, self.additions + nodes + outputs)))


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
