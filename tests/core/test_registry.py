"""Registries of plug-ins: built-in ones, those of other packages, and broken ones."""

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


# Targets of the entry points below.
EXTRA = Plug("extra")
ANOTHER = PropertyPlug()
SAME_AS_BUILTIN = Plug("one")
NAMELESS = object()
NUMBERED = Plug(7)  # type: ignore[arg-type]  # on purpose


@dataclass
class Packages:
    """Entry points of installed packages; records the groups that are read."""

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


def test_find_of_builtin_name_does_not_read_entry_points(packages: Packages) -> None:
    registry = layouts()
    assert registry.find("two") == Plug("two")
    assert packages.asked == []


def test_entry_points_are_read_once(packages: Packages) -> None:
    packages.install("extra", here("EXTRA"))
    registry = layouts()
    found = [registry.find("extra"), registry.find("absent"), registry.find("absent")]
    assert (found, registry.names()) == ([EXTRA, None, None], ("one", "two", "extra"))
    assert packages.asked == ["opdiff.layouts"]


def test_names_have_builtin_plugins_first(packages: Packages) -> None:
    packages.install("b", here("ANOTHER"))
    packages.install("a", here("EXTRA"))
    assert layouts().names() == ("one", "two", "by_property", "extra")


def test_installed_entry_points_are_read() -> None:
    assert Registry[Plug]("kind that nobody has", [Plug("one")]).names() == ("one",)


def test_duplicate_builtin_name_raises() -> None:
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
def test_broken_plugin_is_reported_every_time_and_loads_nothing(
    packages: Packages, values: list[str], sentence: str
) -> None:
    for number, value in enumerate(values):
        packages.install(f"plug{number}", value)
    registry = layouts()
    for ask in (lambda: registry.find("absent"), registry.names, lambda: registry.find("absent")):
        with pytest.raises(PluginError) as caught:
            ask()
        assert str(caught.value) == sentence
        assert (caught.value.__cause__ is not None) == ("cannot be loaded" in sentence)
    # Built-in plug-ins stay usable, so that the error can be shown.
    assert registry.find("one") == Plug("one")
