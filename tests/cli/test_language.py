"""`--lang zh`: no English sentence is left on the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from command_line import run
from opdiff.cli.cmd_topn import Gate
from opdiff.core.reasons import Language, quoted
from opdiff.report.columns import columns_of
from opdiff.report.summary_text import sentence_lines
from opdiff.sample import write_sample
from opdiff.sample.stages import write_stage_sample

if TYPE_CHECKING:
    from pathlib import Path

# Two or more English words in a row; names, paths and commands have other characters between words.
_SENTENCE = re.compile(r"\b[a-z]{2,} (?:[a-z]{2,}\b ?)+")
# Lines that are commands to be copied.
_COMMAND = re.compile(r"^(?:下一步\uff1a|  )opdiff .*$", re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("zh")
    write_sample(str(root / "s"))
    write_stage_sample(str(root / "stages"), ["conversion"])
    return root


def sides(folder: Path) -> list[str]:
    return [str(folder / "s" / "npu"), str(folder / "s" / "golden"), "--rules", str(folder / "s/rules/network.json")]


def english_in(text: str) -> list[str]:
    return _SENTENCE.findall(_COMMAND.sub("", text))


@pytest.mark.parametrize("option", ["-q", "-v", "--color=never"])
def test_a_comparison_is_chinese_throughout(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    words = ("-o", tmp_path, "--lang", "zh", "--fail-on", "wrong", "--remedies", tmp_path / "fixes", option)
    outcome = run(capsys, "compare", *sides(folder), *words)
    assert outcome.code == 1
    assert "context/pool" in outcome.out
    assert english_in(outcome.out + outcome.err) == []
    judged = run(capsys, "judge", tmp_path, "--lang", "zh")
    assert "context/pool:output:0 (MaxPoolV3): 输出的数值正确" in judged.out
    assert english_in(judged.out) == []


def test_the_message_of_a_gate_has_count_and_operators(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = [
        run(capsys, "compare", *sides(folder), "-o", tmp_path, "--fail-on", "wrong", "--lang", language).err
        for language in ("en", "zh")
    ]
    start = "opdiff: gate violated: there are tensors that are wrong: 20 tensors of context/pool, "
    assert messages[0].startswith(start)
    assert messages[0].endswith(" and 7 more\n")
    assert "context/pool, " in messages[1]
    assert messages[1].endswith(" 及另外 7 个算子的 20 个张量\n")


def test_stages_are_chinese_throughout(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [folder / "stages" / name for name in ("original", "offline_fusion_off", "offline")]
    rules = folder / "stages" / "rules"
    words = ("-cfr", rules / "fusion_off.json", "-fr", rules / "fusion_on.json", "-qfr", rules / "quant.json")
    outcome = run(capsys, "stages", *folders, *words, "-o", tmp_path, "--lang", "zh")
    assert outcome.code == 0
    assert english_in(outcome.out + outcome.err) == []


def test_results_of_samples_are_chinese_throughout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(capsys, "topn", *sides(folder)[:2], "--operator", "head/softmax", "--lang", "zh")
    assert outcome.code == 0
    assert english_in(outcome.out + outcome.err) == []


@pytest.mark.parametrize("gate", [Gate("wrong"), Gate("suspicious"), Gate(limit=0.005)])
def test_gates_of_samples_are_chinese(gate: Gate) -> None:
    assert gate.sentence(Language.ENGLISH).startswith("gate violated: the ")
    assert english_in(gate.sentence(Language.CHINESE)) == []


def test_no_line_begins_with_closing_punctuation() -> None:
    comma, stop = "\uff0c", "\u3002"
    sentence = quoted("检" * 40 + comma + "查" * 10 + "F" * 58 + stop)
    lines = [line.text for line in sentence_lines([sentence], Language.CHINESE)]
    assert len(lines) == 3
    assert all(columns_of(line) <= 80 for line in lines)
    assert [line for line in lines if line.strip()[0] in (comma, stop)] == []
