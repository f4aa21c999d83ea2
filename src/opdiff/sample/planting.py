"""Faults of every kind, planted at any operator of a network, and the files of the two runs."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import dtypes
from opdiff.sample import ops
from opdiff.sample.device import dump_files, rounded, run_device
from opdiff.sample.golden import golden_files, run_golden
from opdiff.sample.graph import Port
from opdiff.sample.rules import rule_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.sample.graph import DeviceOp, Kernel, Network

    Spoil = Callable[[AnyArray], AnyArray]


@dataclass(frozen=True, slots=True)
class Planted:
    """A network with a fault, and what is to be found.

    Attributes:
        network: with the fault in it.
        operators: any of which may be named.
        kinds: any of which is the right kind.
    """

    network: Network
    operators: tuple[str, ...]
    kinds: tuple[str, ...]


def _scaled(x: AnyArray) -> AnyArray:
    return x * 1.08


def _moved(x: AnyArray) -> AnyArray:
    moved: AnyArray = x + 0.3 * x.std()
    return moved


def _permuted(x: AnyArray) -> AnyArray:
    if x.ndim == 4 and x.shape[2] == x.shape[3] > 1:
        return x.swapaxes(2, 3)
    return np.roll(x, 1, axis=-1)


def _one_channel(x: AnyArray) -> AnyArray:
    made = x.copy()
    if x.ndim == 4 and x.shape[1] >= 8:
        made[:, 3] = made[:, 3] * -0.5 + x.std()
    else:
        made[..., 3] = made[..., 3] * -0.5 + x.std()
    return made


def _overflowing(x: AnyArray) -> AnyArray:
    made = x.copy()
    made.reshape(-1)[:: max(x.size // 5, 1)] = np.inf
    return made


def _zero(x: AnyArray) -> AnyArray:
    return np.zeros_like(x)


def _few(x: AnyArray) -> AnyArray:
    made = x.copy()
    flat = made.reshape(-1)
    flat[[1, x.size // 2, x.size - 2]] = 6 * np.abs(x).max()
    return made


RESULTS: dict[str, tuple[Spoil, tuple[str, ...]]] = {
    "scale": (_scaled, ("scale",)),
    "offset": (_moved, ("offset",)),
    "permuted": (_permuted, ("permuted",)),
    # A channel of a single row is a single element.
    "channel": (_one_channel, ("channel", "outliers")),
    "overflow": (_overflowing, ("overflow",)),
    "zero": (_zero, ("memory",)),
    "outliers": (_few, ("outliers",)),
}
OTHERS = ("foreign", "accumulation", "fusion", "input-swap", "input-scale", "clipping", "zero-point")
FAULTS = (*RESULTS, *OTHERS)

_LONG_SUM = 32


def plant(network: Network, fault: str, place: float) -> Planted | None:
    """The fault at an operator that is this part (0..1) of the way through; `None` where there is no such operator."""
    if fault in RESULTS:
        spoil, kinds = RESULTS[fault]
        op = _pick([op for op in network.device if _is_computing(op)], place)
        return _planted(network, op, replace(op, kernel=partial(_spoilt, op.kernel, spoil)), kinds)
    if fault.startswith("input"):
        return _bad_input(network, fault)
    if fault in ("clipping", "zero-point"):
        return _bad_quantization(network, fault, place)
    return {"foreign": _foreign, "accumulation": _accumulation, "fusion": _fusion}[fault](network, place)


def _is_computing(op: DeviceOp) -> bool:
    """Whether it has a counterpart in the original model and makes floats."""
    return op.outputs[0].origin is not None and op.outputs[0].dtype.kind is dtypes.Kind.FLOAT


def _pick(found: list[DeviceOp], place: float) -> DeviceOp:
    return found[min(int(place * len(found)), len(found) - 1)]


def _planted(network: Network, op: DeviceOp, bad: DeviceOp, kinds: tuple[str, ...]) -> Planted:
    device = tuple(bad if each is op else each for each in network.device)
    names = [op.name]
    if op.type in ("AscendQuant", "Conv2D", "AscendDequant"):
        stem = op.name.removesuffix("_quant").removesuffix("_dequant")
        names += [f"{stem}_quant", f"{stem}_dequant", stem]
    return Planted(replace(network, device=device), tuple(dict.fromkeys(names)), _kinds(op, kinds))


def _kinds(op: DeviceOp, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """What is wrong behind quantized numbers is rightly called quantization, too."""
    return (*kinds, "quantization") if "Quant" in op.type or "quant" in op.type else kinds


def _spoilt(kernel: Kernel, spoil: Spoil, *inputs: AnyArray) -> AnyArray:
    return spoil(kernel(*inputs))


def _foreign(network: Network, place: float) -> Planted | None:
    """The data of another tensor of the same shape."""
    run = _values(network)
    for op in [_pick([op for op in network.device if _is_computing(op)], place), *network.device]:
        if not _is_computing(op):
            continue
        mine = run[op.ports[0]]
        # Memory has what was written to it earlier.
        for port, other in list(run.items())[: list(run).index(op.ports[0])]:
            is_like = other.shape == mine.shape and other.dtype == mine.dtype and port.op != op.name
            if is_like and port.op not in {p.op for p in op.inputs} and not np.allclose(other, mine, atol=0.05):
                bad = replace(op, kernel=partial(_constant, other.astype(np.float64)))
                return _planted(network, op, bad, ("memory",))
    return None


def _constant(result: AnyArray, *_: AnyArray) -> AnyArray:
    return result


def _values(network: Network) -> dict[Port, AnyArray]:
    values: dict[Port, AnyArray] = {Port(network.image_name): network.image}
    for op in network.device:
        arrays = (*(values[port] for port in op.inputs), *(const.array for const in op.consts))
        made = op.kernel(*(array.astype(np.float64) for array in arrays))
        results = made if isinstance(made, tuple) else (made,)
        pairs = zip(op.ports, op.outputs, results, strict=True)
        values |= {port: rounded(result, output.dtype) for port, output, result in pairs}
    return values


def _accumulation(network: Network, place: float) -> Planted | None:
    """Sums in a type of 8 digits (bfloat16; 5 digits in a network of bfloat16)."""
    found = [op for op in network.device if _is_computing(op) and op.consts and op.consts[0].array.ndim in (2, 4)]
    # Short sums hardly lose digits.
    found = [op for op in found if op.consts[0].array.size // op.consts[1].array.size >= _LONG_SUM]
    if not found:
        return None
    op = _pick(found, place)
    coarse = dtypes.BFLOAT16 if op.outputs[0].dtype is dtypes.FLOAT16 else dtypes.FLOAT8_E4M3FN
    kernel = partial(_coarse_sums, op.kernel, coarse)
    return _planted(network, op, replace(op, kernel=kernel), ("precision",))


def _coarse_sums(kernel: Kernel, dtype: DType, x: AnyArray, weight: AnyArray, *others: AnyArray) -> AnyArray:
    """The sum part by part, each partial sum rounded; parts are input channels or columns."""
    keywords = dict(kernel.keywords) if isinstance(kernel, partial) else {}
    activation = keywords.pop("activation", ops.identity)
    plain = partial(kernel.func, **keywords) if isinstance(kernel, partial) else kernel
    bias = others[0] if others else np.zeros(1)
    total: AnyArray = np.zeros(1)
    for k in range(weight.shape[1] if weight.ndim == 4 else weight.shape[0]):
        is_image = weight.ndim == 4
        part = plain(x[:, k : k + 1], weight[:, k : k + 1]) if is_image else x[..., k : k + 1] @ weight[k : k + 1]
        total = rounded(total + part, dtype).astype(np.float64)
    shaped = bias.reshape(1, -1, 1, 1) if weight.ndim == 4 else bias
    result: AnyArray = activation(total + shaped)
    return result


def _fusion(network: Network, place: float) -> Planted | None:
    """A fused operator that forgot its activation."""
    found = [op for op in network.device if len(op.originals) > 1 and op.buffer_pass]
    if not found:
        return None
    op = _pick(found, place)
    assert isinstance(op.kernel, partial)  # noqa: S101  the builder made it so
    kernel = partial(op.kernel, activation=ops.identity)
    return _planted(network, op, replace(op, kernel=kernel), ("fusion",))


def _bad_input(network: Network, fault: str) -> Planted | None:
    image = network.image
    if image.ndim != 4:
        return None
    bad = image[:, ::-1].copy() if fault == "input-swap" else (image * 0.9).astype(np.float32)
    first = next(op for op in network.device if Port(network.image_name) in op.inputs)
    return Planted(replace(network, given=bad), (first.name,), ("input",))


def _bad_quantization(network: Network, fault: str, place: float) -> Planted | None:
    found = [op for op in network.device if op.type == "AscendQuant"]
    if not found:
        return None
    op = _pick(found, place)
    assert isinstance(op.kernel, partial)  # noqa: S101  the builder made it so
    if fault == "zero-point":
        return _planted(network, op, replace(op, kernel=partial(op.kernel, zero=12)), ("quantization",))
    scale = op.kernel.keywords["scale"]
    return _planted(network, op, replace(op, kernel=partial(_clipped, scale=scale)), ("quantization",))


def _clipped(x: AnyArray, scale: float) -> AnyArray:
    return np.clip(np.rint(x / scale), -32, 31)


def write_golden(network: Network, folder: str) -> None:
    """The files of the golden run."""
    _write(folder, golden_files(run_golden(network)))


def write_target(network: Network, folder: str, rules: str) -> None:
    """The files of the run on the device, and its rule file."""
    run = run_device(network)
    shutil.rmtree(folder, ignore_errors=True)
    _write(folder, dump_files(network, run))
    with open(rules, "w", encoding="utf-8") as file:
        json.dump(rule_json(network, run), file)


def _write(folder: str, files: dict[str, bytes]) -> None:
    os.makedirs(folder, exist_ok=True)
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
