"""A part of the faults of `bench/faults.py`: the operator and the cause are named, and sound runs come out sound."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from opdiff.sample.nets import NETS

BENCH = Path(__file__).parent.parent.parent / "bench" / "faults.py"


@pytest.fixture(scope="module")
def outcomes() -> list[Any]:
    spec = importlib.util.spec_from_file_location("faults", BENCH)
    assert spec is not None
    assert spec.loader is not None
    faults = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(faults)
    found = list(faults.iter_outcomes(seeds=(21,), places=("early", "late"), types=("fp16",)))
    return found + list(faults.iter_outcomes(seeds=(22,), places=("middle",), types=("bf16",)))


def test_sound_runs_have_no_findings(outcomes: list[Any]) -> None:
    clean = [each for each in outcomes if not each.fault]
    assert len(clean) == 2 * len(NETS)
    assert [each for each in clean if each.said] == []


def test_operators_and_causes_are_named(outcomes: list[Any]) -> None:
    faulty = [each for each in outcomes if each.fault]
    assert len(faulty) > 80
    assert sum(each.is_found for each in faulty) / len(faulty) >= 0.95
    assert sum(each.is_named for each in faulty) / len(faulty) >= 0.90
