"""Operators of the graph engine (GE), and converters from FX to them, modelled on TorchAir."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

import fx_kernels
from fx_kernels import FX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lowered_graphs import Network
    from opdiff.core.codes import AnyArray


TYPE_NUMBERS = {"float32": 0, "float16": 1, "int32": 3, "uint8": 4, "int64": 9, "bool": 12}
# The input that operators update in place. The runtime dumps inputs after the operator.
_UPDATED = {"InplaceIndexAdd": "var", "ScatterNdUpdate": "var", "Assign": "ref"}
# FX operators that become one operator with the same operands: its type, and the names of its inputs.
_DIRECT = {
    "bmm": ("BatchMatMul", "x1 x2"), "clamp": ("ClipByValueV2", "x clip_value_min clip_value_max"),
    "clone": ("Identity", "x"), "copy_": ("Assign", "ref value"), "lerp": ("Lerp", "start end weight"),
    "mm": ("MatMul", "x1 x2"), "neg": ("Neg", "x"), "relu": ("Relu", "x"), "rsqrt": ("Rsqrt", "x"),
    "sigmoid": ("Sigmoid", "x"), "silu": ("Swish", "x"), "tanh": ("Tanh", "x"),
}  # fmt: skip
# FX operators of two operands, tensors or numbers.
_BINARY = {"div": "RealDiv", "eq": "Equal", "gt": "Greater", "pow": "Pow", "sub": "Sub"}
MOVING = frozenset(
    {
        "Reshape", "Transpose", "Identity", "TensorMove", "Unsqueeze", "Squeeze", "Cast", "BroadcastTo", "ConcatV2",
        "StridedSliceV2", "GatherV2", "GatherElements", "SplitV", "Unpack", "Pack", "Tile", "Assign", "ExpandDims",
        "ScatterElements", "SelectV2", "IndexByTensor",
    }
)  # fmt: skip


@dataclass(eq=False)
class GeTensor:
    """An output of an operator."""

    op: GeOp
    index: int
    array: AnyArray
    fx: str = ""
    described: bool = True
    # Whether the values differ from those of FX.
    is_stand_in: bool = False

    @property
    def edge(self) -> str:
        return f"{self.op.name}:{self.index}"


@dataclass(eq=False)
class GeOp:
    """A GE operator; an input of `None` is optional and not connected."""

    name: str
    op_type: str
    inputs: list[tuple[str, GeTensor | None]]
    attributes: dict[str, Any]
    outputs: list[GeTensor] = field(default_factory=list)
    # FX names of the inputs when the operator was created.
    input_fx: list[str] = field(default_factory=list)

    @property
    def output_name(self) -> str:
        """The name of the output's descriptor: that of the input which is updated in place, if there is one."""
        return _UPDATED.get(self.op_type, "y")

    def dumped_inputs(self) -> Iterator[tuple[GeTensor, AnyArray, bool]]:
        """The tensors that are fed, what the dump has of them, and whether that is the result already."""
        for name, tensor in self.inputs:
            if tensor is not None:
                is_updated = name == self.output_name
                yield tensor, self.outputs[0].array if is_updated else tensor.array, is_updated


