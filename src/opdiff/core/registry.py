"""Registry of plug-ins: a list of built-in ones, and others by entry point, loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from opdiff.core.errors import PluginError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterable


class Named(Protocol):
    """Interface of all plug-ins."""

    @property
    def name(self) -> str:
        """Unique name."""


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Plug-ins of one kind by unique name; entry points are read only for names that are not built in."""

    def __init__(self, kind: str, builtin: Iterable[T]) -> None:
        self._kind = kind
        self._items: dict[str, T] = {}
        self._loaded = False
        for item in builtin:
            self._add(item, self._items)

    def find(self, name: str) -> T | None:
        """Return the plug-in of this name; `None` if there is none."""
        if name not in self._items:
            self._load()
        return self._items.get(name)

    def names(self) -> tuple[str, ...]:
        """Return all names, built-in ones first."""
        self._load()
        return tuple(self._items)

    def _add(self, item: T, items: dict[str, T]) -> None:
        if item.name in items:
            raise PluginError(self._kind, item.name, because("core.name_taken"))
        items[item.name] = item

    def _load(self) -> None:
        """Add the plug-ins of other packages: all or, if one is broken, none, so that it is reported every time."""
        if self._loaded:
            return
        from importlib.metadata import entry_points

        items = dict(self._items)
        for point in entry_points(group=f"opdiff.{self._kind}s"):
            try:
                item = point.load()
            except Exception as error:
                raise PluginError(self._kind, point.name, because("core.cannot_load", error=repr(error))) from error
            if not isinstance(getattr(item, "name", None), str):
                raise PluginError(self._kind, point.name, because("core.no_name", item=repr(item)))
            self._add(item, items)
        self._items = items
        self._loaded = True
