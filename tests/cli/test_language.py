"""`--lang zh`: no English sentence is left on the terminal, in the help and in errors of arguments."""

from __future__ import annotations

import re
from contextvars import copy_context
from pathlib import Path

import pytest

from command_line import Capture, run
from opdiff.cli import main
from opdiff.cli.cmd_topn import Gate
from opdiff.cli.language import choose_language
from opdiff.cli.parsers import (
    COMMANDS,
    LocalizedParser,
    chinese_help,
    command_parser,
    help_key,
    overview_parser,
    split_example,
)
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
    words = ("compare", *sides(folder), "-o", tmp_path, "--fail-on", "wrong", "--lang")
    english, chinese = (run(capsys, *words, language).err for language in ("en", "zh"))
    assert english.startswith("opdiff: gate violated: there are tensors that are wrong: 20 tensors of context/pool, ")
    assert english.endswith(" and 7 more\n")
    assert "context/pool, " in chinese
    assert chinese.endswith(" 及另外 7 个算子的 20 个张量\n")


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
    stages = [folder / "stages" / name for name in ("original", "offline_fusion_off", "offline")]
    options = {"-cfr": "fusion_off", "-fr": "fusion_on", "-qfr": "quant"}
    stage_rules = [word for option, name in options.items() for word in (option, folder / f"stages/rules/{name}.json")]
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
        "stages": ["stages", *stages, *stage_rules, "-o", out],
        "topn": ["topn", npu, golden, "--operator", "head/softmax"],
        "replay": ["replay", npu, *rules, "--op", "context/pool"],
        "exchanged": ["compare", golden, npu, *rules],
        "no-rules": ["compare", npu, golden],
    }


@pytest.mark.parametrize("name", list(commands(Path(), Path())))
def test_every_command_is_chinese_throughout(saved: Path, tmp_path: Path, capsys: Capture, name: str) -> None:
    outcome = run(capsys, *commands(saved, tmp_path)[name], "--lang", "zh")
    assert outcome.code in (0, 1, 2, 3)
    assert _CHINESE.search(outcome.out + outcome.err)
    assert english_in(outcome.out + outcome.err) == []


# Help and errors of arguments


def parsers() -> list[LocalizedParser]:
    return [overview_parser(), *(command_parser(name, "opdiff") for name in COMMANDS)]


def texts_of(parser: LocalizedParser) -> set[str]:
    """All help texts of a parser."""
    remarks = [split_example(line)[1] for line in (parser.epilog or "").splitlines()]
    groups = [text for group in parser._action_groups for text in (group.title, group.description)]
    choices = [each.help for action in parser._actions for each in getattr(action, "_choices_actions", ())]
    helps = [action.help for action in parser._actions]
    return {help_key(text) for text in (parser.description, *remarks, *groups, *choices, *helps)} - {""}


def test_every_help_text_has_its_chinese_and_no_other_is_there() -> None:
    assert set(chinese_help()) == set().union(*map(texts_of, parsers()))
    assert [text for text in chinese_help().values() if not _CHINESE.search(text)] == []


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_chinese_and_fits_80_columns(capsys: Capture, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = run(capsys, *([name] if name else []), "--help", "--lang", "zh")
    assert outcome.code == 0
    assert outcome.out.startswith("用法: ")
    explained, _, examples = outcome.out.partition("示例\uff1a")
    assert [line for line in explained.splitlines() if columns_of(line) > 80] == []
    assert "opdiff" in examples
    assert not re.search(r"\b[a-z]{3,} [a-z]{3,} [a-z]{3,}\b", explained.partition("\n\n")[2])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compar",), "未知命令 'compar'\uff1b您是否要用 compare\uff1f"),
        (("--colour",), "--colour\uff1a请先写命令\uff0c再写选项"),
        (("inspect",), "缺少以下参数\uff1aPATH"),
        (("inspect", "x", "y"), "无法识别的参数\uff1ay"),
        (("inspect", "x", "--stat"), "未知选项 --stat\uff1b您是否要用 --stats\uff1f"),
        (("inspect", "x", "--stats", "--no-data"), "参数 --no-data\uff1a不能与参数 --stats 同时使用"),
        (("inspect", "x", "--all=1"), "参数 --all\uff1a不接受值 '1'"),
        (("inspect", "x", "--cache"), "参数 --cache\uff1a需要一个值"),
        (("compare", "x", "y", "-alg"), "参数 -alg/--algorithm/--metrics\uff1a至少需要一个值"),
        (("compare", "x", "y", "-i", "z"), "参数 -i/--input-tensor\uff1a不是有效的 int 值\uff1a'z'"),
        (("inspect", "x", "--color", "red"), "参数 --color\uff1a无效的值\uff1a'red'\uff08可选\uff1a"),
        (("compare", "x", "y", "-j", "0"), "参数 -j/--jobs\uff1a'0' 不是 1 到 1024 的工作进程数"),
        (("compare", "x", "y"), "x\uff1a文件或目录不存在"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_arguments_are_reported_in_chinese(capsys: Capture, words: tuple[str, ...], message: str) -> None:
    outcome = run(capsys, *words, "--lang", "zh")
    assert message in outcome.err
    assert outcome.code in (2, 3)
    english = run(capsys, *words)
    assert not _CHINESE.search(english.err)


def test_a_group_of_which_one_is_required_is_named_in_chinese(capsys: Capture) -> None:
    parser = LocalizedParser("p")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("-a")
    group.add_argument("-b", nargs="?")
    context = copy_context()
    context.run(choose_language, ["--lang", "zh"])
    with pytest.raises(SystemExit):
        context.run(parser.parse_args, [])
    assert "必须给出以下参数之一\uff1a-a -b" in capsys.readouterr().err
