"""Plug-in lists: built-in ones, those of other packages, and broken ones."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint

import pytest

from opdiff.core.errors import PluginError
from opdiff.core.registry import Registry


@dataclass(frozen=True)
class Plug:
    name: str


class PropertyPlug:
    @property
    def name(self) -> str:
        return "by_property"


# What the entry points below lead to.
EXTRA = Plug("extra")
ANOTHER = PropertyPlug()
SAME_AS_BUILTIN = Plug("one")
NAMELESS = object()
NUMBERED = Plug(7)  # type: ignore[arg-type]  # that is what is wrong with it


@dataclass
class Packages:
    """The installed packages, as far as their entry points go; counts how often they are asked for."""

    points: list[EntryPoint] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def entry_points(self, *, group: str) -> list[EntryPoint]:
        self.asked.append(group)
        return self.points

    def install(self, name: str, value: str) -> None:
        self.points.append(EntryPoint(name, value, "opdiff.layouts"))


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Packages:
    installed = Packages()
    monkeypatch.setattr(importlib.metadata, "entry_points", installed.entry_points)
    return installed


def here(name: str) -> str:
    return f"{__name__}:{name}"


def layouts() -> Registry[Plug]:
    return Registry("layout", [Plug("one"), Plug("two")])


def test_built_in_plug_ins_are_found_without_asking_for_others(packages: Packages) -> None:
    registry = layouts()
    assert registry.find("two") == Plug("two")
    assert packages.asked == []


def test_a_name_that_is_not_built_in_is_looked_for_among_the_packages(packages: Packages) -> None:
    packages.install("extra", here("EXTRA"))
    assert layouts().find("extra") is EXTRA
    assert packages.asked == ["opdiff.layouts"]


def test_packages_are_asked_once(packages: Packages) -> None:
    packages.install("extra", here("EXTRA"))
    registry = layouts()
    found = [registry.find("extra"), registry.find("absent"), registry.find("absent")]
    assert (found, registry.names()) == ([EXTRA, None, None], ("one", "two", "extra"))
    assert packages.asked == ["opdiff.layouts"]


def test_names_are_in_order_built_in_ones_first(packages: Packages) -> None:
    packages.install("b", here("ANOTHER"))
    packages.install("a", here("EXTRA"))
    assert layouts().names() == ("one", "two", "by_property", "extra")


def test_without_packages_there_are_the_built_in_ones(packages: Packages) -> None:
    registry = layouts()
    assert (registry.names(), registry.find("absent")) == (("one", "two"), None)
    assert packages.asked == ["opdiff.layouts"]


def test_the_real_entry_points_are_asked_for() -> None:
    assert Registry[Plug]("kind that nobody has", [Plug("one")]).names() == ("one",)


def test_a_built_in_name_is_taken_once() -> None:
    with pytest.raises(PluginError) as caught:
        Registry("layout", [Plug("one"), Plug("two"), Plug("one")])
    assert str(caught.value) == "layout 'one': the name is used by another plug-in"


BROKEN = [
    ("same", [here("SAME_AS_BUILTIN")], "layout 'one': the name is used by another plug-in"),
    ("twice", [here("EXTRA"), here("EXTRA")], "layout 'extra': the name is used by another plug-in"),
    (
        "no_module",
        ["no_such_module:PLUG"],
        "layout 'plug0': cannot be loaded: ModuleNotFoundError(\"No module named 'no_such_module'\")",
    ),
    (
        "no_object",
        [here("NO_SUCH")],
        f"layout 'plug0': cannot be loaded: AttributeError(\"module '{__name__}' has no attribute 'NO_SUCH'\")",
    ),
    ("nameless", [here("NAMELESS")], f"layout 'plug0': {NAMELESS!r} has no name; is it a class, not an object?"),
    ("numbered", [here("NUMBERED")], "layout 'plug0': Plug(name=7) has no name; is it a class, not an object?"),
    (
        "class",
        [here("EXTRA"), here("PropertyPlug")],
        f"layout 'plug1': {PropertyPlug!r} has no name; is it a class, not an object?",
    ),
]


@pytest.mark.parametrize(("values", "sentence"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_plug_in_is_reported_each_time_and_never_half_loaded(
    packages: Packages, values: list[str], sentence: str
) -> None:
    for number, value in enumerate(values):
        packages.install(f"plug{number}", value)
    registry = layouts()
    for ask in (lambda: registry.find("absent"), registry.names, lambda: registry.find("absent")):
        with pytest.raises(PluginError) as caught:
            ask()
        assert str(caught.value) == sentence
    # What is built in stays usable, so that the error can be shown.
    assert registry.find("one") == Plug("one")


def test_the_cause_of_a_broken_plug_in_is_kept(packages: Packages) -> None:
    packages.install("plug", "no_such_module:PLUG")
    with pytest.raises(PluginError) as caught:
        layouts().names()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
