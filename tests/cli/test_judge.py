"""`opdiff judge`, `opdiff limits`, and the advice of `opdiff compare`."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from command_line import Capture, run
from made_reports import FAULT, judged_comparison
from opdiff.core.comparison import Comparison, ExtraInputs, Side, next_command
from opdiff.core.dump import DumpKind
from opdiff.report.columns import columns_of
from opdiff.report.saved_json import load
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def saved(tmp_path: Path, capsys: Capture) -> Path:
    made = write_sample(str(tmp_path / "sample"), faults=["wrong-scale"])
    out, fixes = str(tmp_path / "out"), str(tmp_path / "fixes")
    words = ["compare", made.target, made.golden, "-fr", made.rules, "--replay", "none"]
    done = run(capsys, *words, "-o", out, "--remedies", fixes)
    assert "\nlocal · conv1 + conv1_relu (Conv2D) is at fault: wrong scale" in done.out
    switch = json.loads((tmp_path / "fixes" / "fusion_switch.cfg").read_text())["Switch"]
    assert switch["GraphFusion"] == {"ConvBatchnormFusionPass": "off"}
    (path,) = (tmp_path / "out").glob("*.json")
    return path


def test_judging_again_changes_nothing(saved: Path, tmp_path: Path, capsys: Capture) -> None:
    again = tmp_path / "again.json"
    done = run(capsys, "judge", str(saved), "-o", str(again))
    assert done.code == 0
    assert "1. local/conv1local/conv1_relu:output:0 (Conv2D): scale" in done.out
    assert load(str(again)) == load(str(saved))


def test_other_limits_and_languages(saved: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "lax.toml").write_text("[dtype.float16]\nnoise = 0.1\n")
    assert "\nNo operator is at fault" in run(capsys, "judge", saved, "--limits", tmp_path / "lax.toml").out
    for lang, end in (("en", "compared:"), ("zh", "已比对：")):  # noqa: RUF001
        advice = run(capsys, "judge", saved, "--lang", lang).out.partition(end)[0]
        assert "\nlocal · conv1 + conv1_relu" in advice
        assert max(map(columns_of, advice.splitlines())) <= 80


def test_a_third_run_identifies_the_step(tmp_path: Path, capsys: Capture) -> None:
    bad = write_sample(str(tmp_path / "bad"), faults=["wrong-scale"])
    good = write_sample(str(tmp_path / "good"), faults=[])
    rules = ("-fr", bad.rules, "-cfr", good.rules, "-o", str(tmp_path / "out"))
    done = run(capsys, "compare", bad.target, good.golden, *rules, "--third", good.target)
    assert "accuracy is lost in fusion (stage 2 to 3," in done.out
    assert "operator at fault: local/conv1local/conv1_relu" in done.out
    done = run(capsys, "compare", bad.target, good.golden, *rules, "--third", bad.target)
    assert "accuracy is lost in conversion (stage 1 to 2," in done.out
    done = run(capsys, "compare", bad.target, good.golden, *rules[:2], "--third", good.target, "-o", str(tmp_path))
    assert done.code == 2
    assert "--third needs the rules of both runs" in done.err


def _compared(target: str, golden: str, rules: str = "") -> Comparison:
    sides = Side(target, DumpKind.NPU), Side(golden, DumpKind.ARRAYS)
    return replace(judged_comparison(), target=sides[0], golden=sides[1], extra_inputs=ExtraInputs(rules))


@given(*[st.text(st.characters(exclude_categories=["Cs"]), min_size=1)] * 4)
def test_the_next_command_is_quoted_for_a_shell(target: str, golden: str, tensor: str, rules: str) -> None:
    command = next_command(_compared(target, golden, rules), replace(FAULT, tensor=tensor))
    assert shlex.split(command) == ["opdiff", "op", tensor, target, golden, "--rules", rules]


def test_names_are_not_expanded_by_a_shell() -> None:
    command = next_command(_compared("$(touch x)", "`touch y`"), replace(FAULT, tensor='it\'s "a" tensor'))
    shell = ["/bin/sh", "-c", command.replace("opdiff op", "printf '%s\\n'")]
    printed = subprocess.run(shell, capture_output=True, check=True)
    assert printed.stdout.decode().splitlines() == ['it\'s "a" tensor', "$(touch x)", "`touch y`"]


def test_a_result_of_graph_mode_is_judged_again(tmp_path: Path, capsys: Capture) -> None:
    sample = write_graph_sample(str(tmp_path / "graphs"), ranks=1, tokens=1)
    assert run(capsys, "compare", sample.target, sample.golden, "-o", tmp_path / "out", "--no-html").code == 0
    (path,) = (tmp_path / "out").glob("result_*.json")
    done = run(capsys, "judge", tmp_path / "out", "-o", tmp_path / "again.json")
    assert done.code == 0
    assert repr(load(str(tmp_path / "again.json"))) == repr(load(str(path)))
