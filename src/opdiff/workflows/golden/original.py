"""The original model as golden data sees it, whatever file it came from: ONNX bytes, inputs and named operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import wire
from opdiff.workflows.golden.onnx_encoder import graph_output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.reasons import Reason
    from opdiff.workflows.golden.onnx_model import InputSpec, ModelBytes

_GRAPH_OF_MODEL = 7


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
