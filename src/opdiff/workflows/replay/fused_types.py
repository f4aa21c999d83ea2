"""Compositions of a fused operator whose parts are known by the names of its original operators only.

A wrong composition could hide a missing activation. Each original operator has to be accounted for: folded into the
weights, a sum with the last input, or an activation, which its name has to confirm if it names one.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.workflows.replay.types import BUILDERS
from opdiff.workflows.replay.types.call import UnsupportedOperatorError
from opdiff.workflows.replay.types.linear import guess_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.graph import RuleOp
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder

_FOLDED = ("bn", "batch", "norm", "scale", "bias", "fold", "quant")
# Words of activations in names of operators; the first that occurs counts. Empty: has parameters that are not known.
_ACTIVATIONS = {
    "leaky": "", "prelu": "", "relu6": "Relu6", "relu": "Relu", "hardswish": "HardSwish", "hardsigmoid": "HardSigmoid",
    "swish": "Swish", "silu": "Swish", "sigmoid": "Sigmoid", "tanh": "Tanh", "gelu": "Gelu", "elu": "", "mish": "Mish",
    "clip": "Relu6",
}  # fmt: skip
_UNNAMED = ("Relu", "Relu6", "Sigmoid", "Tanh", "Swish", "HardSwish", "Gelu")


def is_fused(operator: RuleOp, call: Call) -> bool:
    """Return whether other operators were compiled into an operator, which its attributes do not say."""
    return len(_originals(operator)) > 1 or bool(operator.buffer_passes) or call.get("fusion_scope", 0) > 0


def compositions(builder: Builder, operator: RuleOp, call: Call) -> Iterator[tuple[Builder, Call]]:
    """Yield the operator with each composition that may be fused into it, and with the attributes that it lost."""
    words = [name.rpartition("/")[2].lower().replace("_", "") for name in _originals(operator)]
    named = [end for word in words if (end := _activation(word)) is not None]
    folded = sum(any(hint in word for hint in _FOLDED) for word in words[1:] if _activation(word) is None)
    steps = max(len(words) - 1 - folded, 0) if len(words) > 1 else 1
    ends = tuple(named) or _UNNAMED
    builders = list(_with_steps(builder, steps, ends if len(named) <= 1 else ()))
    yield from product(builders, _guesses(call))


def _originals(operator: RuleOp) -> list[str]:
    return [name for name in operator.originals if name]


def _activation(word: str) -> str | None:
    return next((end for hint, end in _ACTIVATIONS.items() if hint in word), None)


def _with_steps(builder: Builder, steps: int, ends: tuple[str, ...]) -> Iterator[Builder]:
    """Yield an operator with this number of steps behind it: none, a sum or an activation, or both."""
    known = [BUILDERS[end] for end in ends if end]
    if steps == 0:
        yield builder
    if steps == 1:
        yield from (partial(_with_end, builder, end) for end in known)
        if ends == _UNNAMED:
            yield partial(_with_sum, builder)
    if steps == 2:
        yield from (partial(_with_end, partial(_with_sum, builder), end) for end in known)


def _guesses(call: Call) -> list[Call]:
    """Return the operator with the attributes that it lost when it was fused, guessed by its shapes."""
    if call.op_type != "Conv2D" or "strides" in call.attributes:
        return [call]
    return [replace(call, attributes={**call.attributes, **window}) for window in guess_windows(call)]


def _single(result: str | list[str]) -> str:
    return result if isinstance(result, str) else result[0]


def _with_end(builder: Builder, end: Builder, graph: OnnxBuilder, call: Call) -> str:
    """Build an operator and an activation of its result."""
    operand = replace(call.operand(0), tensor=_single(builder(graph, call)), shape=call.output_shapes[0])
    return _single(end(graph, replace(call, attributes={}, operands=(operand,))))


def _with_sum(builder: Builder, graph: OnnxBuilder, call: Call) -> str:
    """Build an operator whose last input is added to its result."""
    if len(call.operands) < 3 or call.operands[-1].shape != call.output_shapes[0]:
        raise UnsupportedOperatorError("nothing to add")
    result = builder(graph, replace(call, operands=call.operands[:-1]))
    return graph.add("Add", [_single(result), call.operands[-1].tensor])
