"""FX operators in NumPy, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.codes import AnyArray


def softmax(x: AnyArray, axis: int = -1) -> AnyArray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray((e / e.sum(axis=axis, keepdims=True)).astype(x.dtype))


def layer_norm(x: AnyArray, _shape: Sequence[int], gamma: AnyArray, beta: AnyArray, eps: float) -> list[AnyArray]:
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return [((x - mean) * rstd * gamma + beta).astype(x.dtype), mean.astype(x.dtype), rstd.astype(x.dtype)]


def group_norm(
    x: AnyArray, gamma: AnyArray, beta: AnyArray, n: int, c: int, hw: int, group: int, eps: float
) -> list[AnyArray]:
    grouped = x.reshape(n, group, -1)
    mean = grouped.mean(-1)
    rstd = 1 / np.sqrt(grouped.var(-1) + eps)
    normal = ((grouped - mean[..., None]) * rstd[..., None]).reshape(n, c, hw)
    y = (normal * gamma[:, None] + beta[:, None]).reshape(x.shape)
    return [array.astype(x.dtype) for array in (y, mean, rstd)]


def strided_slice(x: AnyArray, dim: int, start: int, end: int, step: int = 1) -> AnyArray:
    return np.asarray(x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)])


def scatter(x: AnyArray, dim: int, index: AnyArray, src: AnyArray) -> AnyArray:
    result = x.copy()
    np.put_along_axis(result, index, src, dim)
    return result


def index_add(x: AnyArray, dim: int, index: AnyArray, source: AnyArray) -> AnyArray:
    result = x.copy()
    indices: Any = (slice(None),) * dim + (index,)
    np.add.at(result, indices, source)
    return result


def slice_scatter(x: AnyArray, src: AnyArray, dim: int, start: int, end: int) -> AnyArray:
    result = x.copy()
    result[(slice(None),) * dim + (slice(start, end),)] = src
    return result


def select_scatter(x: AnyArray, src: AnyArray, dim: int, index: int) -> AnyArray:
    result = x.copy()
    result[(slice(None),) * dim + (index,)] = src
    return result


def topk(x: AnyArray, k: int, dim: int = -1) -> list[AnyArray]:
    order = np.argsort(-x, axis=dim, kind="stable").take(range(k), axis=dim)
    return [np.take_along_axis(x, order, dim), order.astype(np.int64)]


def sort(x: AnyArray, dim: int = -1) -> list[AnyArray]:
    order = np.argsort(x, axis=dim, kind="stable")
    return [np.take_along_axis(x, order, dim), order.astype(np.int64)]


def pool(x: AnyArray, _size: Sequence[int]) -> list[AnyArray]:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, c, h // 2, w // 2, 4)
    best = parts.argmax(-1)
    rows = np.arange(h // 2)[:, None] * 2 + best // 2
    columns = np.arange(w // 2) * 2 + best % 2
    return [parts.max(-1), (rows * w + columns).astype(np.int64)]


def conv1d(x: AnyArray, weight: AnyArray, bias: AnyArray) -> AnyArray:
    length = x.shape[2] - weight.shape[2] + 1
    parts = np.stack([x[:, :, at : at + weight.shape[2]] for at in range(length)], 2)
    return np.asarray((np.einsum("nclk,ock->nol", parts, weight) + bias[:, None]).astype(x.dtype))


def _kind(a: Any, b: Any) -> Any:
    arrays = [item for item in (a, b) if isinstance(item, np.ndarray)]
    return np.result_type(*arrays)


def index_put(x: AnyArray, indices: Sequence[AnyArray], values: AnyArray) -> AnyArray:
    result = x.copy()
    result[tuple(indices)] = values
    return result


def scatter_add(x: AnyArray, dim: int, index: AnyArray, src: AnyArray) -> AnyArray:
    result = x.copy()
    indices: list[Any] = list(np.indices(index.shape))
    indices[dim] = index
    np.add.at(result, tuple(indices), src)
    return result


FX: dict[str, Callable[..., Any]] = {
    "t": lambda x: x.T,
    "view": lambda x, shape: x.reshape(shape),
    "permute": lambda x, axes: x.transpose(axes),
    "transpose": lambda x, first, second: x.swapaxes(first, second),
    "expand": np.broadcast_to,
    "clone": lambda x: x.copy(),
    "_unsafe_view": lambda x, shape: np.ascontiguousarray(x).reshape(shape),
    "_to_copy": lambda x, dtype="": x.astype(dtype) if dtype else x.copy(),
    "unsqueeze": np.expand_dims,
    "slice": strided_slice,
    "select": lambda x, dim, index: x.take(index, dim),
    "cat": lambda items, dim=0: np.concatenate(items, dim),
    "stack": lambda items, dim=0: np.stack(items, dim),
    "split": lambda x, size, dim=0: np.split(x, range(size, x.shape[dim], size), dim),
    "unbind": lambda x, dim=0: [x.take(index, dim) for index in range(x.shape[dim])],
    "mm": lambda a, b: a @ b,
    "bmm": lambda a, b: a @ b,
    "addmm": lambda c, a, b: (c + a @ b).astype(a.dtype),
    "baddbmm": lambda c, a, b: (c + a @ b).astype(a.dtype),
    "linear": lambda x, w, b: (x @ w.T + b).astype(x.dtype),
    "add": lambda a, b, alpha=1: np.asarray(a + b * alpha).astype(_kind(a, b)),
    "sub": lambda a, b: np.asarray(a - b).astype(_kind(a, b)),
    "rsub": lambda a, b: np.asarray(b - a).astype(_kind(a, b)),
    "mul": lambda a, b: np.asarray(a * b).astype(_kind(a, b)),
    "div": lambda a, b: np.asarray(a / b).astype(_kind(a, b)),
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: (1 / (1 + np.exp(-x))).astype(x.dtype),
    "tanh": np.tanh,
    "silu": lambda x: (x / (1 + np.exp(-x))).astype(x.dtype),
    "rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "pow": lambda x, y: (x**y).astype(x.dtype),
    "mean": lambda x, axes, keep=0: x.mean(tuple(axes), keepdims=bool(keep)).astype(x.dtype),
    "sum": lambda x, axes, keep=0: x.sum(tuple(axes), keepdims=bool(keep)).astype(x.dtype),
    "_softmax": softmax,
    "native_layer_norm": layer_norm,
    "native_group_norm": group_norm,
    "embedding": lambda w, index: w[index],
    "gather": lambda x, dim, index: np.take_along_axis(x, index, dim),
    "index": lambda x, indices: x[tuple(indices)],
    "index_put": index_put,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "index_add": index_add,
    "slice_scatter": slice_scatter,
    "select_scatter": select_scatter,
    "where": np.where,
    "gt": lambda a, b: np.asarray(a > b),
    "eq": lambda a, b: np.asarray(a == b),
    "topk": topk,
    "sort": sort,
    "max": lambda x, dim, keep=0: [
        x.max(dim, keepdims=bool(keep)),
        x.argmax(dim, keepdims=bool(keep)).astype(np.int64),
    ],
    "full": lambda shape, value: np.full(shape, value, np.float32),
    "copy_": lambda _, y: y.copy(),
    "clamp": np.clip,
    "log_sigmoid_forward": lambda x: [(-np.log1p(np.exp(-x))).astype(x.dtype), np.exp(-np.abs(x))],
    "max_pool2d_with_indices": pool,
    "convolution": conv1d,
    "addcmul": lambda x, a, b: (x + a * b).astype(x.dtype),
    "mix": lambda a, b: (a * 0.25 + b).astype(a.dtype),
    "lerp": lambda a, b, w: (a + w * (b - a)).astype(a.dtype),
}
