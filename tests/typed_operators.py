"""Single compiled operators, replayed by type and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dump_files import TIME, add, dump, tensor
from onnx_models import model, node, plain_run, value
from opdiff.core.dtypes import BOOL, FLOAT16, INT8, INT32, INT64, UINT64
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import replay
from rule_files import described, write_rules

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.dtypes import DType
    from opdiff.core.replay import Replay
    from opdiff.sample.container import EncodedTensor

Array = np.ndarray[Any, Any]


def half(*shape: int, seed: int = 0) -> Array:
    made = np.random.default_rng((seed, *shape)).normal(size=shape)
    return made.astype(np.float16).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """An operator: type, attributes, inputs and right outputs."""

    op_type: str
    inputs: list[Array]
    outputs: list[Array]
    attributes: dict[str, Any] = field(default_factory=dict)
    layouts: tuple[str, ...] = ()
    originals: tuple[str, ...] = ("op",)


def onnx_result(op_type: str, *inputs: Array, **attributes: Any) -> Array:
    """The result of an ONNX operator."""
    names = [f"i{number}" for number in range(len(inputs))]
    made = model(
        [node(op_type, " ".join(names), "y", "n", **attributes)],
        [value(name, array.shape) for name, array in zip(names, inputs, strict=True)],
    )
    return plain_run(made, dict(zip(names, inputs, strict=True)))["y"]


def encoded(array: Array, layout: str) -> EncodedTensor:
    types: dict[str, DType] = {"i1": INT8, "i4": INT32, "i8": INT64, "u8": UINT64, "b1": BOOL}
    return tensor(array, types.get(array.dtype.str[1:], FLOAT16), layout)


def replay_case(folder: Path, case: Case, outputs: list[Array]) -> Replay:
    layouts = iter(case.layouts or ("ND",) * 9)
    inputs = tuple(encoded(array, next(layouts)) for array in case.inputs)
    results = [encoded(array, next(layouts)) for array in outputs]
    add(folder / "npu", f"{case.op_type}.op.1.0.{TIME}", dump(*results, inputs=inputs))
    sources = [f"in{number}:0" for number in range(len(inputs))]
    write_rules(folder / "rules.json", [described("op", case.op_type, sources, case.originals, case.attributes)])
    return replay_again(folder)


def replay_again(folder: Path) -> Replay:
    """Replay the one operator of a folder."""
    options = ReplayOptions(str(folder / "npu"), str(folder / "rules.json"))
    (found,) = replay(options, lambda _done, _total: None)
    return found
