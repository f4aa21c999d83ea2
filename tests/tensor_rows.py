"""Rows of synthetic tensors, measured and judged without files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opdiff.core import codes as elements
from opdiff.core import dtypes
from opdiff.core.comparison import GraphNode, ModelGraph, Row, SideInfo
from opdiff.core.pairing import OpLabel
from opdiff.core.tensor import Slot, TensorKey
from opdiff.judge.comparison_judgement import judge
from opdiff.measure.metrics import metrics_of
from opdiff.measure.reference.blocks import measure

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.judgement import Judgement
    from opdiff.core.metrics import Metrics


def metrics(target: AnyArray, golden: AnyArray, dtype: DType = dtypes.FLOAT16) -> Metrics:
    """Return the metrics of a target stored in `dtype` and a golden array of any type."""
    theirs = dtypes.find_numpy(golden.dtype.str) or dtypes.FLOAT32
    return metrics_of(measure(elements.encode(target, dtype), dtype, golden, theirs), None)


def row(name: str, target: AnyArray, golden: AnyArray, slot: Slot = Slot.OUTPUT, **more: Any) -> Row:
    """Return the row of an operator; optional: `index`, `dtype`, `op_type` and `golden_name`."""
    dtype = more.get("dtype", dtypes.FLOAT16)
    key = TensorKey(name, slot, more.get("index", 0))
    return Row(
        OpLabel(0, 0, more.get("op_type", "Conv2D"), name, name),
        key,
        TensorKey(more.get("golden_name", name), Slot.OUTPUT, more.get("index", 0)),
        SideInfo(dtype=dtype.name),
        SideInfo(dtype=str(golden.dtype)),
        shape=target.shape,
        metrics=metrics(target, golden, dtype),
        confidence=1.0,
    )


def judge_rows(rows: list[Row], *nodes: GraphNode) -> Judgement:
    return judge(rows, [ModelGraph(nodes)])


def numbers(seed: int, *shape: int) -> AnyArray:
    made: AnyArray = np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)
    return made
