"""The command after `next:` runs as it is printed, whatever was compared, and examines the tensor at fault."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from command_line import Outcome, run
from made_dumps import describe, numbers, rule
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path

    from made_dumps import Case

GOLDEN = numbers(3, 5)
QUANT = "conv_dequant_layer"
FUSION = rule("conv", outputs=(describe("conv", 0),))
QUANTIZED = rule(QUANT, outputs=(describe(QUANT, 0),))
QUANTIZATION = rule(QUANT, originals=("conv",), outputs=(describe("conv", 0),))
PAIRS = '[[pair]]\ntarget = "conv:output:0"\ngolden = "conv:output:0"\n'


def examine(capsys: pytest.CaptureFixture[str], printed: Outcome, out: Path) -> str:
    """Run the command that was printed; return its first line."""
    (command,) = re.findall(r"^next: (.*)$", printed.out, re.MULTILINE)
    program, *arguments = shlex.split(command)
    assert program == "opdiff"
    done = run(capsys, *arguments, "-o", out)
    assert done.code == 0, done
    return done.out.splitlines()[0]


@pytest.mark.parametrize(
    ("target", "golden", "rules"),
    [
        pytest.param("conv", "npy", {"-fr": FUSION}, id="-fr"),
        pytest.param("conv", "npu", {}, id="no rules"),
        pytest.param("conv", "npu", {"-fr": FUSION, "-cfr": FUSION}, id="-cfr"),
        pytest.param(QUANT, "npy", {"-qfr": QUANTIZATION}, id="-qfr alone"),
        pytest.param(QUANT, "npy", {"-fr": QUANTIZED, "-qfr": QUANTIZATION}, id="-fr and -qfr"),
    ],
)
def test_offline(case: Case, target: str, golden: str, rules: dict[str, dict[str, object]]) -> None:
    case.npu(target, GOLDEN * 2)
    (case.npu_golden if golden == "npu" else case.npy)("conv", GOLDEN)
    words = [word for option, one in rules.items() for word in (option, case.rules(one, file=f"a b/{option}.json"))]
    done = case.run(*words)
    assert examine(case.capsys, done, case.root / "op").startswith(f"{target}:output:0 ")
    judged = run(case.capsys, "judge", case.out)
    assert examine(case.capsys, judged, case.root / "op").startswith(f"{target}:output:0 ")


def test_manual_pairs_and_conversions_are_part_of_it(case: Case) -> None:
    rules = case.one(GOLDEN * 2, GOLDEN)
    pairs = case.add(case.root, "pairs.toml", PAIRS.replace("conv", "a").encode())
    custom = case.root / "custom"
    (custom / "format_convert").mkdir(parents=True)
    done = case.run("-fr", rules, "--pairs", pairs, "-c", custom)
    assert shlex.join(["--pairs", str(pairs), "--custom", str(custom)]) in done.out
    assert examine(case.capsys, done, case.root / "op").startswith("a:output:0 ")


def test_training_names_the_folder_of_the_step_and_its_rule_file(case: Case) -> None:
    case.npy("conv", GOLDEN)
    case.npu("conv", GOLDEN * 2, folder=case.target / "20240101120000" / "0" / "train_7_11" / "1" / "3")
    case.rules(FUSION, file="rules/net.json", graph="train_7_11")
    done = case.run("-fr", case.root / "rules")
    assert examine(case.capsys, done, case.root / "op").startswith("conv:output:0 ")


def test_graph_mode_names_rank_and_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = write_graph_sample(str(tmp_path / "graphs"))
    done = run(capsys, "compare", sample.target, sample.golden, "-o", tmp_path / "out", "--no-html")
    assert examine(capsys, done, tmp_path / "op") == "MatMul_1:output:0 (MatMulV2), rank 0, token 1"
    assert "--token 1" in run(capsys, "judge", tmp_path / "out").out


def test_nothing_is_suggested_when_the_dumps_are_gone(case: Case) -> None:
    rules = case.one(GOLDEN * 2, GOLDEN)
    assert "next: " in case.run("-fr", rules).out
    os.rename(case.golden, case.root / "moved")
    judged = run(case.capsys, "judge", case.out)
    assert judged.code == 0
    assert "next: " not in judged.out
