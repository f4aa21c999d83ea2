"""Variants of attributes: other padding, axes, epsilon, pooling and resize modes."""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.judgement import ErrorKind
from opdiff.core.reasons import because
from opdiff.workflows.replay.attributes import read_attributes, with_attributes
from opdiff.workflows.replay.encoded_model import added_node
from opdiff.workflows.replay.variants.variant import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opdiff.core.onnx_encoder import Attribute
    from opdiff.core.reasons import Reason
    from opdiff.workflows.replay.encoded_model import EncodedNode
    from opdiff.workflows.replay.variants.variant import Computation

    Given = Mapping[str, Attribute]
    Changes = Iterator[Given]
    # Takes the attributes, and the rank of the first input.
    Change = Callable[[Given, int], Changes]

_EPSILONS = (1e-5, 1e-3, 1e-6, 1e-12, 1e-8, 1e-4, 1e-7, 1e-2, 0.0, 1e-10)
_MODES = ("nearest", "linear", "cubic")
_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
_NEAREST = ("round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
_MAX_PERMUTED_RANK = 4


def other_parameters(computation: Computation) -> Iterator[Variant]:
    """Yield variants with other values of attributes, attributes of the last operator first."""
    for node in computation.computing_nodes():
        for kind, changes in _CHANGES.get(node.op_type, ()):
            given = read_attributes(computation.encoded, node)
            rank = len(computation.shape_of(node.inputs[0]) or ())
            for changed in changes(given, rank):
                if any(given.get(name) != value for name, value in changed.items()):
                    subgraph = computation.with_node(node, with_attributes(computation.encoded, node, changed))
                    yield Variant(kind, _reason(node, changed), subgraph)


def padded_otherwise(computation: Computation) -> Iterator[Variant]:
    """Yield variants of convolutions whose images are padded with their edges in place of zeros."""
    for node in computation.computing_nodes():
        rank = len(computation.shape_of(node.inputs[0]) or ()) - 2 if node.op_type == "Conv" else 0
        pads = read_attributes(computation.encoded, node).get("pads", ()) if rank > 0 else ()
        if not isinstance(pads, tuple) or len(pads) != 2 * rank or not any(pads):
            continue
        name = f"opdiff:padded:{node.outputs[0]}"
        whole = (0, 0, *pads[:rank], 0, 0, *pads[rank:])
        constant = added_node("Constant", (), f"{name}:pads", value_ints=whole)
        unpadded = with_attributes(computation.encoded, node, {"pads": (0,) * 2 * rank})
        for mode in ("edge", "reflect"):
            pad = added_node("Pad", (node.inputs[0], f"{name}:pads"), name, mode=mode)
            changed = replace(unpadded, inputs=(name, *node.inputs[1:]))
            subgraph = computation.with_node(node, constant, pad, changed)
            yield Variant(ErrorKind.PADDING, _reason(node, {"padding": mode}), subgraph)


def _reason(node: EncodedNode, changed: Given) -> Reason:
    shown = tuple(f"{name}={_shown(value)}" for name, value in changed.items())
    return because("replay.cause_parameter", operator=node.name, op_type=node.op_type, changes=shown)


def _shown(value: Attribute) -> str:
    return f"{value:g}" if isinstance(value, float) else str(list(value)) if isinstance(value, tuple) else str(value)


def _pads(given: Given, rank: int) -> Changes:
    """Other distributions of the same padding: ends exchanged, and the window moved by one."""
    count = rank - 2
    pads = given.get("pads", (0,) * 2 * count)
    if not isinstance(pads, tuple) or count < 1 or len(pads) != 2 * count or not any(pads):
        return
    yield {"pads": (*pads[count:], *pads[:count])}
    for axes in [(axis,) for axis in range(count)] + [tuple(range(count))]:
        for step in (1, -1):
            moved = list(pads)
            for axis in axes:
                moved[axis] += step
                moved[axis + count] -= step
            if min(moved) >= 0:
                yield {"pads": tuple(moved)}


def _other_flag(name: str) -> Change:
    return lambda given, _rank: iter([{name: 1 - int(str(given.get(name, 0)))}])


def _epsilon(given: Given, _rank: int) -> Changes:
    before = float(str(given.get("epsilon", _EPSILONS[0])))
    yield from ({"epsilon": value} for value in _EPSILONS if abs(value - before) > 0.01 * before)


def _axis(_given: Given, rank: int) -> Changes:
    yield from ({"axis": axis} for axis in reversed(range(rank)))


def _axes(given: Given, rank: int) -> Changes:
    """Another axis of a reduction over one axis."""
    axes = given.get("axes")
    if isinstance(axes, tuple) and len(axes) == 1:
        yield from ({"axes": (axis,)} for axis in reversed(range(rank)))


def _perm(given: Given, rank: int) -> Changes:
    perm = given.get("perm", tuple(reversed(range(rank))))
    if isinstance(perm, tuple) and 1 < rank <= _MAX_PERMUTED_RANK:
        yield from ({"perm": order} for order in permutations(range(rank)) if order != perm)


def _resize(given: Given, _rank: int) -> Changes:
    names = "mode", "coordinate_transformation_mode"
    current = str(given.get("mode", _MODES[0]))
    for mode, coordinates in product(sorted(_MODES, key=lambda mode: mode != current), _COORDINATES):
        changed: Given = dict(zip(names, (mode, coordinates), strict=True))
        if mode == "nearest":
            yield from ({**changed, "nearest_mode": nearest} for nearest in _NEAREST)
        else:
            yield changed


def _slope(given: Given, _rank: int) -> Changes:
    values = (0.01, 0.1, 0.2, 0.0, 0.3, 0.5, 1.0)
    yield from ({"alpha": value} for value in values if abs(value - float(str(given.get("alpha", 0.01)))) > 1e-6)


def _hard(_given: Given, _rank: int) -> Changes:
    slopes, offsets = (1 / 6, 0.2), (0.5, 0.0)
    yield from ({"alpha": alpha, "beta": beta} for alpha, beta in product(slopes, offsets))


def _approximation(given: Given, _rank: int) -> Changes:
    yield {"approximate": "none" if given.get("approximate") == "tanh" else "tanh"}


def _pad_mode(_given: Given, _rank: int) -> Changes:
    yield from ({"mode": mode} for mode in ("constant", "edge", "reflect"))


_PADDING = ((ErrorKind.PADDING, _pads),)
_POOLING = ((ErrorKind.PADDING, _other_flag("ceil_mode")), *_PADDING)
_REDUCTION = ((ErrorKind.AXIS, _axes),)
_ANY_AXIS = ((ErrorKind.AXIS, _axis),)
_NORMALIZATION = ((ErrorKind.FUNCTION, _epsilon),)
_CHANGES: dict[str, tuple[tuple[ErrorKind, Change], ...]] = {
    "Conv": _PADDING,
    "ConvTranspose": _PADDING,
    "MaxPool": _POOLING,
    "AveragePool": ((ErrorKind.PADDING, _other_flag("count_include_pad")), *_POOLING),
    "Pad": ((ErrorKind.PADDING, _pad_mode),),
    "BatchNormalization": _NORMALIZATION,
    "LayerNormalization": (*_NORMALIZATION, *_ANY_AXIS),
    "InstanceNormalization": _NORMALIZATION,
    "GroupNormalization": _NORMALIZATION,
    "Softmax": _ANY_AXIS,
    "LogSoftmax": _ANY_AXIS,
    "Concat": _ANY_AXIS,
    "Gather": _ANY_AXIS,
    "ArgMax": _ANY_AXIS,
    "ArgMin": _ANY_AXIS,
    "CumSum": _ANY_AXIS,
    "ReduceMean": _REDUCTION,
    "ReduceSum": _REDUCTION,
    "ReduceMax": _REDUCTION,
    "ReduceMin": _REDUCTION,
    "Transpose": ((ErrorKind.AXIS, _perm),),
    "Resize": ((ErrorKind.FUNCTION, _resize),),
    "LeakyRelu": ((ErrorKind.ACTIVATION, _slope),),
    "HardSigmoid": ((ErrorKind.ACTIVATION, _hard),),
    "Gelu": ((ErrorKind.FUNCTION, _approximation),),
}
"""Changes of attributes by type of the operator, and the kind of error that each would prove."""
