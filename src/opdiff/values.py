"""Named tuples, made quickly: a comparison has more than a hundred kinds of them, and they were half of its start-up.

They are what `typing.NamedTuple` makes, which is what type checkers see. That one compiles each annotation of each
field, and a constructor for each class; here a constructor is compiled when it is first called, and annotations never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from _collections import _tuplegetter

    class _Maker(type):
        """Turns a class statement into a tuple with fields."""

        def __new__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, attributes)
            fields = tuple(attributes.get("__annotations__", ()))
            defaults = {field: attributes[field] for field in fields if field in attributes}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows one that has one")
            getters = {field: _tuplegetter(place, "") for place, field in enumerate(fields)}
            about = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields, "__slots__": ()}
            kinds = (_Named, *(base for base in bases if base is not NamedTuple))
            return type(name, kinds, attributes | about | getters)

    class _Named(tuple):
        """What all of them have in common."""

        __slots__ = ()

        def __new__(cls, *values: object, **named: object) -> Self:
            """The first of its kind; the others are made by what is compiled here."""
            names = ", ".join(cls._fields)
            scope = {"_new": tuple.__new__, "__builtins__": {}}
            make = eval(f"lambda _cls, {names}: _new(_cls, ({names},))", scope)  # noqa: S307  names of fields, and nothing else
            make.__name__ = make.__qualname__ = cls.__name__
            make.__defaults__ = tuple(cls._field_defaults.values())
            cls.__new__ = staticmethod(make)
            return make(cls, *values, **named)

        @classmethod
        def _make(cls, values: object) -> Self:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, and {len(made)} values are given")
            return made

        def _replace(self, /, **changes: object) -> Self:
            made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no fields {list(changes)}")
            return made

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            shown = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self) -> tuple[object, ...]:
            return tuple(self)

    class NamedTuple(metaclass=_Maker):
        """A base for frozen values."""