class Lowering:
    """One converter for each FX operator; `result` is the result of FX."""

    def __init__(self, network: Network) -> None:
        self.net = network

    def lower(self, target: str, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Any:
        """Return the GE tensor of an FX node, or a list of them."""
        if target in _DIRECT:
            op_type, names = _DIRECT[target]
            inputs = dict(zip(names.split(), args, strict=True))
            return self._one(op_type, inputs, FX[target](*(tensor.array for tensor in args)))
        if target in _BINARY:
            first, second = args
            return self._binary(_BINARY[target], first, second, FX[target], result.dtype)
        converter = getattr(self, target)
        more = {"result": result} if "result" in signature(converter).parameters else {}
        return converter(*args, **kwargs, **more)

    def _one(self, op_type: str, inputs: dict[str, Any], result: AnyArray, **attributes: Any) -> GeTensor:
        return self.net.op(op_type, inputs, result, **attributes).outputs[0]

    def materialized(self, source: GeTensor, order: AnyArray) -> GeTensor:
        """Materialize a view by at most a reshape, a transpose and a reshape."""
        shape = source.array.shape
        strides = tuple(stride // order.itemsize for stride in order.strides)
        if order.shape == shape and order.flags.c_contiguous:
            return source
        axes = [axis for axis, extent in enumerate(order.shape) if extent != 1]
        by_stride = sorted(axes, key=lambda axis: -strides[axis])
        if by_stride != axes:
            before = [order.shape[axis] for axis in by_stride]
            if before != list(shape):
                source = self.reshape(source, before, described=False)
            perm = [by_stride.index(axis) for axis in axes]
            source = self.transposed(source, perm)
            if source.array.shape != order.shape:
                source = self.reshape(source, list(order.shape))
            return source
        return self.reshape(source, list(order.shape))

    def reshape(self, x: GeTensor, shape: Sequence[int], *, described: bool = True) -> GeTensor:
        inputs = {"x": x, "shape": np.array(shape, np.int64)}
        return self._one("Reshape", inputs, x.array.reshape(shape), described=described)

    def transposed(self, x: GeTensor, perm: Sequence[int]) -> GeTensor:
        inputs = {"x": x, "perm": np.array(perm, np.int64)}
        return self._one("Transpose", inputs, np.ascontiguousarray(x.array.transpose(perm)))

    def cast(self, x: GeTensor, dtype: Any) -> GeTensor:
        kind = np.dtype(dtype)
        if x.array.dtype == kind:
            return x
        return self._one("Cast", {"x": x}, x.array.astype(kind), dst_type=TYPE_NUMBERS[str(kind)])

    def _promoted(self, x: Any, dtype: Any) -> Any:
        return self.cast(x, dtype) if isinstance(x, GeTensor) else np.asarray(x).astype(dtype)

    def _binary(self, op_type: str, a: Any, b: Any, how: Callable[..., Any], dtype: Any) -> GeTensor:
        """Lower an operator of two operands, which are cast to the type of its result unless it compares them."""
        common = a.array.dtype if dtype == np.bool_ else dtype
        first, second = (self.net.constant(self._promoted(item, common)) for item in (a, b))
        result = np.asarray(how(first.array, second.array))
        return self._one(op_type, {"x1": first, "x2": second}, result.astype(dtype))

    def _unary(self, op_type: str, x: GeTensor, how: Callable[..., Any]) -> GeTensor:
        return self._one(op_type, {"x": x}, np.asarray(how(x.array)).astype(x.array.dtype))

    def expand(self, x: GeTensor, shape: Sequence[int]) -> GeTensor:
        if x.array.shape == tuple(shape):
            return x
        inputs = {"x": x, "shape": np.array(shape, np.int64)}
        return self._one("BroadcastTo", inputs, np.broadcast_to(x.array, shape).copy())

    def _unsafe_view(self, x: GeTensor, shape: Sequence[int]) -> GeTensor:
        return self.reshape(x, shape)

    def _to_copy(self, x: GeTensor, dtype: str = "") -> GeTensor:
        return self.cast(x, dtype) if dtype and dtype != str(x.array.dtype) else self._unary("TensorMove", x, np.copy)

    def unsqueeze(self, x: GeTensor, dim: int) -> GeTensor:
        return self._one("Unsqueeze", {"x": x}, np.expand_dims(x.array, dim), axes=[dim])

    def slice(self, x: GeTensor, dim: int, start: int, end: int, step: int = 1, *, result: AnyArray) -> GeTensor:
        if result.shape == x.array.shape:
            return x
        numbers = {"begin": [start], "end": [end], "axes": [dim], "strides": [step]}
        inputs = {"x": x, **{key: np.array(value, np.int64) for key, value in numbers.items()}}
        return self._one("StridedSliceV2", inputs, fx_kernels.strided_slice(x.array, dim, start, end, step).copy())

    def select(self, x: GeTensor, dim: int, index: int) -> GeTensor:
        inputs = {"x": x, "indices": np.int64(index), "axis": np.array([dim], np.int64)}
        return self._one("GatherV2", inputs, x.array.take(index, dim))

    def cat(self, items: list[GeTensor], dim: int = 0, *, result: AnyArray) -> GeTensor:
        inputs: dict[str, Any] = {f"x{index}": self.cast(item, result.dtype) for index, item in enumerate(items)}
        arrays = [tensor.array for tensor in inputs.values()]
        return self._one("ConcatV2", {**inputs, "concat_dim": np.int64(dim)}, np.concatenate(arrays, dim), N=len(items))

    def stack(self, items: list[GeTensor], dim: int = 0) -> GeTensor:
        inputs = {f"x{index}": item for index, item in enumerate(items)}
        return self._one("Pack", inputs, np.stack([item.array for item in items], dim), axis=dim, N=len(items))

    def split(self, x: GeTensor, size: int, dim: int = 0) -> list[GeTensor]:
        parts = FX["split"](x.array, size, dim)
        inputs = {"x": x, "size_splits": np.array([part.shape[dim] for part in parts]), "split_dim": np.int32(dim)}
        return self.net.op("SplitV", inputs, *[part.copy() for part in parts], num_split=len(parts)).outputs

    def unbind(self, x: GeTensor, dim: int = 0, *, result: list[AnyArray]) -> list[GeTensor]:
        return self.net.op("Unpack", {"x": x}, *FX["unbind"](x.array, dim), axis=dim, num=len(result)).outputs

    def _matmul(
        self, op_type: str, a: GeTensor, b: GeTensor, bias: GeTensor | None = None, *, optional: bool = True
    ) -> GeTensor:
        inputs = {"x1": a, "x2": b} | ({"bias": bias, "offset_w": None} if optional else {})
        result = a.array @ b.array + (0 if bias is None else bias.array)
        return self._one(op_type, inputs, result.astype(a.array.dtype))

    def addmm(self, c: GeTensor, a: GeTensor, b: GeTensor) -> GeTensor:
        one = self.net.constant(np.ones((), a.array.dtype))
        if a.array.dtype == np.float16 and c.array.ndim == 1:
            return self._matmul("MatMulV2", a, b, c)
        product = self._matmul("MatMulV2", a, b)
        scaled = self._one("Mul", {"x1": product, "x2": one}, product.array, described=False)
        return self._one("Add", {"x1": scaled, "x2": c}, scaled.array + c.array)

    def baddbmm(self, c: GeTensor, a: GeTensor, b: GeTensor) -> GeTensor:
        product = self._matmul("BatchMatMul", a, b, optional=False)
        one = np.ones((), a.array.dtype)
        scaled = self._one("Mul", {"x1": product, "x2": one}, product.array)
        weighted = self._one("Mul", {"x1": c, "x2": one}, c.array)
        return self._one("Add", {"x1": scaled, "x2": weighted}, scaled.array + weighted.array)

    def linear(self, x: GeTensor, w: GeTensor, b: GeTensor) -> GeTensor:
        turned = self.transposed(w, list(range(w.array.ndim))[::-1])
        product = self._matmul("BatchMatMulV2" if x.array.ndim > 2 else "MatMulV2", x, turned)
        return self._one("Add", {"x1": product, "x2": b}, (product.array + b.array).astype(x.array.dtype))

    def add(self, a: Any, b: Any, alpha: float = 1, *, result: AnyArray) -> GeTensor:
        if alpha == 1:
            return self._binary("Add", a, b, np.add, result.dtype)
        first, second = (self._promoted(item, result.dtype) for item in (a, b))
        inputs = {"x1": first, "x2": second, "alpha": np.asarray(alpha, result.dtype)}
        return self._one("AxpyV2", inputs, (first.array + alpha * second.array).astype(result.dtype))

    def rsub(self, a: Any, b: Any, result: AnyArray) -> GeTensor:
        return self._binary("Sub", b, a, np.subtract, result.dtype)

    def mul(self, a: Any, b: Any, result: AnyArray) -> GeTensor:
        if not isinstance(b, GeTensor) and result.dtype == np.float16:
            made = self._one("Muls", {"x": a}, (a.array * b).astype(np.float16))
            return self._one("Cast", {"x": made}, made.array, dst_type=1)
        made = self._binary("Mul", a, b, np.multiply, result.dtype)
        made.described = False
        return self._one("Cast", {"x": made}, made.array, dst_type=TYPE_NUMBERS[str(result.dtype)])

    def _softmax(self, x: GeTensor, axis: int = -1) -> GeTensor:
        return self._unary("SoftmaxV2", x, lambda array: fx_kernels.softmax(array, axis))

    def mean(self, x: GeTensor, axes: Sequence[int], keep: int = 0) -> GeTensor:
        return self._one("ReduceMean", {"x": x, "axes": np.array(axes, np.int64)}, FX["mean"](x.array, axes, keep))

    def sum(self, x: GeTensor, axes: Sequence[int], keep: int = 0) -> GeTensor:
        return self._one("ReduceSum", {"x": x, "axes": np.array(axes, np.int64)}, FX["sum"](x.array, axes, keep))

    def native_layer_norm(self, x: GeTensor, shape: Any, gamma: GeTensor, beta: GeTensor, eps: float) -> list[GeTensor]:
        inputs = {"x": x, "normalized_shape": np.array(shape, np.int64), "gamma": gamma, "beta": beta}
        results = fx_kernels.layer_norm(x.array, shape, gamma.array, beta.array, eps)
        return self.net.op("LayerNormV4", inputs, *results).outputs

    def native_group_norm(self, x: GeTensor, gamma: GeTensor, beta: GeTensor, n: int, c: int, hw: int, group: int,
                          eps: float) -> list[GeTensor]:  # fmt: skip
        y, mean, rstd = fx_kernels.group_norm(x.array, gamma.array, beta.array, n, c, hw, group, eps)
        variance = (rstd**-2 - eps).astype(rstd.dtype)
        normal = self.net.op("GroupNorm", {"x": x, "gamma": gamma, "beta": beta}, y, mean, variance)
        added = self._binary("Add", normal.outputs[2], eps, np.add, rstd.dtype)
        return [*normal.outputs[:2], self._unary("Rsqrt", added, FX["rsqrt"])]

    def embedding(self, w: GeTensor, index: GeTensor) -> GeTensor:
        return self._one("GatherV2", {"x": w, "indices": index, "axis": np.array([0], np.int64)}, w.array[index.array])

    def gather(self, x: GeTensor, dim: int, index: GeTensor) -> GeTensor:
        made = np.take_along_axis(x.array, index.array, dim)
        return self._one("GatherElements", {"x": x, "index": index}, made, dim=dim)

    def index(self, x: GeTensor, indices: list[GeTensor]) -> GeTensor:
        promoted = {f"indices{number}": self.cast(index, np.int64) for number, index in enumerate(indices)}
        made = x.array[tuple(item.array for item in promoted.values())]
        return self._one("IndexByTensor", {"x": x, **promoted}, made)

    def index_put(self, x: GeTensor, indices: list[GeTensor], values: GeTensor) -> GeTensor:
        coordinates = np.stack([item.array for item in indices], -1)
        stacked = self._one("Pack", {f"x{number}": item for number, item in enumerate(indices)}, coordinates, axis=-1)
        copied = self._unary("TensorMove", x, np.copy)
        made = fx_kernels.index_put(x.array, [item.array for item in indices], values.array)
        return self._one("ScatterNdUpdate", {"var": copied, "indices": stacked, "updates": values}, made)

    def scatter(self, x: GeTensor, dim: int, index: GeTensor, src: GeTensor) -> GeTensor:
        made = fx_kernels.scatter(x.array, dim, index.array, src.array)
        return self._one("ScatterElements", {"data": x, "indices": index, "updates": src}, made, axis=dim)

    def scatter_add(self, x: GeTensor, dim: int, index: GeTensor, src: GeTensor) -> GeTensor:
        made = fx_kernels.scatter_add(x.array, dim, index.array, src.array)
        return self._one("ScatterElements", {"data": x, "indices": index, "updates": src}, made, axis=dim)

    def index_add(self, x: GeTensor, dim: int, index: GeTensor, source: GeTensor) -> GeTensor:
        shape = self._one("Shape", {"x": source}, np.array(source.array.shape, np.int32), dtype=3)
        narrow = self.cast(index, np.int32)
        repeated = self._one("BroadcastTo", {"x": source, "shape": shape}, source.array.copy())
        copied = self._unary("TensorMove", x, np.copy)
        made = fx_kernels.index_add(x.array, dim, index.array, source.array)
        inputs = {"var": copied, "indices": narrow, "updates": repeated, "alpha": np.ones((), x.array.dtype)}
        return self._one("InplaceIndexAdd", inputs, made, axis=dim)

    def slice_scatter(self, x: GeTensor, src: GeTensor, dim: int, start: int, end: int, result: AnyArray) -> GeTensor:
        if src.array.shape == x.array.shape:
            return src
        before = self.slice(x, dim, 0, start, result=fx_kernels.strided_slice(x.array, dim, 0, start))
        after = self.slice(x, dim, end, 2**31 - 1, result=fx_kernels.strided_slice(x.array, dim, end, 2**31 - 1))
        return self.cat([before, src, after], dim, result=result)

    def select_scatter(self, x: GeTensor, src: GeTensor, dim: int, index: int) -> GeTensor:
        shape = self._one("Shape", {"x": x}, np.array(x.array.shape, np.int32), dtype=3)
        coordinates = np.full(x.array.shape, index, np.int64)
        indices = self._one("BroadcastTo", {"x": np.int64(index), "shape": shape}, coordinates)
        wide = self._one("ExpandDims", {"x": src, "axis": np.int64(dim)}, np.expand_dims(src.array, dim))
        made = np.broadcast_to(wide.array, x.array.shape).copy()
        repeated = self._one("BroadcastTo", {"x": wide, "shape": shape}, made)
        inputs = {"data": x, "indices": indices, "updates": repeated}
        return self._one("ScatterElements", inputs, fx_kernels.select_scatter(x.array, src.array, dim, index), axis=dim)

    def where(self, condition: GeTensor, a: Any, b: Any, result: AnyArray) -> GeTensor:
        first, second = (self.net.constant(self._promoted(item, result.dtype)) for item in (a, b))
        made = np.where(condition.array, first.array, second.array)
        return self._one("SelectV2", {"condition": condition, "then": first, "else": second}, made)

    def topk(self, x: GeTensor, k: int, dim: int = -1) -> list[GeTensor]:
        return self._ordered("TopKV2", {"k": np.int64(k)}, x, dim, lambda array: fx_kernels.topk(array, k))

    def sort(self, x: GeTensor, dim: int = -1) -> list[GeTensor]:
        return self._ordered("Sort", {}, x, dim, fx_kernels.sort)

    def _ordered(self, op_type: str, more: dict[str, Any], x: GeTensor, dim: int, how: Any) -> list[GeTensor]:
        """Lower operators that sort the last axis; other axes are transposed to the end and back."""
        perm = list(range(x.array.ndim))
        perm[dim], perm[-1] = perm[-1], perm[dim]
        is_last = perm == sorted(perm)
        source = x if is_last else self.transposed(x, perm)
        values, indices = how(source.array)
        found = self.net.op(op_type, {"x": source, **more}, values, indices.astype(np.int32)).outputs
        found[1].described = False
        if not is_last:
            found = [self.transposed(item, perm) for item in found]
        return [found[0], self.cast(found[1], np.int64)]

    def max(self, x: GeTensor, dim: int, keep: int = 0) -> list[GeTensor]:
        values, indices = FX["max"](x.array, dim, keep)
        found = self.net.op("ArgMaxWithValue", {"x": x}, indices.astype(np.int32), values, dimension=dim).outputs
        found[0].described = False
        return [found[1], self.cast(found[0], np.int64)]

    def full(self, shape: Sequence[int], value: float, result: AnyArray) -> GeTensor:
        return self._one("Fill", {"dims": np.array(shape, np.int64), "value": np.float32(value)}, result)

    def log_sigmoid_forward(self, x: GeTensor) -> list[GeTensor]:
        """The buffer is not computed: a copy of the input stands in for it, and has its name."""
        made = self._unary("LogSigmoid", x, lambda array: FX["log_sigmoid_forward"](array)[0])
        instead = self._unary("Identity", x, np.copy)
        instead.is_stand_in = True
        return [made, instead]

    def max_pool2d_with_indices(self, x: GeTensor, size: Any) -> list[GeTensor]:
        """The indices are not computed; the values replace them under their name."""
        values, indices = fx_kernels.pool(x.array, size)
        pooled = self.net.op("MaxPoolWithArgmaxV1", {"x": x}, values, indices).outputs[0]
        instead = self.cast(self._unary("Identity", pooled, np.copy), np.int64)
        instead.is_stand_in = True
        return [pooled, instead]

    def convolution(self, x: GeTensor, weight: GeTensor, bias: GeTensor) -> GeTensor:
        wide, filters = (
            self._one("Unsqueeze", {"x": item}, np.expand_dims(item.array, 2), axes=[2]) for item in (x, weight)
        )
        made = np.expand_dims(fx_kernels.conv1d(x.array, weight.array, bias.array), 2)
        convolved = self._one("Conv2D", {"x": wide, "filter": filters, "bias": bias, "offset_w": None}, made)
        return self._one("Squeeze", {"x": convolved}, np.squeeze(convolved.array, 2), axis=[2])

    def addcmul(self, x: GeTensor, a: GeTensor, b: GeTensor) -> GeTensor:
        inputs = {"input_data": x, "x1": a, "x2": b, "value": np.ones((), x.array.dtype)}
        return self._one("Addcmul", inputs, FX["addcmul"](x.array, a.array, b.array))

    def mix(self, a: GeTensor, b: GeTensor) -> GeTensor:
        """Lower an operator of unknown type with swapped inputs."""
        return self._one("Mix", {"base": b, "part": a}, (a.array * 0.25 + b.array).astype(a.array.dtype))
