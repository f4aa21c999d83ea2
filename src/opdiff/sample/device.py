"""Simulated NPU run of the compiled network, its device memory, and the dump files that its runtime writes."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.sample.container import (
    EncodedDump,
    EncodedTensor,
    Overflow,
    encode_tensor,
    overflow_dump,
    overflow_record,
    standard_dump,
)
from opdiff.sample.graph import Output, Port
from opdiff.sample.names import DumpName, overflow_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.sample.graph import DeviceOp, SampleNetwork

_FIRST_TIMESTAMP = 1_700_000_100_000_000
_MICROSECONDS_PER_STEP = 173
_MODEL_ID = 1
_STATUS = 0x8
"""Any set bit reports an overflow."""
_FEATURES_BASE = 0x1240_C000_0000
_WEIGHTS_BASE = 0x1240_8000_0000
_ALIGNMENT = 512


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRun:
    """Device memory after a run: stored tensors, by output and by name of the constant."""

    features: dict[Port, EncodedTensor]
    weights: dict[str, EncodedTensor]
    overflowed: tuple[str, ...]
    """Operators whose outputs have infinities."""


def run_device(network: SampleNetwork) -> DeviceRun:
    """Run all operators; round their outputs to the element types of the device."""
    image = Port(network.image_name)
    values = device_values(network)
    stored = {image: Output(dtypes.FLOAT32, network.axes)}
    stored |= {port: output for op in network.device for port, output in zip(op.ports, op.outputs, strict=True)}
    features = {port: _encode(values[port], output, network.axes) for port, output in stored.items()}
    weights = {
        const.name: encode_tensor(const.array, const.dtype, const.layout, groups=const.groups)
        for op in network.device
        for const in op.consts
    }
    overflowed = tuple(op.name for op in network.device if any(np.isinf(values[port]).any() for port in op.ports))
    return _with_addresses(network, DeviceRun(features, weights, overflowed))


def _encode(array: AnyArray, output: Output, axes: str) -> EncodedTensor:
    """Encode a tensor; the origin shape of an image has the axis order of the original model."""
    tensor = encode_tensor(array, output.dtype, output.layout)
    if array.ndim != len(axes):
        return tensor
    return replace(tensor, origin_shape=tuple(array.shape["NCHW".index(label)] for label in axes))


def device_values(network: SampleNetwork) -> dict[Port, AnyArray]:
    """Return the input of the device and the rounded outputs of all its operators."""
    image = network.image if network.device_image is None else network.device_image
    values: dict[Port, AnyArray] = {Port(network.image_name): image}
    for op in network.device:
        inputs = (*(values[port] for port in op.inputs), *(const.array for const in op.consts))
        with np.errstate(over="ignore", invalid="ignore"):  # values out of range become infinite, as on the device
            results = op.kernel(*(array.astype(np.float64) for array in inputs))
            arrays = results if isinstance(results, tuple) else (results,)
            for port, output, array in zip(op.ports, op.outputs, arrays, strict=True):
                values[port] = rounded(array, output.dtype)
    return values


def dump_files(network: SampleNetwork, run: DeviceRun) -> dict[str, bytes]:
    """Return names and contents of the files: a dump per operator, an overflow record per overflowed operator."""
    files = {}
    for step, op in enumerate(network.device):
        name = dump_name(op, step)
        inputs = (*(run.features[port] for port in op.inputs), *(run.weights[const.name] for const in op.consts))
        outputs = tuple(run.features[port] for port in op.ports)
        files[str(name)] = standard_dump(EncodedDump(inputs, outputs, op_name=op.name, dump_time=name.timestamp))
        if op.name in run.overflowed:
            files |= _overflow_file(name)
    return files


def dump_name(op: DeviceOp, step: int) -> DumpName:
    """Return the name of the dump file of the operator that runs in this step."""
    first_task = 2
    timestamp = _FIRST_TIMESTAMP + _MICROSECONDS_PER_STEP * step
    return DumpName(op.type, op.name, step + first_task, op.stream, timestamp)


def rounded(array: AnyArray, dtype: DType) -> AnyArray:
    """Round values to an element type."""
    return array.astype(dtype.storage) if dtype.is_native else elements.decode(elements.encode(array, dtype), dtype)


def _with_addresses(network: SampleNetwork, run: DeviceRun) -> DeviceRun:
    """Return the run with device addresses."""
    features = _plan_features(network, {port: len(tensor.payload) for port, tensor in run.features.items()})
    weights = _plan_weights({name: len(tensor.payload) for name, tensor in run.weights.items()})
    return replace(
        run,
        features={port: replace(tensor, address=features[port]) for port, tensor in run.features.items()},
        weights={name: replace(tensor, address=weights[name]) for name, tensor in run.weights.items()},
    )


def _overflow_file(name: DumpName) -> dict[str, bytes]:
    stream_id = name.stream_id or 0
    overflow = Overflow(
        model_id=_MODEL_ID,
        stream_id=stream_id,
        task_id=name.task_id,
        pc_start=_WEIGHTS_BASE - 0x8000,
        para_base=_WEIGHTS_BASE - 0x1000,
        core_id=1,
        status=(_STATUS,),
    )
    debug = overflow_name(name.task_id, stream_id, name.timestamp + 1)
    return {str(debug): standard_dump(overflow_dump(overflow_record(overflow), debug.timestamp))}


# Memory plan


@dataclass(frozen=True, slots=True, order=True)
class _Block:
    """Allocated memory, and the step after which it is free."""

    start: int
    stop: int
    last_use: int


def _plan_features(network: SampleNetwork, nbytes: Mapping[Port, int]) -> dict[Port, int]:
    """Return an address per tensor; tensors with overlapping lifetimes do not share memory.

    The image exists before the first step; results are never freed.
    """
    ops = network.device
    last_use = {port: step for step, op in enumerate(ops) for port in (*op.inputs, *op.ports)}
    last_use |= dict.fromkeys(network.results, len(ops))
    addresses: dict[Port, int] = {}
    blocks: list[_Block] = []
    for step, ports in enumerate([(Port(network.image_name),), *(op.ports for op in ops)], start=-1):
        blocks = [block for block in blocks if block.last_use >= step]
        for port in ports:
            start = _first_gap(blocks, nbytes[port])
            insort(blocks, _Block(start, start + nbytes[port], last_use[port]))
            addresses[port] = start
    return addresses


def _plan_weights(nbytes: Mapping[str, int]) -> dict[str, int]:
    """Return an address per constant, one after the other."""
    addresses, start = {}, _WEIGHTS_BASE
    for name, size in nbytes.items():
        addresses[name] = start
        start = _aligned(start + size)
    return addresses


def _first_gap(blocks: list[_Block], nbytes: int) -> int:
    start = _FEATURES_BASE
    for block in blocks:
        if start + nbytes <= block.start:
            break
        start = max(start, _aligned(block.stop))
    return start


def _aligned(address: int) -> int:
    return -(-address // _ALIGNMENT) * _ALIGNMENT
