"""Errors: their sentences, and that a worker's error arrives as it was raised."""

from __future__ import annotations

import inspect
import pickle

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

# An error, the sentence it makes, and its facts.
ERRORS: list[tuple[OpdiffError, str, dict[str, object]]] = [
    (
        UsageError("--rank needs a number"),
        "--rank needs a number",
        {"problem": "--rank needs a number"},
    ),
    (
        InputError("/dumps/target", "holds no dump"),
        "/dumps/target: holds no dump",
        {"path": "/dumps/target", "problem": "holds no dump"},
    ),
    (
        DumpError("/d/Add.add.1.2.3", "ends inside a field", 17),
        "/d/Add.add.1.2.3 at byte 17: ends inside a field",
        {"path": "/d/Add.add.1.2.3", "problem": "ends inside a field", "offset": 17},
    ),
    (
        DumpError("/d/a", "is empty", 0),
        "/d/a at byte 0: is empty",
        {"path": "/d/a", "problem": "is empty", "offset": 0},
    ),
    (
        DumpError("/d/a", "cannot be opened"),
        "/d/a: cannot be opened",
        {"path": "/d/a", "problem": "cannot be opened", "offset": None},
    ),
    (
        ElementError("string", "text is not a number"),
        "element type string: text is not a number",
        {"dtype": "string", "problem": "text is not a number"},
    ),
    (
        LayoutError("FRACTAL_NZ", "needs four axes"),
        "layout FRACTAL_NZ: needs four axes",
        {"layout": "FRACTAL_NZ", "problem": "needs four axes"},
    ),
    (
        PluginError("layout", "MINE", "the name is taken"),
        "layout 'MINE': the name is taken",
        {"kind": "layout", "name": "MINE", "problem": "the name is taken"},
    ),
]
each_error = pytest.mark.parametrize(
    ("error", "sentence", "facts"),
    ERRORS,
    ids=[f"{type(error).__name__}-{number}" for number, (error, *_) in enumerate(ERRORS)],
)


def test_every_error_of_the_tree_is_in_the_table() -> None:
    defined = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
    assert {type(error) for error, *_ in ERRORS} == defined - {OpdiffError}


@each_error
def test_the_sentence(error: OpdiffError, sentence: str, facts: dict[str, object]) -> None:
    assert str(error) == sentence
    assert vars(error) == facts
    assert error.args == tuple(facts.values())


@each_error
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling(error: OpdiffError, sentence: str, facts: dict[str, object], protocol: int) -> None:
    arrived = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301  our own bytes
    assert type(arrived) is type(error)
    assert str(arrived) == sentence
    assert vars(arrived) == facts
    assert arrived.args == error.args


def test_notes_arrive_too() -> None:
    error = DumpError("/d/a", "is empty")
    error.add_note("while comparing conv1:output:0")
    arrived = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert arrived.__notes__ == ["while comparing conv1:output:0"]


@each_error
def test_one_except_catches_them_all(error: OpdiffError, sentence: str, facts: dict[str, object]) -> None:  # noqa: ARG001  the table's columns
    with pytest.raises(OpdiffError):
        raise error


def test_the_tree_is_drawn_as_it_is() -> None:
    drawn = {line.split()[1] for line in (errors.__doc__ or "").splitlines() if line.strip().startswith(("├", "└"))}
    assert drawn == {kind.__name__ for kind in OpdiffError.__subclasses__() if kind.__module__ == errors.__name__}


@pytest.mark.parametrize(
    ("offset", "brief"),
    [(None, "ends early"), (0, "ends early (byte 0)"), (17, "ends early (byte 17)")],
    ids=["nowhere", "at_0", "at_17"],
)
def test_the_brief_form_leaves_out_the_path(offset: int | None, brief: str) -> None:
    assert DumpError("/d/a", "ends early", offset).brief == brief
