"""Frozen TensorFlow graphs (`.pb`), run by TensorFlow itself with its optimizer off.

Everything between `Enter` and `Exit` of a loop runs many times and is left out. A tensor of a branch that is not taken
makes the whole fetch fail; the list is halved until such tensors are found.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import InputError, UsageError
from opdiff.core.formatting import size
from opdiff.core.reasons import because
from opdiff.workflows.golden.computing import ComputedTensors
from opdiff.workflows.golden.onnx_model import ELEMENT_TYPES, InputSpec, map_file
from opdiff.workflows.golden.original import Omitted, Operator, OriginalModel, PreparedModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.workflows.golden.computing import Progress
    from opdiff.workflows.golden.model_inputs import ModelInput

_INPUTS = ("Placeholder", "PlaceholderWithDefault")
_ELEMENT_NUMBERS = {dtype.name: number for number, dtype in ELEMENT_TYPES.items()}
_MAX_TENSORS_PER_RUN = 256
# Phrases of errors about tensors of branches that are not taken.
_NOT_COMPUTED = ("does not have value", "dead tensor", "not fetchable")


def import_tensorflow() -> Any:  # noqa: ANN401  TensorFlow is optional and untyped
    """Return the module of TensorFlow.

    Raises:
        UsageError: it is not installed.
    """
    # Other kernels than the portable kernels change results; the variables are read at import.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        import tensorflow as tf
    except ImportError as error:
        raise UsageError(because("golden.needs_tensorflow")) from error
    return tf


class TensorFlowOriginal:
    """A frozen graph."""

    def __init__(self, path: str) -> None:
        self._tensorflow = import_tensorflow()
        self._graph = _import_graph(self._tensorflow, path)
        operations = [item for item in self._graph.get_operations() if item.type != "NoOp"]
        looped = _inside_loops(operations)
        computed = [item for item in operations if item.type not in _INPUTS and item.name not in looped]
        self.original = OriginalModel(
            path,
            (path,),
            b"",
            os.path.dirname(os.path.abspath(path)),
            tuple(_input_spec(item) for item in operations if item.type in _INPUTS),
            (),
            tuple(Operator(item.name, item.type, tuple(out.name for out in item.outputs)) for item in computed),
            omitted=tuple(Omitted(name, because("golden.inside_loop", owner=loop)) for name, loop in looped.items()),
        )

    @property
    def operator_names(self) -> frozenset[str]:
        """Names of all operators."""
        return frozenset(item.name for item in self._graph.get_operations())

    def prepare(self, inputs: Sequence[ModelInput], _libraries: Sequence[str]) -> PreparedModel:
        """Return the graph with its inputs."""
        fed = {f"{item.name}:0": item.codes for item in inputs}

        def compute(paths: Mapping[str, str], progress: Progress, free_nbytes: int) -> ComputedTensors:
            computed = self._compute(fed, paths, free_nbytes)
            progress(computed.nbytes, computed.nbytes)
            return computed

        return PreparedModel(self.original, f"tensorflow {self._tensorflow.__version__}", compute)

    def _compute(self, fed: Mapping[str, AnyArray], paths: Mapping[str, str], free_nbytes: int) -> ComputedTensors:
        nbytes = 0
        not_written: dict[str, Reason] = {}
        with self._tensorflow.compat.v1.Session(graph=self._graph, config=_config(self._tensorflow)) as session:
            for tensor, array in self._fetch(session, fed, list(paths)):
                reason = _reason_to_omit(array)
                if reason is not None:
                    not_written[tensor] = reason
                else:
                    nbytes += _write(paths[tensor], array)
                if nbytes > free_nbytes:
                    raise InputError(self.original.path, because("golden.disk_full", free=size(free_nbytes)))
        return ComputedTensors(nbytes, not_written)

    def _fetch(
        self,
        session: Any,  # noqa: ANN401  untyped
        fed: Mapping[str, AnyArray],
        tensors: list[str],
    ) -> Iterator[tuple[str, AnyArray | None]]:
        """Yield tensors with their values; `None` for tensors that are not computed."""
        if len(tensors) > _MAX_TENSORS_PER_RUN:
            for start in range(0, len(tensors), _MAX_TENSORS_PER_RUN):
                yield from self._fetch(session, fed, tensors[start : start + _MAX_TENSORS_PER_RUN])
            return
        try:
            arrays = session.run(tensors, dict(fed)) if tensors else []
        except (self._tensorflow.errors.OpError, TypeError) as error:
            if len(tensors) == 1:
                if not any(phrase in str(error) for phrase in _NOT_COMPUTED):
                    raise InputError(
                        self.original.path, because("golden.graph_run_failed", error=str(error))
                    ) from error
                yield tensors[0], None
                return
            middle = len(tensors) // 2
            yield from self._fetch(session, fed, tensors[:middle])
            yield from self._fetch(session, fed, tensors[middle:])
            return
        yield from zip(tensors, arrays, strict=True)


def _import_graph(tensorflow: Any, path: str) -> Any:  # noqa: ANN401  untyped
    from google.protobuf.message import DecodeError

    definition = tensorflow.compat.v1.GraphDef()
    try:
        definition.ParseFromString(bytes(map_file(path)))
        graph = tensorflow.Graph()
        with graph.as_default():
            tensorflow.import_graph_def(definition, name="")
    except (DecodeError, ValueError, RuntimeError, tensorflow.errors.OpError) as error:
        raise InputError(path, because("golden.tensorflow_damaged", error=str(error))) from error
    if not definition.node:
        raise InputError(path, because("golden.not_tensorflow"))
    return graph


def _config(tensorflow: Any) -> Any:  # noqa: ANN401  untyped
    """Return a configuration without optimizations."""
    config = tensorflow.compat.v1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def _input_spec(operation: Any) -> InputSpec:  # noqa: ANN401  untyped
    output = operation.outputs[0]
    shape = None if output.shape.rank is None else tuple(output.shape.as_list())
    return InputSpec(operation.name, _ELEMENT_NUMBERS.get(output.dtype.name, 0), shape)


def _inside_loops(operations: Sequence[Any]) -> dict[str, str]:
    """Return the operations of loops, with the name of their `Enter`; the `Exit` itself is outside."""
    found: dict[str, str] = {}
    for enter in (item for item in operations if item.type in ("Enter", "RefEnter")):
        pending = [enter]
        while pending:
            item = pending.pop()
            if item.name in found or item.type in ("Exit", "RefExit"):
                continue
            found[item.name] = enter.name
            pending += [reader for output in item.outputs for reader in output.consumers()]
    return found


def _reason_to_omit(array: AnyArray | None) -> Reason | None:
    if array is None:
        return because("golden.not_computed")
    is_array = isinstance(array, np.ndarray | np.generic)
    kind = str(array.dtype) if is_array else type(array).__name__
    is_numeric = is_array and (array.dtype.kind in "fiubc" or array.dtype.name == "bfloat16")
    return None if is_numeric else because("golden.not_numbers", type=kind)


def _write(path: str, array: AnyArray | None) -> int:
    """Write an array, bfloat16 widened; return its bytes."""
    values = np.asarray(array)
    if values.dtype.kind not in "fiubc":
        values = values.astype(np.float32)
    with open_atomic(path) as file:
        np.save(file, values, allow_pickle=False)
    return values.nbytes
