"""Options of a golden run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.tensor import Shape


class GoldenOptions(Struct, frozen=True):
    """What to run, on which inputs, and what to write.

    Attributes:
        model: ONNX file, prototxt or frozen TensorFlow graph.
        weights: caffemodel of a prototxt.
        output: new or empty directory of the results; with `reuse`, the folder of such directories.
        inputs: files by input; the empty name stands for the only input.
        shapes: shapes by input; the empty name stands for the only input.
        seed: makes random data for inputs without a file; `None` to refuse the run instead.
        rules: rule file whose originals are checked, and that may tell shapes.
        input_dump: NPU dump from which inputs without a file are taken.
        only_needed: write only operators whose outputs a comparison with these rules looks up.
        only: patterns of operators to write; empty for all.
        until: name of the last operator to write; empty for all.
        constants: whether outputs of `Constant` nodes are written.
        libraries: shared libraries with operators of the user; their code is executed.
        force: run the model even if it lacks most operators that the rules ask for.
        reuse: write to a directory named by model, inputs and options; if it exists already, use it as it is.
    """

    model: str = ""
    weights: str = ""
    output: str = ""
    inputs: Mapping[str, str] = {}
    shapes: Mapping[str, Shape] = {}
    seed: int | None = None
    rules: str = ""
    input_dump: str = ""
    only_needed: bool = False
    only: tuple[str, ...] = ()
    until: str = ""
    constants: bool = False
    libraries: tuple[str, ...] = ()
    force: bool = False
    reuse: bool = False
