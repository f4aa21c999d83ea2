"""Contents of a bundle: files by name, their description, and the metrics that the README states."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from opdiff.align import LAYOUTS, convert
from opdiff.core import codes as elements
from opdiff.core.errors import LayoutError, OpdiffError
from opdiff.core.reasons import Reason
from opdiff.core.replay import Arithmetic
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Row
    from opdiff.core.dump import DumpedOp
    from opdiff.core.tensor import Tensor
    from opdiff.workflows.replay.operator_replay import OperatorReplay


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
