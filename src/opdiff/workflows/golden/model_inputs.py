"""Data for the inputs of a model: files of the user, tensors of an NPU dump, or random numbers on request."""

from __future__ import annotations

import os
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from opdiff.align import convert
from opdiff.core import codes as elements
from opdiff.core.dtypes import FLOAT32, Kind
from opdiff.core.errors import DumpError, ElementError, InputError, LayoutError, UsageError
from opdiff.core.reasons import Reason, Status, because, quoted
from opdiff.core.source import FileRange
from opdiff.core.tensor import Tensor, TensorSpec, file_safe_name
from opdiff.read import read_operator
from opdiff.read.dump import read_dump
from opdiff.workflows.golden.runtime import FedInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.dump import Dump
    from opdiff.core.tensor import Shape
    from opdiff.workflows.golden.onnx_model import Dimension, InputSpec
    from opdiff.workflows.golden.options import GoldenOptions

Given = TypeVar("Given")


class ModelInput(FedInput, frozen=True):
    """Data of one input.

    Attributes:
        dtype: its element type.
        origin: the file, or how the data was made.
        is_random: whether the numbers are random.
    """

    dtype: DType
    origin: str
    is_random: bool = False


def load_inputs(
    specs: Sequence[InputSpec], options: GoldenOptions, known_shapes: Mapping[str, Shape]
) -> tuple[ModelInput, ...]:
    """Load the data of all inputs.

    Args:
        specs: inputs of the model.
        options: files and shapes of the user.
        known_shapes: shapes by input that a rule file declares.

    Raises:
        UsageError: an input has no data, or a name is none of the inputs.
        InputError: a file does not fit its input.
    """
    files = _by_input(specs, options.inputs, "--input")
    shapes = {**known_shapes, **_by_input(specs, options.shapes, "--shape")}
    _refuse_missing(specs, files, options)
    without_file = [spec for spec in specs if spec.name not in files]
    dumped = _find_dumped(options.input_dump, without_file) if options.input_dump else {}
    found = []
    for number, spec in enumerate(specs):
        shape = shapes.get(spec.name)
        if spec.name in files:
            found.append(_read(spec, files[spec.name], shape))
        elif spec.name in dumped:
            codes, origin = dumped[spec.name]
            found.append(_input(spec, _checked(codes, spec, shape, origin), origin))
        else:
            found.append(_random(spec, _full_shape(spec, shape, "random data"), (options.seed or 0, number)))
    return tuple(found)


def free_dimensions(specs: Sequence[InputSpec], inputs: Sequence[ModelInput]) -> dict[str, int]:
    """Return the extents of named dimensions, as far as all inputs agree on them."""
    found: dict[str, set[int]] = {}
    for spec, item in zip(specs, inputs, strict=True):
        for dim, extent in zip(spec.shape or (), item.codes.shape, strict=False):
            if isinstance(dim, str):
                found.setdefault(dim, set()).add(extent)
    return {name: extents.pop() for name, extents in found.items() if len(extents) == 1}


def _by_input(specs: Sequence[InputSpec], given: Mapping[str, Given], option: str) -> dict[str, Given]:
    """Return what the user gave by name of the input; the empty name stands for the only input."""
    names = [spec.name for spec in specs]
    if "" in given and len(names) != 1:
        raise UsageError(because("golden.input_name_needed", option=option, inputs=_listed(specs)))
    # TensorFlow calls the output of a placeholder `name:0`.
    plain = {name: name if name in names else name.removesuffix(":0") for name in given}
    named = {plain[name] or names[0]: value for name, value in given.items()}
    unknown = next((name for name in named if name not in names), None)
    if unknown is not None:
        raise UsageError(because("golden.no_such_input", option=option, name=unknown, inputs=_listed(specs)))
    return named


def _refuse_missing(specs: Sequence[InputSpec], files: Mapping[str, str], options: GoldenOptions) -> None:
    for spec in specs:
        if spec.dtype is None:
            raise UsageError(because("golden.cannot_run_input", name=spec.name))
    missing = [spec for spec in specs if spec.name not in files]
    if missing and options.seed is None and not options.input_dump:
        raise UsageError(because("golden.no_data", inputs=_listed(missing), name=missing[0].name))


def _listed(specs: Sequence[InputSpec]) -> Reason:
    shown = [because("golden.input", name=spec.name, type=_type(spec), shape=_shape(spec.shape)) for spec in specs]
    if not shown:
        return because("golden.no_inputs")
    # One after the other, because tuples of reasons are joined as sentences.
    return reduce(lambda first, second: because("golden.inputs", first=first, second=second), shown)


def _type(spec: InputSpec) -> Reason:
    return because("golden.no_tensor") if spec.dtype is None else quoted(str(spec.dtype))


def _shape(shape: Sequence[Dimension] | None) -> Reason:
    if shape is None:
        return because("golden.any_shape")
    return quoted("[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]")


def _read(spec: InputSpec, path: str, shape: Shape | None) -> ModelInput:
    try:
        codes = _read_npy(spec, path) if path.endswith(".npy") else _read_raw(spec, path, shape)
        return _input(spec, _checked(codes, spec, shape, path), path)
    except DumpError as error:
        raise InputError(path, error.brief) from error


