"""Named tuples and kinds of our own behave as those of the standard library."""

from __future__ import annotations

import collections
import copy
import enum
import json
import pickle
from typing import Any, Generic, Self, TypeVar

import pytest

from opdiff.values import NamedTuple, StrEnum

Kind = TypeVar("Kind")


class Point(NamedTuple):
    """A point, and what it is called."""

    x: int
    y: int = 2
    name: str = ""

    @property
    def far(self) -> int:
        """From the origin."""
        return self.x + self.y

    @classmethod
    def origin(cls) -> Point:
        """Where it begins."""
        return cls(0, 0)

    def __str__(self) -> str:
        return f"{self.x}/{self.y}"


class Box(NamedTuple, Generic[Kind]):
    """Something, put away."""

    content: Kind


# What it is compared with.
STANDARD: Any = getattr(collections, "namedtuple")("Point", ["x", "y", "name"], defaults=[2, ""])  # noqa: B009  so that it has no type


def test_values_are_given_by_place_and_by_name() -> None:
    for values, named in (((1,), {}), ((1, 5, "a"), {}), ((), {"y": 3, "x": 1}), ((1,), {"name": "b"})):
        made = Point(*values, **named)
        wanted = STANDARD(*values, **named)
        assert made == wanted
        assert hash(made) == hash(wanted)
        assert repr(made) == repr(wanted)
        assert made._asdict() == wanted._asdict()
        assert tuple(made) == tuple(wanted)
        assert (made.x, made.y, made.name) == (wanted.x, wanted.y, wanted.name)


@pytest.mark.parametrize("call", ["Point()", "Point(1, 2, '', 4)", "Point(1, z=2)", "Point(1, x=1)"])
def test_other_values_are_refused(call: str) -> None:
    for kind in (Point, STANDARD):
        with pytest.raises(TypeError, match="argument"):
            eval(call, {"Point": kind})  # noqa: S307  the calls above


def test_a_refusal_names_the_class() -> None:
    with pytest.raises(TypeError, match=r"^Point\(\) missing 1 required positional argument: 'x'$"):
        Point()  # type: ignore[call-arg]


def test_there_need_be_no_fields() -> None:
    class Nothing(NamedTuple):
        """Nothing at all."""

    assert Nothing() == ()
    assert repr(Nothing()).endswith("Nothing()")


def test_a_class_that_is_made_of_one_keeps_its_constructor() -> None:
    class Pair(NamedTuple):
        """Two numbers."""

        x: int
        y: int

    class Twice(Pair):
        """The same number two times."""

        __slots__ = ()

        def __new__(cls, number: int) -> Self:
            return super().__new__(cls, number, number)

    # The first one makes the constructor of `Pair`.
    assert [Twice(1), Twice(2), Pair(3, 4)] == [(1, 1), (2, 2), (3, 4)]
    assert type(Twice(1)) is Twice


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Point(1).z = 2  # type: ignore[attr-defined]


def test_classes_have_what_they_were_given() -> None:
    assert Point(1).far == 3
    assert str(Point.origin()) == "0/0"
    assert Point.__doc__ == "A point, and what it is called."
    assert (Point.__name__, Point.__module__) == ("Point", __name__)
    assert Point._fields == STANDARD._fields
    assert Point._field_defaults == STANDARD._field_defaults
    assert Box("a").content == "a"
    assert Box[int](1) == (1,)


def test_copies_are_changed_by_name() -> None:
    point = Point(1, 2, "a")
    assert point._replace(y=5) == (1, 5, "a")
    assert type(point._replace()) is Point
    with pytest.raises(ValueError, match="no fields"):
        point._replace(z=1)  # type: ignore[call-arg]
    assert Point._make([1, 2, "b"]) == (1, 2, "b")
    with pytest.raises(TypeError, match="3 fields, and 2 values"):
        Point._make([1, 2])


def test_values_survive_pickling_and_copying() -> None:
    point = Point(1, 2, "a")
    for other in (pickle.loads(pickle.dumps(point)), copy.deepcopy(point), copy.copy(point)):  # noqa: S301  our own
        assert other == point
        assert type(other) is Point


def test_they_are_taken_apart_by_match() -> None:
    match Point(1, 2, "a"):
        case Point(1, y, name):
            assert (y, name) == (2, "a")
        case _:
            pytest.fail("not matched")


def test_defaults_come_last() -> None:
    with pytest.raises(TypeError, match="without a default"):

        class Wrong(NamedTuple):
            """A field that cannot be left out follows one that can."""

            x: int = 1
            y: int  # type: ignore[misc]


class Mood(StrEnum):
    """How one feels."""

    NONE = ""
    GOOD = "good"
    BAD = "quite bad"

    @property
    def is_bad(self) -> bool:
        """Whether it should be better."""
        return self is Mood.BAD


STANDARD_MOOD: Any = enum.StrEnum("Mood", [("NONE", ""), ("GOOD", "good"), ("BAD", "quite bad")])  # type: ignore[misc]  # so that it has no type


def test_kinds_are_texts_that_are_made_once() -> None:
    for ours, standard in zip(Mood, STANDARD_MOOD, strict=True):
        assert isinstance(ours, Mood)
        assert ours is Mood(ours.value) is Mood(ours) is copy.deepcopy(ours)
        assert ours is pickle.loads(pickle.dumps(ours))  # noqa: S301  our own
        assert (ours.name, ours.value, str(ours), f"{ours:>9}") == (
            standard.name, standard.value, str(standard), f"{standard:>9}",
        )  # fmt: skip
        assert repr(ours) == repr(standard)
        assert (ours, hash(ours), json.dumps(ours)) == (standard.value, hash(standard.value), json.dumps(standard))
    assert len(Mood) == len(STANDARD_MOOD)
    assert (Mood.GOOD.is_bad, Mood.BAD.is_bad) == (False, True)
    assert Mood.__doc__ == "How one feels."


def test_other_texts_are_no_kinds() -> None:
    for kind in (Mood, STANDARD_MOOD):
        with pytest.raises(ValueError, match=r"^'fine' is not a valid Mood$"):
            kind("fine")
        with pytest.raises(ValueError, match=r"^\[\] is not a valid Mood$"):
            kind([])  # type: ignore[arg-type]


def test_a_second_name_of_a_kind_is_only_a_name() -> None:
    class Answer(StrEnum):
        """What is said."""

        YES = "yes"
        SURE = "yes"
        NO = "no"

    assert all(answer is Answer("yes") for answer in (Answer.YES, Answer.SURE))
    assert [answer.name for answer in Answer] == ["YES", "NO"]
