"""What operators do to errors, by type: how much they round, and how much they can enlarge what they are given."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class Flow(StrEnum):
    """In which way the error of an output depends on those of the inputs."""

    NONE = "it holds or marks something"
    MOVE = "the same numbers elsewhere"
    ADD = "absolute errors add up"
    MAP = "each number by itself, no steeper than the identity"
    POOL = "means and maxima of neighbours"
    LINEAR = "sums of products: relative errors stay"
    TIMES = "products: relative errors add up"
    NORM = "relative to the deviation of the input"
    SOFT = "absolute errors become relative ones"
    QUANT = "a step of the quantized type"
    PICK = "places, not numbers"
    OTHER = "nothing is known"


class Trait(NamedTuple):
    """What is expected of the operators of a type.

    Attributes:
        flow: how errors pass.
        rounds: what it adds, in units of the limit `noise`.
        calm: how many times its inputs' rounding errors may grow.
        rough: how many times larger errors of its inputs may grow.
        is_absolute: absolute errors pass, whatever they are relative to.
    """

    flow: Flow
    rounds: float
    calm: float
    rough: float
    is_absolute: bool = False


_NONE = Trait(Flow.NONE, 0.0, 1.0, 1.0)
_MOVE = Trait(Flow.MOVE, 0.6, 1.1, 1.5, is_absolute=True)
_ADD = Trait(Flow.ADD, 0.75, 1.1, 1.2, is_absolute=True)
_MAP = Trait(Flow.MAP, 1.5, 1.25, 1.6, is_absolute=True)
_POOL = Trait(Flow.POOL, 1.0, 1.5, 3.5, is_absolute=True)
_LINEAR = Trait(Flow.LINEAR, 1.25, 1.75, 5.0)
_TIMES = Trait(Flow.TIMES, 1.0, 1.75, 5.0)
_NORM = Trait(Flow.NORM, 2.0, 2.5, 8.0)
_SOFT = Trait(Flow.SOFT, 2.5, 2.5, 50.0)
_QUANT = Trait(Flow.QUANT, 1.0, 1.5, 4.0)
_PICK = Trait(Flow.PICK, 1.0, 1.5, 50.0)
_OTHER = Trait(Flow.OTHER, 2.5, 3.0, 25.0)

_BY_NAME: dict[str, Trait] = {
    **dict.fromkeys(["data", "const", "constant", "netoutput", "refdata", "variable", "placeholder"], _NONE),
    **dict.fromkeys(
        [
            "cast",
            "transdata",
            "transpose",
            "reshape",
            "flatten",
            "identity",
            "squeeze",
            "unsqueeze",
            "expanddims",
            "concat",
            "concatv",
            "split",
            "splitv",
            "slice",
            "stridedslice",
            "pad",
            "padv",
            "pack",
            "unpack",
            "tile",
            "broadcastto",
            "shufflechannel",
            "depthtospace",
            "spacetodepth",
            "gather",
            "gatherv",
            "gathernd",
            "embedding",
            "embeddinglookup",
            "select",
            "copy",
            "memcpyasync",
            "permute",
            "reverse",
            "roll",
            "resizenearestneighbor",
        ],
        _MOVE,
    ),
    **dict.fromkeys(["add", "sub", "addn", "biasadd", "bias", "eltwise", "accumulate", "axpy"], _ADD),
    **dict.fromkeys(
        [
            "relu",
            "relu6",
            "leakyrelu",
            "prelu",
            "clip",
            "clipbyvalue",
            "sigmoid",
            "hardsigmoid",
            "tanh",
            "gelu",
            "fastgelu",
            "swish",
            "silu",
            "hardswish",
            "mish",
            "elu",
            "selu",
            "abs",
            "neg",
            "maximum",
            "minimum",
            "softplus",
            "erf",
            "cos",
            "sin",
            "quickgelu",
            "geluv",
        ],
        _MAP,
    ),
    **dict.fromkeys(
        [
            "maxpool",
            "avgpool",
            "averagepool",
            "globalaveragepool",
            "globalmaxpool",
            "pooling",
            "adaptiveavgpool",
            "reducemean",
            "reducemax",
            "reducemin",
            "mean",
        ],
        _POOL,
    ),
    **dict.fromkeys(["mul", "muls", "scale"], _TIMES),
    **dict.fromkeys(["softmax", "logsoftmax", "exp", "logsumexp"], _SOFT),
    **dict.fromkeys(["topk", "argmax", "argmin", "nonzero", "where", "nonmaxsuppression", "sort", "unique"], _PICK),
}
# What else a type may be called; the first that is a part of its name counts.
_BY_PART = (
    ("quant", _QUANT),
    ("argmax", _PICK),
    ("argmin", _PICK),
    ("topk", _PICK),
    ("nonmaxsuppression", _PICK),
    ("nms", _PICK),
    ("softmax", _SOFT),
    ("norm", _NORM),
    ("conv", _LINEAR),
    ("matmul", _LINEAR),
    ("gemm", _LINEAR),
    ("fullyconnection", _LINEAR),
    ("innerproduct", _LINEAR),
    ("dense", _LINEAR),
    ("linear", _LINEAR),
    ("pool", _POOL),
    ("gelu", _MAP),
    ("relu", _MAP),
    ("embedding", _MOVE),
    ("transpose", _MOVE),
    ("concat", _MOVE),
    ("slice", _MOVE),
)


def _without_version(op_type: str) -> str:
    """What stands before `V2`, `D` or both."""
    named = op_type.removesuffix("D")
    stem = named.rstrip("0123456789")
    return stem[:-1] if stem != named and stem.endswith("V") else named


@lru_cache(maxsize=1024)
def is_quantizing(op_type: str) -> bool:
    """Whether operators of a type have to do with quantized numbers, by its name."""
    return "quant" in op_type.lower()


@lru_cache(maxsize=1024)
def trait_of(op_type: str) -> Trait:
    """What is expected of a type of operators: `MatMulV2`, `ReduceMeanD`, `Softmax` and so on."""
    name = _without_version(op_type).lower().replace("_", "")
    found = _BY_NAME.get(name) or _BY_NAME.get(op_type.lower())
    if found is not None:
        return found
    return next((trait for part, trait in _BY_PART if part in name), _OTHER)
