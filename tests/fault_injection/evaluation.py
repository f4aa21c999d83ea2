"""Inject faults, compare, and record whether the operator and the cause are named correctly."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from fault_injection.faults import FAULTS, FaultyNetwork, inject
from fault_injection.networks import NETWORKS
from fault_injection.realistic_networks import REALISTIC_NETWORKS
from opdiff.api import compare
from opdiff.core import dtypes
from opdiff.sample.directory import golden_files, sample_in, target_files, write_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.judgement import Finding

ALL_NETWORKS = NETWORKS | REALISTIC_NETWORKS
DTYPES = {"fp16": dtypes.FLOAT16, "bf16": dtypes.BFLOAT16}
DEPTHS = {"early": 0.1, "middle": 0.5, "late": 0.85}


class Case(NamedTuple):
    """A network, and the fault that is injected; both `fault` and `depth` are empty for a sound run."""

    network: str
    dtype: str
    seed: int
    fault: str = ""
    depth: str = ""


class Outcome(NamedTuple):
    """Result of a case; a sound run must have no finding."""

    case: Case
    is_found: bool
    is_named: bool
    message: str


def iter_outcomes(
    networks: Iterable[str] = ALL_NETWORKS,
    types: Iterable[str] = DTYPES,
    seeds: Iterable[int] = (1, 2),
    depths: Iterable[str] = DEPTHS,
    faults: Iterable[str] = FAULTS,
) -> Iterator[Outcome]:
    """Evaluate every case, sound runs first."""
    cases = [Case(network, dtype, seed) for network in networks for dtype in types for seed in seeds]
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            yield from _evaluate_network(case, list(depths), list(faults), folder)


def _evaluate_network(sound: Case, depths: list[str], faults: list[str], folder: str) -> Iterator[Outcome]:
    network = ALL_NETWORKS[sound.network](sound.seed, DTYPES[sound.dtype])
    write_files(folder, golden_files(network))
    yield _evaluate(sound, FaultyNetwork(network, (), ()), folder)
    for fault in faults:
        # There is one input, at any depth.
        for depth in depths[:1] if fault.startswith("input") else depths:
            faulty = inject(network, fault, DEPTHS[depth])
            if faulty is not None:
                yield _evaluate(sound._replace(fault=fault, depth=depth), faulty, folder)


def _evaluate(case: Case, faulty: FaultyNetwork, folder: str) -> Outcome:
    shutil.rmtree(os.path.join(folder, "npu"), ignore_errors=True)
    write_files(folder, target_files(faulty.network))
    files = sample_in(folder)
    judgement = compare(files.target, files.golden, rules=files.rules).judgement
    assert judgement is not None
    return _faulty_outcome(case, faulty, judgement.findings) if case.fault else _sound_outcome(case, judgement.findings)


def _sound_outcome(case: Case, findings: tuple[Finding, ...]) -> Outcome:
    message = "; ".join(f"{finding.tensor} {finding.kind} {finding.excess}" for finding in findings)
    return Outcome(case, not findings, not findings, message)


def _faulty_outcome(case: Case, faulty: FaultyNetwork, findings: tuple[Finding, ...]) -> Outcome:
    if not findings:
        return Outcome(case, is_found=False, is_named=False, message="no finding")
    worst = findings[0]
    is_found = bool({worst.operator, *worst.before} & set(faulty.operators))
    message = f"{worst.operator} {worst.kind} of {len(findings)}; expected {faulty.operators[0]}"
    return Outcome(case, is_found, is_found and worst.kind in faulty.kinds, message)
