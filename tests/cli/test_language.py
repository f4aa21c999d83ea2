"""`--lang zh`: no English sentence is left on the terminal."""

from __future__ import annotations

import re
from contextvars import copy_context
from pathlib import Path

import pytest

from command_line import Capture, run
from opdiff.cli import main
from opdiff.cli.cmd_topn import Gate
from opdiff.cli.language import choose_language
from opdiff.core.reasons import Language, quoted
from opdiff.report.columns import columns_of
from opdiff.report.summary_text import sentence_lines
from opdiff.sample import write_sample
from opdiff.sample.stages import write_stage_sample

# Two or more English words in a row; names, paths and commands have other characters between words.
_SENTENCE = re.compile(r"\b[a-z]{2,} (?:[a-z]{2,}\b ?)+")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Lines that are commands to be copied.
_COMMAND = re.compile(r"^(?:下一步\uff1a|可尝试\uff1a|  +)opdiff .*$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("zh")
    write_sample(str(root / "s"))
    write_stage_sample(str(root / "stages"), ["conversion"])
    return root


@pytest.fixture(scope="module")
def saved(folder: Path) -> Path:
    """The samples with two saved comparisons and a limits file."""
    for name, target in (("one", "npu"), ("two", "golden")):
        words = (str(folder / "s" / "npu"), str(folder / "s" / target), *sides(folder)[2:], "-o", str(folder / name))
        main(["compare", *(words if target == "golden" else words[:2] + words[4:])])
    (folder / "limits.toml").write_text("")
    return folder


def sides(folder: Path) -> list[str]:
    return [str(folder / "s" / "npu"), str(folder / "s" / "golden"), "--rules", str(folder / "s/rules/network.json")]


def english_in(text: str) -> list[str]:
    return _SENTENCE.findall(_COMMAND.sub("", text))


@pytest.mark.parametrize("option", ["-q", "-v", "--color=never"])
def test_a_comparison_is_chinese_throughout(folder: Path, tmp_path: Path, capsys: Capture, option: str) -> None:
    words = ("-o", tmp_path, "--lang", "zh", "--fail-on", "wrong", "--remedies", tmp_path / "fixes", option)
    outcome = run(capsys, "compare", *sides(folder), *words)
    assert outcome.code == 1
    assert "context/pool" in outcome.out
    assert english_in(outcome.out + outcome.err) == []
    judged = run(capsys, "judge", tmp_path, "--lang", "zh")
    assert "context/pool:output:0 (MaxPoolV3): 输出的数值正确" in judged.out
    assert english_in(judged.out) == []


def test_the_message_of_a_gate_has_count_and_operators(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    messages = [
        run(capsys, "compare", *sides(folder), "-o", tmp_path, "--fail-on", "wrong", "--lang", language).err
        for language in ("en", "zh")
    ]
    start = "opdiff: gate violated: there are tensors that are wrong: 20 tensors of context/pool, "
    assert messages[0].startswith(start)
    assert messages[0].endswith(" and 7 more\n")
    assert "context/pool, " in messages[1]
    assert messages[1].endswith(" 及另外 7 个算子的 20 个张量\n")


def test_stages_are_chinese_throughout(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    folders = [folder / "stages" / name for name in ("original", "offline_fusion_off", "offline")]
    rules = folder / "stages" / "rules"
    words = ("-cfr", rules / "fusion_off.json", "-fr", rules / "fusion_on.json", "-qfr", rules / "quant.json")
    outcome = run(capsys, "stages", *folders, *words, "-o", tmp_path, "--lang", "zh")
    assert outcome.code == 0
    assert english_in(outcome.out + outcome.err) == []


def test_results_of_samples_are_chinese_throughout(folder: Path, capsys: Capture) -> None:
    outcome = run(capsys, "topn", *sides(folder)[:2], "--operator", "head/softmax", "--lang", "zh")
    assert outcome.code == 0
    assert english_in(outcome.out + outcome.err) == []


@pytest.mark.parametrize("gate", [Gate("wrong"), Gate("suspicious"), Gate(limit=0.005)])
def test_gates_of_samples_are_chinese(gate: Gate) -> None:
    assert gate.sentence().startswith("gate violated: the ")
    context = copy_context()
    context.run(choose_language, ["--lang", "zh"])
    assert english_in(context.run(gate.sentence)) == []


def test_no_line_begins_with_closing_or_ends_with_opening_punctuation() -> None:
    comma, stop, opening = "\uff0c", "\u3002", "\uff08"
    sentence = quoted("检" * 40 + comma + "查" * 10 + "F" * 58 + stop + "看" * 47 + opening + "C, W" + stop)
    lines = [line.text for line in sentence_lines([sentence], Language.CHINESE)]
    assert len(lines) == 5
    assert all(columns_of(line) <= 80 for line in lines)
    assert [line for line in lines if line.strip()[0] in (comma, stop) or line[-1] == opening] == []


def commands(folder: Path, out: Path) -> dict[str, list[object]]:
    """One run of every command that reads dumps or results."""
    npu, golden, *rules = sides(folder)
    file = folder / "s" / "npu" / "Conv2D.gate_conv.44.5.1700000100007266"
    return {
        "inspect-tree": ["inspect", npu],
        "inspect-values": ["inspect", npu, "--stats"],
        "inspect-file": ["inspect", file, "--stats", "-v"],
        "inspect-rules": ["inspect", rules[1]],
        "op": ["op", "context/pool", npu, golden, *rules, "-o", out],
        "op-unknown": ["op", "context/poll", npu, golden, *rules, "-o", out],
        "overflow": ["overflow", npu, "-n", 3],
        "convert": ["convert", npu, golden, "-o", out, "--format", "NCHW", "-v"],
        "mapping": ["compare", npu, golden, *rules, "--mapping", "-o", out],
        "bundle": ["bundle", "context/pool", npu, golden, *rules, "-o", out / "b.zip"],
        "selftest": ["selftest", npu, golden, *rules, "--tensors", 1, "--faults", "scale,nan"],
        "limits": ["limits", "--check", folder / "limits.toml"],
        "diff": ["diff", folder / "one", folder / "two", "--fail-on", "worse"],
        "report": ["report", folder / "one", "-o", out / "r.html"],
        "golden": ["golden", folder / "no.onnx", "-o", out / "g"],
        "demo": ["demo", out / "d"],
        "demo-torchair": ["demo", out / "t", "--torchair"],
        "demo-stages": ["demo", out / "st", "--stages"],
        "exchanged": ["compare", golden, npu, *rules],
        "no-rules": ["compare", npu, golden],
    }


@pytest.mark.parametrize("name", list(commands(Path(), Path())))
def test_every_command_is_chinese_throughout(saved: Path, tmp_path: Path, capsys: Capture, name: str) -> None:
    outcome = run(capsys, *commands(saved, tmp_path)[name], "--lang", "zh")
    assert outcome.code in (0, 1, 2, 3)
    assert _CHINESE.search(outcome.out + outcome.err)
    assert english_in(outcome.out + outcome.err) == []