def _read_npy(spec: InputSpec, path: str) -> AnyArray:
    tensor = read_operator(path).outputs[0]
    wanted = spec.dtype
    if tensor.spec.dtype is not wanted:
        problem = because("golden.other_type", dtype=str(tensor.spec.dtype), name=spec.name, wanted=str(wanted))
        raise InputError(path, problem)
    return tensor.codes()


def _read_raw(spec: InputSpec, path: str, shape: Shape | None) -> AnyArray:
    extents = _full_shape(spec, shape, os.path.basename(path))
    try:
        nbytes = os.stat(path).st_size
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    dtype = _dtype(spec)
    needed = dtype.nbytes(prod(extents))
    if nbytes != needed:
        hint = because("golden.perhaps_float16") if dtype is FLOAT32 and 2 * nbytes == needed else None
        listed = because("golden.input", name=spec.name, type=_type(spec), shape=_shape(extents))
        raise InputError(path, because("golden.input_nbytes", nbytes=nbytes, input=listed, needed=needed, hint=hint))
    return Tensor(TensorSpec(dtype, extents, "ND"), FileRange(path, 0, nbytes)).codes()


def _full_shape(spec: InputSpec, shape: Shape | None, purpose: str) -> Shape:
    """Return a shape without free dimensions.

    Raises:
        UsageError: some extents are not known.
    """
    if shape is not None:
        return shape
    if spec.is_open:
        raise UsageError(because("golden.open_shape", name=spec.name, shape=_shape(spec.shape), purpose=purpose))
    return tuple(dim for dim in spec.shape or () if isinstance(dim, int))


def _checked(codes: AnyArray, spec: InputSpec, shape: Shape | None, origin: str) -> AnyArray:
    """Return contiguous codes whose shape fits the input."""
    if shape is not None and codes.shape != shape:
        raise InputError(origin, because("golden.shape_differs", shape=codes.shape, wanted=shape))
    if not spec.fits(codes.shape):
        wanted = _shape(spec.shape)
        raise InputError(origin, because("golden.input_shape", shape=codes.shape, name=spec.name, wanted=wanted))
    return np.ascontiguousarray(codes).reshape(codes.shape)


def _input(spec: InputSpec, codes: AnyArray, origin: str, *, is_random: bool = False) -> ModelInput:
    return ModelInput(spec.name, spec.element, codes, _dtype(spec), origin, is_random)


def _dtype(spec: InputSpec) -> DType:
    assert spec.dtype is not None  # noqa: S101  refused before
    return spec.dtype


def _random(spec: InputSpec, shape: Shape, seed: tuple[int, int]) -> ModelInput:
    """Return floats from 0 to 1, or integers 0 and 1, which are valid indices of nearly every table."""
    generator = np.random.default_rng(seed)
    dtype = _dtype(spec)
    codes: AnyArray
    if dtype.kind is not Kind.FLOAT:
        codes = generator.integers(0, 2, shape).astype(dtype.storage)
    elif dtype.is_native:
        codes = generator.random(shape).astype(dtype.storage)
    else:
        raise UsageError(because("golden.no_random", name=spec.name, dtype=str(dtype)))
    return _input(spec, codes, f"random, seed {seed[0]}", is_random=True)


def _find_dumped(path: str, specs: Sequence[InputSpec]) -> dict[str, tuple[AnyArray, str]]:
    """Return data and origin of inputs by name: the output of the AIPP operator, or of the input itself.

    AIPP turns 8-bit images into the tensor that the original model takes. Where the compiler fused AIPP into a
    convolution, there is no such file.

    Raises:
        InputError: the dump cannot be read, or has no data for an input.
    """
    dump = read_dump(path)
    return {spec.name: _load_dumped(_dumped_tensor(dump, spec, alone=len(specs) == 1), spec) for spec in specs}


def _dumped_tensor(dump: Dump, spec: InputSpec, *, alone: bool) -> Tensor:
    own = dump.operators.get(file_safe_name(spec.name))
    if own is not None and 0 in own.outputs:
        return own.outputs[0]
    prepared = [op.outputs[0] for op in dump.operators.values() if op.op_type == "Aipp" and 0 in op.outputs]
    if len(prepared) == 1 and alone:
        return prepared[0]
    raise InputError(dump.path, because("golden.no_aipp_output", name=spec.name))


def _load_dumped(tensor: Tensor, spec: InputSpec) -> tuple[AnyArray, str]:
    """Return the tensor in the layout and type of the original input: the first channels, as float32."""
    path = tensor.source.path
    try:
        codes = tensor.codes()
        if tensor.spec.layout not in ("ND", "NCHW"):
            codes = convert(codes, tensor.spec, "NCHW").codes
        values = elements.decode(codes, tensor.spec.dtype)
    except (LayoutError, ElementError) as error:
        raise InputError(path, error.reason) from error
    channels = spec.shape[1] if spec.shape is not None and len(spec.shape) == 4 else None
    if isinstance(channels, int) and values.ndim == 4 and channels < values.shape[1]:
        values = values[:, :channels]
    return np.ascontiguousarray(values, _dtype(spec).storage), path
