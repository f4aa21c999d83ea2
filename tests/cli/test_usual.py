"""Plain command lines are understood as `argparse` understands them, and everything else is left to it."""

from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff import cli
from opdiff.cli.parsers import command_parser
from opdiff.cli.usual import find_arguments

OPTIONS = {
    name: [option for action in command_parser(name)._actions for option in action.option_strings]
    for name in cli._COMMANDS
}
VALUES = [
    "A",
    "B",
    "1",
    "",
    "-1",
    "-",
    "--",
    "en",
    "npy",
    "a b",
    "-o=x",
    "--rules=x",
    "--limi",
    "-qq",
    "wrong",
    "2G",
    "real",
]


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(sorted(OPTIONS)))
    words = st.sampled_from(OPTIONS[name] + ["A", "B", "C"] * 4 + VALUES)
    return [name, *draw(st.lists(words, max_size=7))]


def strictly(name: str, words: list[str]) -> dict[str, object] | None:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            return vars(command_parser(name).parse_args(words))
        except SystemExit:
            return None


@given(lines())
def test_what_is_understood_is_what_argparse_understands(line: list[str]) -> None:
    found = find_arguments(line[0], line[1:])
    assert found is None or vars(found) == strictly(line[0], line[1:])


@pytest.mark.parametrize(
    "line",
    [
        "compare A B",
        "compare A B --rules r.json -o OUT -q",
        "compare -fr r.json -o OUT --no-html A B --lang zh -v -v",
        "compare",
        "compare -m offline_data -tp A -gp B -fr r.json -o OUT",
        "compare -q -tp A -gp B -fr r.json -o OUT -j 2 --memory 4G --fail-on wrong",
        "compare -m offline_data A B --third C --remedies D",
        "selftest A B -fr r.json",
    ],
)
def test_usual_lines_are_understood(line: str) -> None:
    name, *words = line.split()
    found = find_arguments(name, words)
    assert found is not None
    assert vars(found) == strictly(name, words)


@pytest.mark.parametrize(
    "line",
    [
        "compare --help", "compare A -q B", "compare A B -o", "compare A B --rules", "compare A B --lang de",
        "compare A B -j 0", "compare A B -r 1,2 -s 3", "compare A B -alg 0 1", "compare A B --unknown",
        "selftest A", "report", "inspect A --stats --no-data",
    ],
)  # fmt: skip
def test_other_lines_are_left_to_argparse(line: str) -> None:
    name, *words = line.split()
    assert find_arguments(name, words) is None
