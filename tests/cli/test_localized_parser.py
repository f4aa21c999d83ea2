"""Help and errors of arguments in Chinese."""

from __future__ import annotations

import re
from contextvars import copy_context

import pytest

from command_line import Capture, run
from opdiff.cli.language import choose_language
from opdiff.cli.localized_parser import LocalizedParser, chinese_help, help_key, split_example
from opdiff.cli.parsers import COMMANDS, command_parser, overview_parser
from opdiff.report.columns import columns_of

_CHINESE = re.compile(r"[\u4e00-\u9fff]")


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
