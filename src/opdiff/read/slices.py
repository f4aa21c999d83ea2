"""Slices of operators that FFTS+ scheduling divided, and joining them. See docs/formats/sliced-dumps.md."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.core.source import JoinedSlices
from opdiff.read.agreement import joined_doubts, with_doubts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from opdiff.core.tensor import OpDump, Shape, Tensor
    from opdiff.read.filename import DumpName

# Shapes by thread and tensor.
SliceShapes = tuple[tuple["Shape", ...], ...]


class SliceInfo(Struct, frozen=True):
    """Description of all slices of an operator.

    Attributes:
        automatic: whether the scheduler divided the operator; the header then has the full shapes.
        count: number of slices.
        cuts: number of parts along each axis of each output.
        inputs: shapes of the input slices, by thread and tensor.
        outputs: shapes of the output slices, by thread and tensor.
    """

    automatic: bool
    count: int
    cuts: tuple[Shape, ...]
    inputs: SliceShapes
    outputs: SliceShapes

    def cut_axis(self, output: int) -> int | None:
        """Return the first axis along which an output is divided; `None` if it is not."""
        parts = self.cuts[output] if output < len(self.cuts) else ()
        return next((axis for axis, count in enumerate(parts) if count != 1), None)


def parse_attr(operator: OpDump) -> SliceInfo:
    """Parse the JSON description of the slices in a sliced dump."""
    try:
        values = json.loads(operator.attr)
        return SliceInfo(
            automatic=bool(values["threadMode"]),
            count=_count(values.get("slice_instance_num", 1)),
            cuts=tuple(tuple(_count(part) for part in parts) for parts in values.get("outputCutList") or ()),
            inputs=_slice_shapes(values.get("input_tensor_slice")),
            outputs=_slice_shapes(values.get("output_tensor_slice")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DumpError(operator.path, because("read.slice_attr", error=repr(error))) from error


def as_slice(operator: OpDump, name: DumpName) -> OpDump:
    """Return the operator with the shapes of its slice; the header of an automatic slice has the full shapes.

    A slice has no origin shape, because the recorded one is that of the whole tensor.
    """
    if operator.attr.strip() == "{}":
        return with_doubts(operator)
    info = parse_attr(operator)
    if not info.automatic:
        return with_doubts(operator)
    thread = name.slice_number
    slices = replace(
        operator,
        inputs=_with_shapes(operator, operator.inputs, info.inputs, thread),
        outputs=_with_shapes(operator, operator.outputs, info.outputs, thread),
    )
    return with_doubts(slices)


def join_slices(parts: Sequence[tuple[DumpName, OpDump]]) -> OpDump:
    """Join the slices of an operator; its inputs are those of the first slice.

    Of several dumps of the same slice the newest is used.

    Raises:
        DumpError: slices are missing, or do not fit together.
    """
    ordered = sorted(parts, key=lambda part: (part[0].slice_number, part[0].timestamp))
    newest = [list(group)[-1] for _, group in groupby(ordered, key=lambda part: part[0].slice_number)]
    first = newest[0][1]
    info = parse_attr(first)
    if all(info.cut_axis(output) is None for output in range(len(first.outputs))):
        name, operator = max(parts, key=lambda part: part[0].timestamp)
        return as_slice(operator, name)
    if len(newest) != info.count:
        raise DumpError(first.path, because("read.slices_missing", found=len(newest), count=info.count))
    slices = [as_slice(operator, name) for name, operator in newest]
    if len({len(operator.outputs) for operator in slices}) > 1:
        raise DumpError(first.path, because("read.slice_outputs"))
    joined = [_join_output(slices, output, info.cut_axis(output)) for output in range(len(first.outputs))]
    origins = [tensor.spec.origin_shape for tensor in first.outputs]
    return replace(slices[0], outputs=tuple(_with_origin(*pair) for pair in zip(joined, origins, strict=True)))


def _join_output(operators: Sequence[OpDump], output: int, axis: int | None) -> Tensor:
    tensors = [operator.outputs[output] for operator in operators]
    first = tensors[0]
    if axis is None:
        return first
    shapes = tuple(tensor.spec.shape for tensor in tensors)
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(others) > 1 or axis >= len(shapes[0]):
        raise DumpError(operators[0].path, because("read.slices_misfit", shapes=shapes, output=output, axis=axis))
    whole = (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])
    source = JoinedSlices(tuple(tensor.source for tensor in tensors), shapes, axis)
    note = because("read.joined", count=len(tensors), axis=axis)
    spec = replace(first.spec, shape=whole)
    return replace(first, spec=spec, source=source, notes=(*first.notes, note), doubts=joined_doubts(tensors))


def _with_origin(tensor: Tensor, origin_shape: Shape) -> Tensor:
    return replace(tensor, spec=replace(tensor.spec, origin_shape=origin_shape))


def _with_shapes(operator: OpDump, tensors: tuple[Tensor, ...], shapes: SliceShapes, thread: int) -> tuple[Tensor, ...]:
    if not tensors:
        return ()
    slice_shapes = shapes[thread] if thread < len(shapes) else ()
    if len(slice_shapes) != len(tensors):
        problem = because("read.slice_shapes", number=thread, tensors=len(tensors), shapes=len(slice_shapes))
        raise DumpError(operator.path, problem)
    return tuple(
        tensor
        if tensor.spec.shape == shape
        else replace(tensor, spec=replace(tensor.spec, shape=shape, origin_shape=()))
        for tensor, shape in zip(tensors, slice_shapes, strict=True)
    )


def _slice_shapes(threads: Any) -> SliceShapes:  # noqa: ANN401  parsed JSON has no better type
    return tuple(
        tuple(tuple(_count(dim["higher"]) - _count(dim["lower"]) for dim in tensor) for tensor in thread)
        for thread in threads or ()
    )


def _count(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value
