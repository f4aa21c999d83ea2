"""Models that people use: every operator of the main graph has a file, with the numbers of a plain run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

from downloaded_models import find_member
from onnx_models import files_of, golden, plain_run
from opdiff.core.tensor import file_safe_name

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("package", "name", "shapes", "scalar"),
    [
        ("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}, {}),
        ("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 64, 64)}, {}),
        ("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 64)}, {}),
        ("silero-vad", "silero_vad.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
        ("silero-vad", "silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {"sr": 16000}),
        ("silero-vad", "silero_vad_half.onnx", {"input": (1, 576), "state": (2, 1, 128)}, {}),
    ],
    ids=["classifier", "detector", "recogniser", "speech", "speech 16k", "speech half"],
)
def test_every_operator_has_a_file_with_the_numbers_of_a_plain_run(
    tmp_path: Path, package: str, name: str, shapes: dict[str, tuple[int, ...]], scalar: dict[str, int]
) -> None:
    path = find_member(package, name)
    random = np.random.default_rng(0)
    inputs = {key: random.random(shape, np.float32) for key, shape in shapes.items()}
    inputs |= {key: np.array(number) for key, number in scalar.items()}
    result = golden(path, tmp_path / "g", inputs=inputs)
    found = files_of(tmp_path / "g")
    made = onnx.load(str(path))
    tensors = plain_run(made, inputs)
    unnamed = iter(range(len(made.graph.node)))
    names = [node.name or f"{node.op_type}_{next(unnamed)}" for node in made.graph.node]
    compared = 0
    for operator, node in zip(names, made.graph.node, strict=True):
        for number, tensor in enumerate(node.output if node.op_type != "Constant" else ()):
            array = found[f"{file_safe_name(operator)}.{number}"]
            np.testing.assert_array_equal(array, tensors[tensor], err_msg=operator, strict=True)
            compared += 1
    assert compared > 3
    assert {item.reason.code for item in result.omitted} <= {"golden.constant", "golden.branch_not_taken"}
