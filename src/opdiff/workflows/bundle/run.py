"""Compute the operator of this bundle with ONNX Runtime, and compare the result with the output of the NPU.

Needs numpy and onnxruntime, and nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime


def main() -> int:
    """Run `model.onnx` on the dumped inputs and print the distance of each output."""
    folder = Path(__file__).parent
    model = json.loads((folder / "operator.json").read_text(encoding="utf-8"))["model"]
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    fed = {name: np.load(folder / file) for name, file in model["inputs"].items()}
    names = list(model["outputs"])
    for name, computed in zip(names, session.run(names, fed), strict=True):
        device = np.load(folder / model["outputs"][name]).astype(np.float64)
        difference = device - computed.astype(np.float64).reshape(device.shape)
        norm = float(np.linalg.norm(computed))
        distance = float(np.linalg.norm(difference)) / norm if norm else float(np.abs(difference).max(initial=0.0))
        sys.stdout.write(f"{name}: relative distance {distance:.6g}, largest error {np.abs(difference).max():.6g}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
