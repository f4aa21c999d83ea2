"""Options of a replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.tensor import Shape


class ReplayOptions(Struct, frozen=True):
    """Model, dump and operators of a replay.

    Attributes:
        target: directory of the run on the NPU.
        rules: rule file or offline model.
        model: original model: ONNX file, or prototxt of a Caffe net.
        weights: caffemodel of a prototxt.
        shapes: shapes of inputs that the model leaves open; the empty name stands for the only input.
        operators: names of operators to replay; empty for all.
        limits: file of limits; empty for `opdiff.toml` of the current folder, if there is one.
        rank: graph mode: this rank only.
        token: graph mode: this token only.
        graph: graph mode: this graph only.
        threads: maximum number of threads that compute an operator; 0 for all cores.
    """

    target: str = ""
    rules: str = ""
    model: str = ""
    weights: str = ""
    shapes: Mapping[str, Shape] = {}
    operators: tuple[str, ...] = ()
    limits: str = ""
    rank: int | None = None
    token: int | None = None
    graph: int | None = None
    threads: int = 0
