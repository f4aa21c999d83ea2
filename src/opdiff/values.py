"""What our classes are made of, as `typing` and `enum` have it, but made quickly: that is felt at every start.

Type checkers see the names of `typing` and `enum`. To import `typing` takes a third as long as to start Python. When
the program runs, annotations are not looked at, and most names do nothing; what only annotations need comes from
`typing` itself, below `if TYPE_CHECKING`.

A comparison has more than a hundred kinds of named tuples, and they were half of its start-up. `typing.NamedTuple`
compiles each annotation of each field, and a constructor for each class; here a constructor is made when it is first
called, from one that was compiled for the same number of fields, and annotations are not compiled. A `StrEnum` is a
class whose texts are of its own kind; that of `enum`, which can do much more, takes ten times as long to make.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "Generic", "NamedTuple", "Protocol", "StrEnum", "TypeVar", "cast"]

# Type checkers take it for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum
    from types import CodeType
    from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, cast
else:
    from _collections import _tuplegetter

    class Protocol:
        """A base for what is asked of a plug-in."""

    class Generic:
        """A base for classes that are said to be of something."""

        __slots__ = ()

        def __class_getitem__(cls, kinds: object) -> type:
            return cls

    def TypeVar(name: str, *, bound: object = None) -> str:  # noqa: ARG001, N802  called as that of `typing`
        """A name, which stands for a type."""
        return name

    def cast(kind: object, value: object) -> object:  # noqa: ARG001  called as that of `typing`
        """The value."""
        return value

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

    _constructors: dict[int, CodeType] = {}
    _scope = {"_new": tuple.__new__, "__builtins__": {}}

    def _constructor(count: int) -> CodeType:
        """What makes tuples of so many fields, compiled once."""
        if count not in _constructors:
            names = "".join([f"_{place}, " for place in range(count)])
            made = eval(f"lambda _cls, {names}: _new(_cls, ({names}))", _scope)  # noqa: S307  numbers, and nothing else
            _constructors[count] = made.__code__
        return _constructors[count]

    class _Named(tuple):
        """What all of them have in common."""

        __slots__ = ()

        def __new__(cls, *values: object, **named: object) -> Self:
            """The first of its kind; the others are made by what is put together here."""
            # One that has fields: a class that is made of it may have a constructor of its own.
            kind = next(base for base in cls.__mro__ if "_fields" in vars(base))
            code = _constructor(len(kind._fields))
            code = code.replace(co_varnames=("_cls", *kind._fields), co_qualname=kind.__qualname__)
            make = type(_constructor)(code, _scope, kind.__name__, tuple(kind._field_defaults.values()))
            kind.__new__ = staticmethod(make)
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

    class _Texts(type):
        """Turns a class statement into texts that are known by name, each made once."""

        def __new__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> type:
            named = {key: text for key, text in attributes.items() if type(text) is str and not key.startswith("__")}
            made = super().__new__(cls, name, bases, attributes)
            made._by_text = {}
            for key, text in named.items():
                member = made._by_text.get(text)
                if member is None:
                    member = made._by_text[text] = str.__new__(made, text)
                    member.name, member.value = key, text
                setattr(made, key, member)
            return made

        def __call__(cls, text: str) -> str:
            try:
                return cls._by_text[text]
            except (KeyError, TypeError):
                raise ValueError(f"{text!r} is not a valid {cls.__name__}") from None

        def __iter__(cls) -> Iterator[str]:
            return iter(cls._by_text.values())

        def __len__(cls) -> int:
            return len(cls._by_text)

    class StrEnum(str, metaclass=_Texts):  # noqa: SLOT000  a handful of each kind
        """A base for kinds of something, which are texts."""

        def __repr__(self) -> str:
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce__(self) -> tuple[type, tuple[str]]:
            return type(self), (self.value,)
