"""Types and shapes of all tensors of an original model: stated by ONNX Runtime, else from one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dtypes import Kind
from opdiff.core.errors import InputError
from opdiff.workflows.golden.computing import find_shapes
from opdiff.workflows.golden.onnx_model import ELEMENT_TYPES
from opdiff.workflows.golden.runtime import FedInput, Runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.onnx_model import InputSpec
    from opdiff.workflows.golden.original import OriginalModel
    from opdiff.workflows.replay.encoded_model import EncodedModel

ELEMENT_NUMBERS = {dtype.name: number for number, dtype in ELEMENT_TYPES.items()}
"""Numbers of element types in ONNX by their names."""

# Where ONNX Runtime has other names for element types.
_OTHER_NAMES = {"float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}


class OriginalType(Struct, frozen=True):
    """Type of a tensor: the number of its element type in ONNX, and its shape if it is known."""

    element: int
    shape: Shape | None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return ELEMENT_TYPES[self.element]


def find_types(encoded: EncodedModel, given_shapes: Mapping[str, Shape], threads: int) -> dict[str, OriginalType]:
    """Return the types of all tensors of numbers.

    Args:
        encoded: the model.
        given_shapes: shapes of inputs that the model leaves open.
        threads: maximum number of threads, if the model must be run; 0 for all cores.

    Raises:
        InputError: ONNX Runtime refuses the model.
    """
    model = encoded.model
    inputs = {spec.name: _input_type(spec, given_shapes) for spec in model.inputs if spec.dtype is not None}
    known = {name: kind for name, kind in inputs.items() if kind.shape is not None}
    is_complete = len(known) == len(model.inputs)
    runner = Runner([_ones(name, kind) for name, kind in known.items()], _dimensions(model, known), (), threads)
    session = runner.open_session(model, model.with_outputs(encoded.producers))
    found = {
        name: OriginalType(element, kind.shape)
        for name, kind in session.output_types().items()
        if (element := _element(kind.text))
    }
    unknown = [name for name, kind in found.items() if kind.shape is None]
    shapes = _run_for_shapes(model, runner, unknown) if is_complete else {}
    return inputs | {name: replace(kind, shape=shapes.get(name, kind.shape)) for name, kind in found.items()}


def _run_for_shapes(model: OriginalModel, runner: Runner, tensors: list[str]) -> dict[str, Shape]:
    """Return shapes by a run on inputs of ones; nothing if the run fails, as for models that expect certain values."""
    try:
        return find_shapes(model, runner, tensors)
    except InputError:
        return {}


def _element(text: str) -> int:
    name = text.removeprefix("tensor(").removesuffix(")")
    return ELEMENT_NUMBERS.get(_OTHER_NAMES.get(name, name), 0) if text.startswith("tensor(") else 0


def _input_type(spec: InputSpec, given: Mapping[str, Shape]) -> OriginalType:
    shape = given.get(spec.name, given.get(""))
    if shape is not None and spec.fits(shape):
        return OriginalType(spec.element, shape)
    if spec.is_open:
        return OriginalType(spec.element, None)
    return OriginalType(spec.element, tuple(dim for dim in spec.shape or () if isinstance(dim, int)))


def _dimensions(model: OriginalModel, known: Mapping[str, OriginalType]) -> dict[str, int]:
    """Return the extents of named dimensions."""
    pairs = [
        pair
        for spec in model.inputs
        if spec.name in known
        for pair in zip(spec.shape or (), known[spec.name].shape or (), strict=False)
    ]
    return {name: extent for name, extent in pairs if isinstance(name, str)}


def _ones(name: str, kind: OriginalType) -> FedInput:
    shape = kind.shape or ()
    if kind.dtype.kind is Kind.FLOAT and not kind.dtype.is_native:
        return FedInput(name, kind.element, np.zeros(shape, kind.dtype.storage))
    return FedInput(name, kind.element, np.ones(shape, kind.dtype.storage))
