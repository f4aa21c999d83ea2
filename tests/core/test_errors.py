"""Messages, fields and pickling of errors."""

from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opdiff.core import errors
from opdiff.core.errors import (
    DumpError,
    ElementError,
    InputError,
    LayoutError,
    OpdiffError,
    PluginError,
    UsageError,
)
from opdiff.core.reasons import Language, Reason, because, render

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(errors.__file__).parents[1]
# An error and its message.
ERRORS: list[tuple[OpdiffError, str]] = [
    (UsageError("--rank needs a number"), "--rank needs a number"),
    (UsageError(because("cli.requires_op", option="-i")), "-i requires -op NAME"),
    (InputError("/dumps/target", "holds no dump"), "/dumps/target: holds no dump"),
    (
        DumpError("/d/Add.add.1.2.3", because("read.ends_inside", field="dim"), 17),
        "/d/Add.add.1.2.3: the data ends inside field dim (byte 17)",
    ),
    (DumpError("/d/a", because("read.field_zero"), 0), "/d/a: a field has number 0 (byte 0)"),
    (DumpError("/d/a", "is damaged"), "/d/a: is damaged"),
    (ElementError("string", because("core.string_elements")), "element type string: strings are not numbers"),
    (LayoutError("MINE", "needs four axes"), "layout MINE: needs four axes"),
    (PluginError("layout", "MINE", because("core.name_taken")), "layout 'MINE': the name is used by another plug-in"),
]
each_error = pytest.mark.parametrize(
    ("error", "sentence"),
    ERRORS,
    ids=[f"{type(error).__name__}-{number}" for number, (error, _) in enumerate(ERRORS)],
)


def test_table_has_all_error_classes() -> None:
    defined = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
    assert {type(error) for error, _ in ERRORS} == defined - {OpdiffError}


@each_error
def test_message_and_fields(error: OpdiffError, sentence: str) -> None:
    assert str(error) == str(error.reason) == sentence
    assert error.args == tuple(vars(error).values())
    assert isinstance(vars(error)["problem"], Reason)


def test_chinese_message() -> None:
    error = DumpError("/d/a", because("read.field_zero"), 7)
    assert render(error.reason, Language.CHINESE) == "/d/a\uff1a字段编号为 0\uff08字节 7\uff09"


@each_error
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_errors_are_picklable(error: OpdiffError, sentence: str, protocol: int) -> None:
    sent = type(error)(*error.args)
    sent.add_note("while comparing conv1:output:0")
    arrived = pickle.loads(pickle.dumps(sent, protocol))  # noqa: S301  our own bytes
    assert type(arrived) is type(error)
    assert str(arrived) == sentence
    assert vars(arrived) == vars(sent)
    assert arrived.args == error.args
    assert arrived.__notes__ == ["while comparing conv1:output:0"]


def test_docstring_lists_all_error_classes() -> None:
    drawn = {line.split()[1] for line in (errors.__doc__ or "").splitlines() if line.strip().startswith(("├", "└"))}
    assert drawn == {kind.__name__ for kind in OpdiffError.__subclasses__() if kind.__module__ == errors.__name__}


@pytest.mark.parametrize(
    ("offset", "brief"),
    [(None, "ends early"), (0, "ends early (byte 0)"), (17, "ends early (byte 17)")],
    ids=["nowhere", "at_0", "at_17"],
)
def test_brief_has_no_path(offset: int | None, brief: str) -> None:
    assert str(DumpError("/d/a", "ends early", offset).brief) == brief


def problems_in(path: Path) -> Iterator[tuple[int, ast.expr]]:
    """The problems that a module gives to errors, with their lines."""
    positions = {"UsageError": 0, "InputError": 1, "DumpError": 1, "ElementError": 1, "LayoutError": 1}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in positions:
            yield from ((node.lineno, each) for each in node.args[positions[node.func.id] :][:1])


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_error_is_raised_with_a_sentence_of_one_language(path: Path) -> None:
    sentences = [line for line, problem in problems_in(path) if isinstance(problem, ast.Constant | ast.JoinedStr)]
    assert sentences == []
