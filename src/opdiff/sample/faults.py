"""Faults that can be planted in the sample: what users of a new compiler or a new kernel run into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from opdiff import dtypes
from opdiff.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from opdiff.elements import AnyArray
    from opdiff.sample.graph import DeviceOp, Kernel, Network

_SCALE = 1.03


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one operator of the device.

    Attributes:
        name: by which it is switched on.
        operator: where it is.
        what: what was done, in words.
        plant: makes the faulty operator from the right one.
    """

    name: str
    operator: str
    what: str
    plant: Callable[[DeviceOp], DeviceOp]


def plant_faults(network: Network, faults: Collection[str]) -> Network:
    """The network with the faults of these names in its device form; what follows is computed from bad numbers."""
    for name in faults:
        if name not in FAULTS:
            raise UsageError(f"there is no fault {name!r} in the sample; its faults are {', '.join(FAULTS)}")
    planted = {FAULTS[name].operator: FAULTS[name].plant for name in faults}
    return replace(
        network,
        device=tuple(planted[op.name](op) if op.name in planted else op for op in network.device),
    )


def _narrowed(op: DeviceOp) -> DeviceOp:
    return replace(op, outputs=tuple(replace(output, dtype=dtypes.FLOAT16) for output in op.outputs))


def _scaled(op: DeviceOp) -> DeviceOp:
    return replace(op, kernel=partial(_scaled_result, op.kernel))


def _scaled_result(kernel: Kernel, *inputs: AnyArray) -> AnyArray:
    result: AnyArray = kernel(*inputs)
    return result * _SCALE


def _transposed(op: DeviceOp) -> DeviceOp:
    return replace(op, kernel=partial(_transposed_result, op.kernel))


def _transposed_result(kernel: Kernel, *inputs: AnyArray) -> AnyArray:
    result: AnyArray = kernel(*inputs)
    return result.swapaxes(2, 3)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "overflow",
            "gate/conv",
            "The results are stored as float16 and not as float32. Those beyond 65504 become infinite; the clip that "
            "follows hides them from the rest of the network.",
            _narrowed,
        ),
        Fault(
            "wrong-scale",
            "local/conv1local/conv1_relu",
            f"All results are {_SCALE} times what they should be.",
            _scaled,
        ),
        Fault(
            "permuted",
            "context/pool",
            "The results are right, but height and width have changed places.",
            _transposed,
        ),
    )
}
