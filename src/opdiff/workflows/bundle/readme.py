"""README of a bundle: the operator, its files and metrics, and how to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff import __version__
from opdiff.core.formatting import format_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.replay import Replay
    from opdiff.workflows.bundle.contents import OperatorRecord

_RUN = """\
## Compute it again

    pip install numpy onnxruntime
    python run.py

runs `model.onnx`, the part of the original model that this operator computes, in float32 on the inputs that the
operator had on the NPU, and prints the distance between the result and the output of the NPU.
"""


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
