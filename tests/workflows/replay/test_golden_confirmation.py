"""Replay without the original model in a comparison: golden data confirms that the computation is the right one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from command_line import run
from fault_injection.evaluation import REPLAYED, Case, write_faulty_run
from opdiff.api import compare
from opdiff.core.judgement import ErrorKind
from opdiff.core.replay import ReplayVerdict
from opdiff.sample.directory import write_sample
from opdiff.workflows.compare.options import CompareOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.core.comparison import Comparison
    from opdiff.sample.directory import Sample


def compared(files: Sample, replay: int = REPLAYED) -> Comparison:
    options = CompareOptions(replay=replay)
    return compare(files.target, files.golden, rules=files.rules, options=options).values


def change_rules(files: Sample, change: Callable[[dict[str, Any]], None]) -> None:
    path = Path(files.rules)
    rules = json.loads(path.read_text())
    for operator in rules["graph"][0]["op"]:
        change(operator)
    path.write_text(json.dumps(rules))


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (Case("cancelling", "bf16", 24, "scale per channel", "middle"), ErrorKind.SCALE),
        (Case("cancelling", "bf16", 24, "other padding", "late"), ErrorKind.PADDING),
        (Case("cancelling", "bf16", 24, "zero", "middle"), ErrorKind.MEMORY),
        (Case("cancelling", "bf16", 24, "accumulation", "middle"), ErrorKind.PRECISION),
        (Case("quantized", "fp16", 24, "no bias", "late"), ErrorKind.BIAS),
        (Case("split-norm", "bf16", 24, "rough function", "late"), ErrorKind.FUNCTION),
    ],
)
def test_a_fault_that_noise_hides_is_proved(tmp_path: Path, case: Case, kind: ErrorKind) -> None:
    files, operator = write_faulty_run(str(tmp_path), case)
    assert compared(files, replay=0).judgement.findings == ()
    (finding,) = compared(files).judgement.findings
    assert (finding.operator, finding.kind, finding.is_proved) == (operator, kind, True)


def test_a_fused_operator_is_proved_by_the_composition_of_the_golden_data(tmp_path: Path) -> None:
    files, operator = write_faulty_run(str(tmp_path), Case("residual", "fp16", 24, "no activation", "middle"))
    finding = compared(files).judgement.findings[0]
    assert (finding.operator, finding.kind, finding.is_proved) == (operator, ErrorKind.ACTIVATION, True)


def test_attributes_that_contradict_the_golden_data_neither_prove_nor_refute(tmp_path: Path) -> None:
    files, operator = write_faulty_run(str(tmp_path), Case("detection", "fp16", 24, "other resize mode", "middle"))
    finding = compared(files).judgement.findings[0]
    assert (finding.operator, finding.kind, finding.is_proved) == (operator, ErrorKind.FUNCTION, True)

    def forget_mode(operator: dict[str, Any]) -> None:
        operator["attr"] = [entry for entry in operator["attr"] if entry["key"] != "half_pixel_centers"]

    change_rules(files, forget_mode)
    finding = compared(files).judgement.findings[0]
    # By these attributes the faulty output would be right. The golden output is not, so that nothing is withdrawn.
    assert (finding.operator, finding.is_proved) == (operator, False)


def test_an_innocent_operator_with_unknown_attributes_is_not_guilty(tmp_path: Path) -> None:
    files, _ = write_faulty_run(str(tmp_path), Case("detection", "fp16", 24, "scale", "early"))

    def forget_windows(operator: dict[str, Any]) -> None:
        for entry in operator["attr"]:
            if entry["key"] == "pads" and operator["type"] == "Conv2D":
                entry["value"]["list"]["i"] = [0, 2, 0, 2]

    change_rules(files, forget_windows)
    replays = compared(files, replay=50).replays
    assert ReplayVerdict.GUILTY not in {item.verdict for item in replays if item.op_type == "Conv2D"}


def test_suspects_are_replayed_without_being_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, operator = write_faulty_run(str(tmp_path), Case("cancelling", "fp16", 24, "zero", "middle"))
    sides = ("compare", files.target, files.golden, "--rules", files.rules, "-o", tmp_path / "out", "--no-html")
    assert f"{operator} (Add) is proved to be at fault" in run(capsys, *sides).out
    assert "proved" not in run(capsys, *sides, "--replay", "none").out


def test_an_overflow_of_the_element_type_is_not_withdrawn(tmp_path: Path) -> None:
    """The operator overflows again when it is computed in the type of its output, which is the fault."""
    files = write_sample(str(tmp_path / "sample"), faults=["overflow"])
    (finding,) = compared(files).judgement.findings
    assert (finding.operator, finding.kind) == ("gate/conv", ErrorKind.OVERFLOW)
