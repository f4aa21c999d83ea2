"""Inject faults, compare, and record whether the operator and the cause are named correctly."""

from __future__ import annotations

import os
import shutil
import tempfile
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fault_injection.faults import FAULTS, FaultyNetwork, inject
from fault_injection.networks import NETWORKS
from fault_injection.onnx_network import onnx_model
from fault_injection.realistic_networks import REALISTIC_NETWORKS
from opdiff.api import compare
from opdiff.core import dtypes
from opdiff.core.tensor import file_safe_name
from opdiff.sample.device import device_values
from opdiff.sample.directory import golden_files, sample_in, target_files, write_files
from opdiff.workflows.compare.options import CompareOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.judgement import Finding
    from opdiff.sample.directory import Sample
    from opdiff.sample.graph import SampleNetwork

ALL_NETWORKS = NETWORKS | REALISTIC_NETWORKS
DTYPES = {"fp16": dtypes.FLOAT16, "bf16": dtypes.BFLOAT16}
DEPTHS = {"early": 0.1, "middle": 0.5, "late": 0.85}
_LATER = 0.95
_MODEL = "model.onnx"
_ROUNDING = {dtypes.FLOAT16: 2**-10, dtypes.BFLOAT16: 2**-7}


REPLAYED = 5
"""Suspects that are computed again without the model, as `opdiff compare` does."""
SECOND_FAULT = "scale"


class Setting(StrEnum):
    """Conditions of a run: as it is, without the dump right before the fault, with a second fault later on."""

    PLAIN = "plain"
    MISSING_DUMP = "missing dump"
    TWO_FAULTS = "two faults"


class Case(NamedTuple):
    """A network, and the fault that is injected; both `fault` and `depth` are empty for a sound run."""

    network: str
    dtype: str
    seed: int
    fault: str = ""
    depth: str = ""


class Outcome(NamedTuple):
    """Result of a case; a sound run must have no finding.

    Attributes:
        case: the case.
        is_found: the operator at fault, or each of two, was named.
        is_named: its cause was named, too.
        proved: operators without fault that were called proved.
        message: the findings.
    """

    case: Case
    is_found: bool
    is_named: bool
    proved: tuple[str, ...]
    message: str


class Evaluation(NamedTuple):
    """Extent of an evaluation: networks, element types, seeds, depths and faults."""

    networks: Iterable[str] = ALL_NETWORKS
    types: Iterable[str] = DTYPES
    seeds: Iterable[int] = (1, 2)
    depths: Iterable[str] = DEPTHS
    faults: Iterable[str] = FAULTS
    setting: Setting = Setting.PLAIN
    with_model: bool = False


def write_faulty_run(folder: str, case: Case) -> tuple[Sample, str]:
    """Write a run with a fault and its golden data; return the files and the operator at fault."""
    sound = ALL_NETWORKS[case.network](case.seed, DTYPES[case.dtype])
    faulty = inject(sound, case.fault, DEPTHS[case.depth])
    assert faulty is not None
    write_files(folder, golden_files(sound) | target_files(faulty.network))
    return sample_in(folder), faulty.operators[0]


def iter_outcomes(wanted: Evaluation) -> Iterator[Outcome]:
    """Evaluate every case, sound runs first."""
    cases = product(wanted.networks, wanted.types, wanted.seeds)
    for network, dtype, seed in cases:
        with tempfile.TemporaryDirectory() as folder:
            yield from _evaluate_network(Case(network, dtype, seed), wanted, folder)


def _evaluate_network(sound: Case, wanted: Evaluation, folder: str) -> Iterator[Outcome]:
    network = ALL_NETWORKS[sound.network](sound.seed, DTYPES[sound.dtype])
    write_files(folder, golden_files(network))
    if wanted.with_model:
        write_files(folder, {_MODEL: onnx_model(network)})
    if wanted.setting is Setting.PLAIN:
        yield _evaluate(sound, [FaultyNetwork(network, (), ())], folder, wanted)
    for fault in wanted.faults:
        # There is one input, at any depth.
        for depth in list(wanted.depths)[: 1 if fault.startswith("input") else None]:
            faults = _inject(network, fault, DEPTHS[depth], wanted.setting)
            if faults:
                yield _evaluate(sound._replace(fault=fault, depth=depth), faults, folder, wanted)


def _inject(network: SampleNetwork, fault: str, depth: float, setting: Setting) -> list[FaultyNetwork]:
    """Return a network with a fault, and with a second one; nothing if the network has no suitable operator."""
    first = inject(network, fault, depth)
    if first is None or not _has_effect(network, first):
        return []
    if setting is not Setting.TWO_FAULTS:
        return [first]
    second = inject(first.network, SECOND_FAULT, _LATER)
    is_other = second is not None and not set(second.operators) & set(first.operators)
    return [first, second] if second is not None and is_other else []


def _has_effect(network: SampleNetwork, faulty: FaultyNetwork) -> bool:
    """Return whether the outputs of the operator at fault change by more than a rounding of the element type."""
    op = next(op for op in network.device if op.name == faulty.operators[0])
    before, after = (device_values(item)[op.ports[0]].astype(np.float64) for item in (network, faulty.network))
    unit = _ROUNDING.get(op.outputs[0].dtype, 0.0)
    if not np.isfinite(after).all():
        return True
    return bool(np.linalg.norm(after - before) > unit * np.linalg.norm(before))


def _evaluate(case: Case, faults: list[FaultyNetwork], folder: str, wanted: Evaluation) -> Outcome:
    shutil.rmtree(os.path.join(folder, "npu"), ignore_errors=True)
    files = target_files(faults[-1].network)
    if wanted.setting is Setting.MISSING_DUMP:
        files = _without_dump_before(files, faults[0])
    write_files(folder, files)
    paths = sample_in(folder)
    model = os.path.join(folder, _MODEL) if wanted.with_model else ""
    options = CompareOptions(model=model, replay=None if model else REPLAYED, pictures="none")
    judgement = compare(paths.target, paths.golden, rules=paths.rules, options=options).judgement
    right = {operator for fault in faults for operator in fault.operators}
    findings = judgement.findings
    proved = tuple(item.operator for item in findings if item.is_proved and item.operator not in right)
    message = "; ".join(f"{item.operator} {item.kind}" for item in findings[:3]) or "no finding"
    if not case.fault:
        return Outcome(case, not findings, not findings, proved, message)
    named = [_is_named(fault, findings if len(faults) > 1 else findings[:1]) for fault in faults]
    expected = ", ".join(fault.operators[0] for fault in faults)
    is_found, is_named = all(found for found, _ in named), all(cause for _, cause in named)
    return Outcome(case, is_found, is_named, proved, f"{message}; expected {expected}")


def _is_named(fault: FaultyNetwork, findings: Sequence[Finding]) -> tuple[bool, bool]:
    """Return whether one of the findings is about the operator at fault, and whether it has the right cause."""
    found = [item for item in findings if {item.operator, *item.before} & set(fault.operators)]
    return bool(found), any(item.kind in fault.kinds for item in found)


def _without_dump_before(files: dict[str, bytes], faulty: FaultyNetwork) -> dict[str, bytes]:
    """Leave out the dump of the operator that computes the first input of the operator at fault."""
    culprit = next(op for op in faulty.network.device if op.name == faulty.operators[0])
    before = file_safe_name(culprit.inputs[0].op)
    return {path: content for path, content in files.items() if os.path.basename(path).split(".")[1] != before}
