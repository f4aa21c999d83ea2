"""Contents of a bundle: files by name, their description, and the README with metrics and how to run it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from opdiff import __version__
from opdiff.align import LAYOUTS, convert
from opdiff.core import codes as elements
from opdiff.core.errors import LayoutError, OpdiffError
from opdiff.core.formatting import format_number
from opdiff.core.reasons import Reason
from opdiff.core.replay import Arithmetic
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.dump import DumpedOp
    from opdiff.core.replay import Replay
    from opdiff.core.tensor import Tensor
    from opdiff.workflows.replay.operator_replay import OperatorReplay


_RUN = """\
## Compute it again

    pip install numpy onnxruntime
    python run.py

runs `model.onnx`, the part of the original model that this operator computes, in float32 on the inputs that the
operator had on the NPU, and prints the distance between the result and the output of the NPU.
"""


class TensorFile(Struct, frozen=True):
    """One array of the bundle.

    Attributes:
        tensor: the tensor, as `output:0`.
        dtype: element type on the device; the array has the nearest type of NumPy that holds it exactly.
        layout: layout on the device; the array has the logical axis order.
        shape: shape of the array.
        problem: why there is no array; empty if there is one.
    """

    tensor: str
    dtype: str
    layout: str
    shape: tuple[int, ...] = ()
    problem: str = ""


class ModelFiles(Struct, frozen=True):
    """Files of the inputs and of the device's outputs, by name in `model.onnx`."""

    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)


class OperatorRecord(Struct, frozen=True):
    """Description of the operator: the contents of `operator.json`.

    Attributes:
        operator: its name.
        type: its type.
        originals: operators of the original model that it computes.
        tensors: its arrays by file name.
        model: files of `model.onnx`; `None` if there is none.
        note: why there is no model.
    """

    operator: str
    type: str
    originals: tuple[str, ...] = ()
    tensors: dict[str, TensorFile] = field(default_factory=dict)
    model: ModelFiles | None = None
    note: str = ""


class Contents(Struct):
    """Files of a bundle by name, and their description while they are collected."""

    files: dict[str, bytes] = field(default_factory=dict)
    tensors: dict[str, TensorFile] = field(default_factory=dict)

    def add_dumped(self, dump: DumpedOp) -> None:
        """Add what the operator read and wrote on the device."""
        for slot in Slot:
            for index, tensor in sorted(dump.tensors(slot).items()):
                self._add(f"target_{slot}_{index}.npy", f"{slot}:{index}", tensor)

    def add_golden(self, row: Row, tensor: Tensor) -> None:
        """Add the golden tensor of a row."""
        if row.key is not None:
            self._add(f"golden_{row.key.slot}_{row.key.index}.npy", f"{row.key.slot}:{row.key.index}", tensor)

    def _add(self, name: str, label: str, tensor: Tensor) -> None:
        spec = tensor.spec
        try:
            array = elements.decode(_logical(tensor), spec.dtype)
        except OpdiffError as error:
            self.tensors[name] = TensorFile(label, spec.dtype.name, spec.layout, problem=str(error.reason))
            return
        self.files[name] = npy(array)
        self.tensors[name] = TensorFile(label, spec.dtype.name, spec.layout, array.shape)

    def add_model(self, prepared: OperatorReplay | Reason) -> ModelFiles | None:
        """Add the subgraph of the original model, its inputs, and the outputs of the device in its shapes."""
        if isinstance(prepared, Reason) or not prepared.subgraph.nodes:
            return None
        fed = prepared.load_inputs()
        encoder = prepared.context.encoder
        self.files["model.onnx"] = encoder.encode(prepared.subgraph, fed, Arithmetic.EXACT, prepared.device_type)
        computed = prepared.compute(fed, Arithmetic.EXACT)
        files = ModelFiles()
        for number, item in enumerate(fed):
            files.inputs[item.name] = f"model_input_{number}.npy"
            self.files[files.inputs[item.name]] = npy(item.codes)
        for number, value in enumerate(prepared.outputs):
            files.outputs[value.original] = f"model_output_{number}.npy"
            self.files[files.outputs[value.original]] = npy(prepared.aligned(value, computed[value.original])[0])
        return files


def _logical(tensor: Tensor) -> AnyArray:
    """Return the codes in the logical axis order, without padding; as they are stored if that is not known."""
    spec, codes = tensor.spec, tensor.codes()
    layout = LAYOUTS.find(spec.layout)
    try:
        return convert(codes, spec, (layout.axes if layout else "") or "ND").codes
    except LayoutError:
        return codes


def npy(array: AnyArray) -> bytes:
    """Return an array as a NumPy file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    return file.getvalue()


def readme_text(record: OperatorRecord, rows: Sequence[Row], replay: Replay | None) -> str:
    """Return the README."""
    return "\n".join(_lines(record, rows, replay)) + "\n"


def _lines(record: OperatorRecord, rows: Sequence[Row], replay: Replay | None) -> Iterator[str]:
    yield f"# {_code(record.operator)} ({record.type})\n"
    yield f"One operator of a run on an Ascend NPU, extracted by opdiff {__version__}.\n"
    if record.originals:
        yield f"Original operators: {', '.join(map(_code, record.originals))}\n"
    yield "| File | Tensor | Type on the device | Layout on the device | Shape |\n|---|---|---|---|---|"
    for name, tensor in record.tensors.items():
        shape = tensor.problem or "x".join(map(str, tensor.shape)) or "scalar"
        yield f"| {name if not tensor.problem else ''} | {tensor.tensor} | {tensor.dtype} | {tensor.layout} | {shape} |"
    yield "\n`target_*` are of the NPU, `golden_*` of the golden run, all in logical axis order, without padding.\n"
    yield from _metrics(rows)
    yield from _replayed(replay)
    yield _RUN if record.model else f"There is no `model.onnx`: {record.note}\n"


def _metrics(rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    yield "## Target and golden\n"
    yield "| Tensor | Cosine | Relative distance | Largest error |\n|---|---|---|---|"
    for row in rows:
        if row.metrics is not None and row.key is not None:
            metrics = row.metrics
            numbers = (metrics.cosine, metrics.relative_euclidean_distance, metrics.max_absolute_error)
            cells = " | ".join(format_number(number) or "-" for number in numbers)
            yield f"| {row.key.slot}:{row.key.index} | {cells} |"
    yield ""


def _replayed(replay: Replay | None) -> Iterator[str]:
    if replay is None:
        return
    yield "## Replay\n"
    yield f"Verdict: **{replay.verdict}**." + (f" {replay.reason}" if replay.reason else "")
    for output in replay.outputs:
        yield f"Own error of {_code(output.original)}: {output.error:.3g}, {output.limit:.3g} allowed."
    if replay.cause is not None:
        cause = replay.cause
        yield f"Cause: {cause.kind}: {cause.reason} (error {cause.before:.3g} without, {cause.after:.3g} with it)."
    yield ""


def _code(text: str) -> str:
    """Return a name from a file as code of one line."""
    return f"`{''.join(character if character.isprintable() else '?' for character in text).replace('`', '')}`"
