"""Error models of operator types: how much an operator rounds, and how it propagates the errors of its inputs."""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache

from msgspec import Struct


class Propagation(Enum):
    """How the error of an output depends on the errors of the inputs."""

    NONE = auto()
    """Data, constants and markers: nothing is computed."""
    MOVE = auto()
    """The same values at other positions."""
    ADD = auto()
    """Absolute errors add up."""
    MAP = auto()
    """Elementwise, no steeper than the identity."""
    POOL = auto()
    """Means and maxima of neighbours."""
    LINEAR = auto()
    """Sums of products: relative errors are kept."""
    MULTIPLY = auto()
    """Products: relative errors add up."""
    NORMALIZE = auto()
    """Relative to the standard deviation of the input."""
    SOFTMAX = auto()
    """Absolute errors become relative ones."""
    QUANTIZE = auto()
    """One unit of the quantized type."""
    SELECT = auto()
    """Indices instead of values."""
    UNKNOWN = auto()


class OpErrorModel(Struct, frozen=True):
    """Expected errors of the operators of one type.

    Attributes:
        propagation: how errors of inputs reach the output.
        rounding: error that the operator adds, in units of the limit `noise`.
        noise_gain: factor by which rounding errors of the inputs may grow.
        error_gain: factor by which larger errors of the inputs may grow.
        is_absolute: absolute errors are propagated, whatever they are relative to.
        sums_products: elements of the output are sums of products, accumulated in float32.
        sums_pairwise: elements of the output are sums, added in pairs, and each sum is rounded.
        may_cancel: sums may be small against their terms.
        keeps_gain: the output has the systematic errors of the inputs.
    """

    propagation: Propagation
    rounding: float
    noise_gain: float
    error_gain: float
    is_absolute: bool = False
    sums_products: bool = False
    sums_pairwise: bool = False
    may_cancel: bool = False
    keeps_gain: bool = True


_NONE = OpErrorModel(Propagation.NONE, 0.0, 1.0, 1.0, keeps_gain=False)
_MOVE = OpErrorModel(Propagation.MOVE, 0.6, 1.1, 1.5, is_absolute=True)
_ADD = OpErrorModel(Propagation.ADD, 0.75, 1.1, 1.2, is_absolute=True)
_MAP = OpErrorModel(Propagation.MAP, 1.5, 1.25, 1.6, is_absolute=True)
_POOL = OpErrorModel(Propagation.POOL, 1.0, 1.5, 3.5, is_absolute=True, sums_pairwise=True, may_cancel=True)
_LINEAR = OpErrorModel(Propagation.LINEAR, 1.25, 1.75, 5.0, sums_products=True)
_MULTIPLY = OpErrorModel(Propagation.MULTIPLY, 1.0, 1.75, 5.0)
_NORMALIZE = OpErrorModel(Propagation.NORMALIZE, 2.0, 2.5, 8.0, sums_pairwise=True, may_cancel=True)
_SOFTMAX = OpErrorModel(Propagation.SOFTMAX, 2.5, 2.5, 50.0, sums_pairwise=True, may_cancel=True, keeps_gain=False)
_QUANTIZE = OpErrorModel(Propagation.QUANTIZE, 1.0, 1.5, 4.0)
_SELECT = OpErrorModel(Propagation.SELECT, 1.0, 1.5, 50.0, keeps_gain=False)
_UNKNOWN = OpErrorModel(Propagation.UNKNOWN, 2.5, 3.0, 25.0, may_cancel=True, keeps_gain=False)

_TYPES: dict[OpErrorModel, str] = {
    _NONE: "data const constant netoutput refdata variable placeholder",
    _MOVE: "cast transdata transpose reshape flatten identity squeeze unsqueeze expanddims concat concatv split splitv"
    " slice stridedslice pad padv pack unpack tile broadcastto shufflechannel depthtospace spacetodepth gather gatherv"
    " gathernd embedding embeddinglookup select copy memcpyasync permute reverse roll resizenearestneighbor",
    _ADD: "add sub addn biasadd bias eltwise accumulate axpy",
    _MAP: "relu relu6 leakyrelu prelu clip clipbyvalue sigmoid hardsigmoid tanh gelu fastgelu swish silu hardswish mish"
    " elu selu abs neg maximum minimum softplus erf cos sin quickgelu geluv",
    _POOL: "maxpool avgpool averagepool globalaveragepool globalmaxpool pooling adaptiveavgpool reducemean reducemax"
    " reducemin mean",
    _MULTIPLY: "mul muls scale",
    _SOFTMAX: "softmax logsoftmax exp logsumexp",
    _SELECT: "topk argmax argmin nonzero where nonmaxsuppression sort unique",
}
_BY_TYPE = {op_type: model for model, types in _TYPES.items() for op_type in types.split()}
# For other types; the first entry with a part of the type's name applies.
_BY_PART = (
    ("quant", _QUANTIZE),
    ("argmax argmin topk nonmaxsuppression nms", _SELECT),
    ("softmax", _SOFTMAX),
    ("norm", _NORMALIZE),
    ("conv matmul gemm fullyconnection innerproduct dense linear", _LINEAR),
    ("pool", _POOL),
    ("gelu relu", _MAP),
    ("embedding transpose concat slice", _MOVE),
)


def _without_version(op_type: str) -> str:
    """Return the type without a final `V2`, `D` or both."""
    named = op_type.removesuffix("D")
    stem = named.rstrip("0123456789")
    return stem[:-1] if stem != named and stem.endswith("V") else named


@lru_cache(maxsize=1024)
def is_quantizing(op_type: str) -> bool:
    """Return whether the name of the type mentions quantization."""
    return "quant" in op_type.lower()


@lru_cache(maxsize=1024)
def error_model_of(op_type: str) -> OpErrorModel:
    """Return the error model of an operator type such as `MatMulV2`, `ReduceMeanD` or `Softmax`."""
    name = _without_version(op_type).lower().replace("_", "")
    found = _BY_TYPE.get(name) or _BY_TYPE.get(op_type.lower())
    if found is not None:
        return found
    return next((model for parts, model in _BY_PART if any(part in name for part in parts.split())), _UNKNOWN)
