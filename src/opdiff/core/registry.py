"""Lists of plug-ins: built-in ones by a literal list, others by entry point, found on first need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from opdiff.core.errors import PluginError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterable


class Named(Protocol):
    """What every plug-in has: a name under which it is asked for."""

    @property
    def name(self) -> str:
        """The name, taken once."""


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Plug-ins of one kind by name. A name is taken once; the entry points are read only when they are needed."""

    def __init__(self, kind: str, builtin: Iterable[T]) -> None:
        self._kind = kind
        self._items: dict[str, T] = {}
        self._loaded = False
        for item in builtin:
            self._add(item, self._items)

    def find(self, name: str) -> T | None:
        """The plug-in of that name, if there is one."""
        if name not in self._items:
            self._load()
        return self._items.get(name)

    def names(self) -> tuple[str, ...]:
        """All names, built-in ones first."""
        self._load()
        return tuple(self._items)

    def _add(self, item: T, items: dict[str, T]) -> None:
        if item.name in items:
            raise PluginError(self._kind, item.name, because("core.name_taken"))
        items[item.name] = item

    def _load(self) -> None:
        """Add the plug-ins of other packages: all of them or, so that a broken one is reported every time, none."""
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
