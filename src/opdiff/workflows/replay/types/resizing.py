"""Images of another size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.workflows.replay.types.call import UnsupportedOperatorError

if TYPE_CHECKING:
    from opdiff.workflows.golden.onnx_encoder import Attribute
    from opdiff.workflows.replay.types.call import Builder, Call, OnnxBuilder


def _resize(graph: OnnxBuilder, call: Call, attributes: dict[str, Attribute]) -> str:
    sizes = graph.integers(call.output_shapes[0])
    return graph.add("Resize", [call.operand(0).tensor, "", "", sizes], attributes)


def bilinear(graph: OnnxBuilder, call: Call) -> str:
    """Build `ResizeBilinearV2` and its form with the size as an attribute."""
    return _resize(graph, call, {"mode": "linear", "coordinate_transformation_mode": _coordinates(call)})


def nearest(graph: OnnxBuilder, call: Call) -> str:
    """Build `ResizeNearestNeighborV2` and its form with the size as an attribute."""
    coordinates = _coordinates(call)
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    attributes = {"mode": "nearest", "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    return _resize(graph, call, {**attributes})


def _coordinates(call: Call) -> str:
    if call.get("align_corners", default=False):
        return "align_corners"
    return "half_pixel" if call.get("half_pixel_centers", default=False) else "asymmetric"


def resize(graph: OnnxBuilder, call: Call) -> str:
    """Build `Resize`, which has the attributes of ONNX."""
    names = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}
    attributes: dict[str, Attribute] = {name: call.get(name, default) for name, default in names.items()}
    if attributes["mode"] not in ("nearest", "linear", "cubic"):
        raise UnsupportedOperatorError(f"mode {attributes['mode']}")
    return _resize(graph, call, {**attributes, "cubic_coeff_a": call.get("cubic_coeff_a", -0.75)})


RESIZING: dict[str, Builder] = {
    "Resize": resize,
    "ResizeBilinearV2": bilinear,
    "ResizeBilinearV2D": bilinear,
    "ResizeNearestNeighborV2": nearest,
    "ResizeNearestNeighborV2D": nearest,
    "SyncResizeBilinearV2": bilinear,
}
"""Builders by type."""
