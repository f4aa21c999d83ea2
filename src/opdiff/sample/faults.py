"""Faults that can be injected into the sample network, typical of a new compiler or a new kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from opdiff.core import dtypes
from opdiff.core.errors import UsageError
from opdiff.core.reasons import Reason, because

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import DeviceOp, Kernel, SampleNetwork

    Corruption = Callable[[AnyArray], AnyArray]

_SCALE = 1.03


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one device operator.

    Attributes:
        name: identifier for `write_sample`.
        operator: the faulty operator.
        description: effect of the fault.
        make_faulty: returns the faulty operator for the sound one.
    """

    name: str
    operator: str
    description: Reason
    make_faulty: Callable[[DeviceOp], DeviceOp]


def choose(names: Collection[str]) -> tuple[Fault, ...]:
    """Return the faults of these names, in the order of the table.

    Raises:
        UsageError: there is no such fault.
    """
    require_known(names, FAULTS)
    return tuple(fault for fault in FAULTS.values() if fault.name in names)


def require_known(names: Iterable[str], faults: Collection[str]) -> None:
    """Refuse names that are none of the faults."""
    for name in names:
        if name not in faults:
            raise UsageError(because("sample.no_such_fault", name=name, names=tuple(faults)))


def inject(network: SampleNetwork, faults: Iterable[Fault]) -> SampleNetwork:
    """Return the network with faulty device operators; operators downstream compute with the wrong values."""
    faulty = {fault.operator: fault.make_faulty for fault in faults}
    device = tuple(faulty[op.name](op) if op.name in faulty else op for op in network.device)
    return replace(network, device=device)


def corrupt_output(op: DeviceOp, corruption: Corruption) -> DeviceOp:
    """Return the operator with a corruption of its (only) output."""
    return replace(op, kernel=partial(_run_corrupted, op.kernel, corruption))


def _run_corrupted(kernel: Kernel, corruption: Corruption, *inputs: AnyArray) -> AnyArray:
    return corruption(kernel(*inputs))


def _store_as_float16(op: DeviceOp) -> DeviceOp:
    return replace(op, outputs=tuple(replace(output, dtype=dtypes.FLOAT16) for output in op.outputs))


def _scale(x: AnyArray) -> AnyArray:
    return x * _SCALE


def swap_height_and_width(x: AnyArray) -> AnyArray:
    """Return images with transposed planes."""
    return x.swapaxes(2, 3)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("overflow", "gate/conv", because("sample.stored_as_float16"), _store_as_float16),
        Fault(
            "wrong-scale",
            "local/conv1local/conv1_relu",
            because("sample.multiplied", factor=_SCALE),
            partial(corrupt_output, corruption=_scale),
        ),
        Fault(
            "permuted",
            "context/pool",
            because("sample.swapped"),
            partial(corrupt_output, corruption=swap_height_and_width),
        ),
    )
}
