"""Faults that can be planted in the sample: what users of a new compiler or a new kernel run into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from opdiff.core import dtypes
from opdiff.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from opdiff.core.codes import AnyArray
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


def choose(names: Collection[str]) -> tuple[Fault, ...]:
    """The faults of these names, in the order of the table."""
    for name in names:
        if name not in FAULTS:
            raise UsageError(f"there is no fault {name!r} in the sample; its faults are {', '.join(FAULTS)}")
    return tuple(fault for fault in FAULTS.values() if fault.name in names)


def plant(network: Network, faults: Iterable[Fault]) -> Network:
    """The network with faults in its device form; what follows them is computed from bad numbers."""
    spoil = {fault.operator: fault.plant for fault in faults}
    device = tuple(spoil[op.name](op) if op.name in spoil else op for op in network.device)
    return replace(network, device=device)


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
