"""A quantized offline model, compiled as usual, against its original by the quantization file alone."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace

import opdiff
from opdiff.core.pairing import Pairing
from opdiff.core.tensor import file_safe_name
from opdiff.sample.stages import STAGE_FAULTS, write_stage_sample
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import pair_only

# In the fused models; the fault of the version is in another dump.
FAULTY = {
    "quantization": "block1_conv2block1_conv2_dequant_layerblock1_conv2_relu",
    "conversion": "pool",
    "fusion": "block2_conv1block2_conv1_dequant_layerblock2_conv1_relu",
}


def golden_tensors(options: CompareOptions) -> dict[str, str]:
    """Return the golden tensor of each paired tensor of the target, by its name as in file names."""
    (found,) = pair_only(options)
    assert not isinstance(found, ComparisonProblem)
    return {file_safe_name(str(pair.key)): str(pair.golden_key) for pair in found if isinstance(pair, Pairing)}


def test_all_pairs_are_those_of_both_files(tmp_path: Path) -> None:
    sample = write_stage_sample(str(tmp_path))
    options = CompareOptions(sample.fusion_on, sample.original, quant_rules=sample.quant_rules)
    both = golden_tensors(replace(options, fusion_rules=sample.fusion_on_rules))
    alone = golden_tensors(options)
    assert alone == {key: name for key, name in both.items() if not key.startswith("trans_")}
    assert len(alone) > 20


@pytest.mark.parametrize("faults", [(), *((fault,) for fault in FAULTY), *combinations(FAULTY, 2)], ids=str)
def test_only_operators_at_fault_are_blamed(tmp_path: Path, faults: tuple[str, ...]) -> None:
    assert FAULTY.keys() < STAGE_FAULTS.keys()
    sample = write_stage_sample(str(tmp_path), faults)
    found = opdiff.compare(sample.fusion_on, sample.original, quant_rules=sample.quant_rules)
    blamed = {finding.operator for finding in found.findings}
    assert blamed <= {FAULTY[fault] for fault in faults}
    assert bool(blamed) is bool(faults)


@pytest.mark.parametrize("fault", ["", *FAULTY])
def test_activations_without_a_trace_in_the_names(tmp_path: Path, fault: str) -> None:
    """Compilers let the dequantization compute the activation; its readers tell nevertheless what it returns."""
    sample = write_stage_sample(str(tmp_path), [fault] if fault else [])
    for path in Path(sample.fusion_on).glob("*_relu.*"):
        path.rename(path.with_name(re.sub(r"(dequant_layer|_add|stem)\w+_relu\.", r"\1.", path.name)))
    found = opdiff.compare(sample.fusion_on, sample.original, quant_rules=sample.quant_rules)
    coverage = found.judgement.coverage
    assert (coverage.compared, coverage.operators) == (3, 18)
    assert str(found.notes[0]).startswith("10 of 18 dumped operators")
    suspects = {name for finding in found.findings for name in (finding.operator, *finding.before)}
    assert bool(suspects) is bool(fault)
    assert not fault or any(FAULTY[fault].startswith(name) for name in suspects)


def test_what_needs_the_rules_of_the_offline_model_is_said_once(tmp_path: Path) -> None:
    sample = write_stage_sample(str(tmp_path))
    found = opdiff.compare(sample.fusion_on, sample.original, quant_rules=sample.quant_rules)
    (note,) = found.notes
    assert str(note).startswith("2 of 18 dumped operators cannot be compared")
    assert "-fr" in str(note)
    coverage = found.judgement.coverage
    assert (coverage.compared, coverage.operators) == (11, 18)


def test_the_quantization_file_of_another_model(tmp_path: Path) -> None:
    sample = write_stage_sample(str(tmp_path))
    other = tmp_path / "other.json"
    with open(sample.quant_rules) as file:
        other.write_text(file.read().replace("block", "stage").replace("tail", "end").replace("stem", "first"))
    found = opdiff.compare(sample.fusion_on, sample.original, quant_rules=other)
    assert found.findings == ()
    assert str(found.judgement.misfit).startswith(
        "The quantization file does not seem to belong to these dumps: the na"
    )
