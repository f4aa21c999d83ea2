"""Golden run of the original model: float32 outputs of every operator, in the files that golden tools write."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from opdiff.sample.graph import Port
from opdiff.sample.names import golden_name

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.sample.graph import SampleNetwork

TIMESTAMP = 1_700_000_000_000_000


def run_golden(network: SampleNetwork) -> dict[Port, AnyArray]:
    """Return the model's input and the outputs of all operators: float32, or int64 for indices.

    Sums are accumulated in float64 and rounded once, so that they do not depend on the machine's vector units.
    """
    values: dict[Port, AnyArray] = {Port(network.image_name): network.image}
    for op in network.golden:
        results = op.kernel(*(values[port].astype(np.float64) for port in op.inputs))
        for index, result in enumerate(results if isinstance(results, tuple) else (results,)):
            is_float = np.issubdtype(result.dtype, np.floating)
            values[Port(op.name, index)] = result.astype(np.float32 if is_float else np.int64)
    return values


def npy_files(values: dict[Port, AnyArray]) -> dict[str, bytes]:
    """Return the golden files: names and contents."""
    return {golden_name(port.op, port.index, TIMESTAMP): npy_file(array) for port, array in values.items()}


def npy_file(array: AnyArray) -> bytes:
    """Return the contents of a NumPy file."""
    buffer = BytesIO()
    np.save(buffer, np.ascontiguousarray(array))
    return buffer.getvalue()
