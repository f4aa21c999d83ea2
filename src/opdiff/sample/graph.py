"""The network in two forms: as its authors wrote it (golden) and as a graph compiler left it (device)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

    Kernel = Callable[..., Any]
    """Arrays of float64 in, one array or a tuple of arrays out."""


@dataclass(frozen=True, slots=True)
class Port:
    """One output of an operator; prints `conv1:0`, as rule files have it."""

    op: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.op}:{self.index}"


@dataclass(frozen=True, slots=True)
class GoldenOp:
    """An operator of the original model. Its weights are bound to its kernel."""

    name: str
    inputs: tuple[Port, ...]
    kernel: Kernel


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """Weights on the device, with their logical axes."""

    name: str
    array: AnyArray
    dtype: DType
    layout: str
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Output:
    """How an output is stored, and which tensor of the original model it is, if any."""

    dtype: DType
    layout: str
    origin: Port | None = None


@dataclass(frozen=True, slots=True)
class DeviceOp:
    """An operator as it runs on the NPU.

    Attributes:
        inputs: what other operators give it; its kernel gets them first and `consts` after them.
        originals: the operators of the original model that it stands for; none when the compiler inserted it.
        is_part: it does its original operator's work together with others.
        graph_pass: the pass that fused operators of the graph into it, else empty.
        buffer_pass: the pass that fused operators through the unified buffer into it, else empty.
        stream: the queue of the device that it runs in.
    """

    name: str
    type: str
    inputs: tuple[Port, ...]
    kernel: Kernel
    outputs: tuple[Output, ...]
    consts: tuple[Const, ...] = ()
    originals: tuple[str, ...] = ()
    is_part: bool = False
    graph_pass: str = ""
    buffer_pass: str = ""
    stream: int = 3

    @property
    def ports(self) -> tuple[Port, ...]:
        """Its outputs as others refer to them."""
        return tuple(Port(self.name, index) for index in range(len(self.outputs)))


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Both forms, the model's input and the device's results; `given` is the device's input, where it got another."""

    image: AnyArray
    image_name: str
    golden: tuple[GoldenOp, ...]
    device: tuple[DeviceOp, ...]
    results: tuple[Port, ...]
    given: AnyArray | None = None
