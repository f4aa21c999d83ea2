"""The answer for programs: verdict, coverage, findings and all tensors. See docs/formats/answer-json.md.

The classes are a contract: fields may be added, but none changes its meaning without a new version.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import structs

from opdiff.core.reasons import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opdiff.core import dump
    from opdiff.core import judgement as core
    from opdiff.core.comparison import Comparison, Mode, ModelGraph
    from opdiff.core.judgement import Finding

VERSION = 1
_LOCATION = re.compile(r",(?:inputs|outputs),\d+$")


class Coverage(msgspec.Struct):
    """Number of target operators that should have a counterpart, and of those with a compared output."""

    operators: int
    compared: int
    by: Literal["data", "statistics", "checksums"] | None


class Unit(msgspec.Struct):
    """Rank, token and graph of graph mode."""

    rank: int | None
    token: int
    graph: int | None


class Output(msgspec.Struct):
    """An output of the model."""

    tensor: str
    cosine: float | None
    relative_distance: float | None
    level: str
    unit: Unit | None


class Fault(msgspec.Struct):
    """A faulty operator."""

    operator: str
    originals: list[str]
    tensor: str
    level: str
    kind: str
    share: float | None
    proved: bool | None
    proved_units: list[Unit]
    before: list[str]
    units: list[Unit]
    missing: str | None


class TensorAnswer(msgspec.Struct):
    """A tensor of the target; an operator as a whole if its tensors are not known."""

    tensor: str
    unit: Unit | None
    golden: str | None
    compared: bool
    level: str
    origin: str | None
    reason: str | None


class Answer(msgspec.Struct):
    """The whole document."""

    schema: Literal["opdiff-answer"]
    version: int
    mode: Literal["offline", "graph"]
    verdict: Literal["clean", "suspicious", "wrong", "unsure"]
    agreement: Literal["match", "slight", "significant", "unknown"]
    coverage: Coverage
    outputs: list[Output]
    advice: list[str]
    findings: list[Fault]
    tensors: list[TensorAnswer]
    notes: list[str] = []


def make_answer(comparison: Comparison) -> Answer:
    """Return the answer of a comparison."""
    judgement = comparison.judgement
    return Answer(
        schema="opdiff-answer",
        version=VERSION,
        mode=comparison.mode.value,
        verdict=judgement.outcome.value,
        agreement=judgement.outputs.agreement.value,
        coverage=make_coverage(judgement.coverage),
        outputs=list(_outputs(comparison)),
        advice=[utf8(render(sentence)) for sentence in judgement.advice],
        findings=[make_fault(finding, comparison.graphs) for finding in judgement.findings],
        tensors=list(_tensors(comparison)),
        notes=[utf8(render(note)) for note in comparison.notes],
    )


def make_failure(mode: Mode, problem: str) -> Answer:
    """Return the answer when the inputs cannot be used."""
    nothing = Coverage(0, 0, None)
    return Answer("opdiff-answer", VERSION, mode.value, "unsure", "unknown", nothing, [], [utf8(problem)], [], [])


def encode_answer(answer: msgspec.Struct) -> bytes:
    """Return the JSON document; numbers that are not finite are null."""
    return msgspec.json.encode(answer) + b"\n"


def make_coverage(coverage: core.Coverage) -> Coverage:
    """Return how much was compared, and by the weakest data."""
    weakest: Literal["data", "statistics", "checksums"] | None = "data" if coverage.data else None
    if coverage.checksums:
        weakest = "checksums"
    elif coverage.statistics:
        weakest = "statistics"
    return Coverage(coverage.operators, coverage.compared, weakest)


def _outputs(comparison: Comparison) -> Iterator[Output]:
    """Yield the compared tensors of operators that no other operator reads."""
    last = {unit: _last_operators(graph) for graph in comparison.graphs for unit in graph.units or (None,)}
    for row, verdict in zip(comparison.rows, comparison.judgement.verdicts, strict=True):
        if row.key is None or not row.is_output or not row.is_compared or row.key.op not in last.get(row.unit, ()):
            continue
        cosine, distance = None, None
        if row.metrics is not None:
            cosine, distance = row.metrics.cosine, row.metrics.relative_euclidean_distance
        yield Output(utf8(str(row.key)), cosine, distance, str(verdict.level), _unit(row.unit) if row.unit else None)


def _last_operators(graph: ModelGraph) -> set[str]:
    """Return the operators with inputs whose outputs only `NetOutput` reads, or no operator."""
    sources = (source for node in graph.nodes if node.op_type != "NetOutput" for source in node.inputs)
    read = {source.rpartition(":")[0] for source in sources}
    return {node.name for node in graph.nodes if node.name not in read and any(node.inputs)}


def make_fault(finding: Finding, graphs: Sequence[ModelGraph]) -> Fault:
    """Return an operator at fault, with its originals."""
    nodes = (node for graph in graphs for node in graph.nodes if node.name == finding.operator)
    return Fault(
        operator=utf8(finding.operator),
        originals=[utf8(name) for name in next((node.originals for node in nodes), ())],
        tensor=utf8(finding.tensor),
        level=str(finding.level),
        kind=str(finding.kind),
        share=finding.share,
        proved=True if finding.is_proved else None,
        proved_units=[_unit(unit) for unit in finding.proved_units],
        before=[utf8(name) for name in finding.before],
        units=[_unit(unit) for unit in finding.units],
        missing=finding.missing.code if finding.missing else None,
    )


def _tensors(comparison: Comparison) -> Iterator[TensorAnswer]:
    for row, verdict in zip(comparison.rows, comparison.judgement.verdicts, strict=True):
        if row.golden_only or row.label.target == "*":
            continue
        yield TensorAnswer(
            tensor=utf8(str(row.key) if row.key else row.label.target),
            unit=_unit(row.unit) if row.unit else None,
            golden=utf8(os.path.basename(_LOCATION.sub("", row.golden_path))) or None,
            compared=row.is_compared,
            level=str(verdict.level),
            origin=verdict.origin.value or None,
            reason=row.reason.code if row.reason else None,
        )


def _unit(unit: dump.Unit) -> Unit:
    return Unit(*structs.astuple(unit))


def utf8(text: str) -> str:
    """Escape bytes of file names that are not UTF-8."""
    return text.encode(errors="backslashreplace").decode()
