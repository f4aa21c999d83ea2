"""A network in two forms: the original model (golden) and the compiled graph (device)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

    Kernel = Callable[..., Any]
    """Function from float64 arrays to an array or a tuple of arrays."""
    Attributes = Mapping[str, float | str | tuple[int, ...]]
    """Parameters of an operator by name, as rule files have them."""


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

    @property
    def function(self) -> Kernel:
        """The kernel without its parameters."""
        return self.kernel.func if isinstance(self.kernel, partial) else self.kernel

    @property
    def parameters(self) -> dict[str, Any]:
        """Weights and other parameters of the kernel."""
        return self.kernel.keywords if isinstance(self.kernel, partial) else {}


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """Weights on the device, in logical axis order."""

    name: str
    array: AnyArray
    dtype: DType
    layout: str
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Output:
    """Storage of an output, and the tensor of the original model that it equals, if any."""

    dtype: DType
    layout: str
    origin: Port | None = None


@dataclass(frozen=True, slots=True)
class DeviceOp:
    """An operator as it runs on the NPU.

    Attributes:
        inputs: outputs of other operators; the kernel gets them first, then `consts`.
        originals: operators of the original model that it implements; empty for operators inserted by the compiler.
        is_part: it implements its original operator together with others.
        graph_pass: name of the graph fusion pass that made it, or empty.
        buffer_pass: name of the unified-buffer fusion pass that made it, or empty.
        stream: device stream that it runs in.
        attributes: parameters of its computation.
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
    attributes: Attributes = field(default_factory=dict)

    @property
    def ports(self) -> tuple[Port, ...]:
        """References to its outputs."""
        return tuple(Port(self.name, index) for index in range(len(self.outputs)))


@dataclass(frozen=True, slots=True, eq=False)
class SampleNetwork:
    """Both forms, the model's input, and the device's results.

    Attributes:
        device_image: input of the device, where it differs from `image`.
        axes: axis order of images in the original model. Arrays are in the order NCHW all the same.
    """

    image: AnyArray
    image_name: str
    golden: tuple[GoldenOp, ...]
    device: tuple[DeviceOp, ...]
    results: tuple[Port, ...]
    device_image: AnyArray | None = None
    axes: str = "NCHW"
