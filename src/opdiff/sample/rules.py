"""Encoder of the ATC rule file: the original operators that each device operator implements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core import dtypes
from opdiff.sample.graph import Output, Port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from opdiff.core.tensor import Shape
    from opdiff.sample.container import EncodedTensor
    from opdiff.sample.device import DeviceRun
    from opdiff.sample.graph import Const, DeviceOp, SampleNetwork

    Json = dict[str, Any]

_TYPE_NAMES: dict[dtypes.DType | int, str] = {
    dtypes.FLOAT32: "DT_FLOAT",
    dtypes.FLOAT16: "DT_FLOAT16",
    dtypes.INT32: "DT_INT32",
    dtypes.BFLOAT16: "DT_BF16",
    dtypes.INT8: "DT_INT8",
}
_WEIGHT_AXES = "NCHW"


def rule_json(network: SampleNetwork, run: DeviceRun) -> Json:
    """Return the contents of the rule file."""
    ops = [op | {"id": number} for number, op in enumerate(_iter_ops(network, run))]
    return {
        "name": "sample",
        "version": 2,
        "graph": [{"name": "sample_classifier", "op": ops}],
    }


def _iter_ops(network: SampleNetwork, run: DeviceRun) -> Iterator[Json]:
    image = Port(network.image_name)
    origin = Output(dtypes.FLOAT32, network.axes, image)
    yield _op(image.op, "Data", originals=(image.op,), outputs=[_output(run.features[image], origin, network.axes)])
    for op in network.device:
        yield from (_const(const, run) for const in op.consts)
        yield _device_op(op, run, network.axes)
    yield _op("Node_Output", "NetOutput") | {
        "input": [str(port) for port in network.results],
        "input_desc": [_tensor(run.features[port], []) for port in network.results],
    }


def _const(const: Const, run: DeviceRun) -> Json:
    output = Output(const.dtype, const.layout)
    return _op(const.name, "Const", outputs=[_output(run.weights[const.name], output)])


def _device_op(op: DeviceOp, run: DeviceRun, axes: str) -> Json:
    outputs = [_output(run.features[port], output, axes) for port, output in zip(op.ports, op.outputs, strict=True)]
    inputs = [*op.inputs, *(Port(const.name) for const in op.consts)]
    attrs = [*_fusion_attrs(op), *(attr(key, _value(value)) for key, value in op.attributes.items())]
    described = _op(op.name, op.type, op.originals, outputs, attrs)
    features = [run.features[port] for port in op.inputs]
    weights = [run.weights[const.name] for const in op.consts]
    tensors = [_tensor(tensor, _shape_attrs(tensor, axes)) for tensor in features]
    tensors += [_tensor(tensor, _shape_attrs(tensor, _WEIGHT_AXES)) for tensor in weights]
    return described | {"input": [str(port) for port in inputs], "input_desc": tensors}


def _op(
    name: str,
    op_type: str,
    originals: tuple[str, ...] = (),
    outputs: Sequence[Json] = (),
    attrs: Sequence[Json] = (),
) -> Json:
    names = attr("_datadump_original_op_names", _strings(originals))
    kernel = attr("_ge_attr_op_kernel_lib_name", {"s": "AIcoreEngine"})
    described: Json = {"name": name, "type": op_type, "attr": [kernel, names, *attrs]}
    return described | {"output_desc": list(outputs)} if outputs else described


def _fusion_attrs(op: DeviceOp) -> list[Json]:
    attrs = []
    if op.is_part:
        attrs.append(attr("_datadump_is_multiop", {"b": True}))
    if op.graph_pass:
        attrs.append(attr("pass_name", _strings((op.graph_pass,))))
    if op.buffer_pass:
        attrs.append(attr("pass_name_ub", {"s": op.buffer_pass}))
    return attrs


def _output(tensor: EncodedTensor, output: Output, axes: str = _WEIGHT_AXES) -> Json:
    origin = origin_attrs(output.origin, _origin_layout(tensor.origin_shape, axes)) if output.origin else []
    return _tensor(tensor, [*origin, *_shape_attrs(tensor, axes)])


def _tensor(tensor: EncodedTensor, attrs: list[Json]) -> Json:
    return {
        "dtype": _TYPE_NAMES[tensor.dtype],
        "layout": tensor.layout,
        "shape": {"dim": list(tensor.shape or ())},
        "attr": attrs,
    }


def origin_attrs(origin: Port, layout: str) -> list[Json]:
    """Return the attributes that name the original tensor of an output."""
    return [
        attr("_datadump_origin_name", {"s": origin.op}),
        attr("_datadump_origin_output_index", {"i": origin.index}),
        attr("_datadump_origin_format", {"s": layout}),
    ]


def _shape_attrs(tensor: EncodedTensor, axes: str) -> list[Json]:
    shape = {"list": {"i": list(tensor.origin_shape), "val_type": 2}}
    return [attr("origin_format", {"s": _origin_layout(tensor.origin_shape, axes)}), attr("origin_shape", shape)]


def _origin_layout(shape: Shape, axes: str) -> str:
    return axes if len(shape) == len(axes) else "ND"


def _strings(values: tuple[str, ...]) -> Json:
    return {"list": {"s": list(values), "val_type": 1} if values else {"val_type": 1}}


def _value(value: float | str | tuple[int, ...]) -> Json:
    """Return an attribute's value; the JSON of ATC has floats as numbers."""
    if isinstance(value, tuple):
        return {"list": {"i": list(value), "val_type": 2}}
    keys = {bool: "b", int: "i", float: "f", str: "s"}
    return {keys[type(value)]: value}


def attr(key: str, value: Json) -> Json:
    """Return an attribute."""
    return {"key": key, "value": value}
