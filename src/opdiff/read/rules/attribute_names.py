"""Names and strings of attributes, in place of which newer toolkits write numbers. See docs/formats/om.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.reasons import because
from opdiff.read.rules.message_fields import MessageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from opdiff.read.rules.model import Attribute

COMPRESSION_TABLES = ("om_compress_version", "attr_name_enum", "attrs_use_string_value", "attr_value_enum")
"""Attributes of a model that hold the names and strings by number."""
_BASE = 127


class AttributeNames:
    """Names of attributes by their keys; if `wanted` is given, those of other attributes are not looked up."""

    def __init__(self, tables: Mapping[str, Attribute], wanted: Collection[str] | None = None) -> None:
        names, strings, flags = (
            _items(tables.get(key)) for key in ("attr_name_enum", "attr_value_enum", "attrs_use_string_value")
        )
        self._takes_all = wanted is None
        self._known = {name.encode(): (name, False) for name in wanted or ()}
        self._strings = strings
        self._count = len(names)
        for number, name in enumerate(names):
            if wanted is None or name in wanted:
                is_string_number = bool(flags[number]) if number < len(flags) else False
                self._known[_compressed(number)] = str(name), is_string_number

    def find(self, key: bytes, offset: int) -> tuple[str, bool] | None:
        """Return the name, and whether values are numbers of strings; `None` for an attribute that is not wanted.

        Raises:
            MessageError: a number without a name.
        """
        found = self._known.get(key)
        if found is not None:
            return found
        if key[:1] == b"\0":
            self._check_number(key, offset)
            return None
        return (key.decode(errors="replace"), False) if self._takes_all else None

    def _check_number(self, key: bytes, offset: int) -> None:
        if not self._count:
            raise MessageError(because("rules.names_compressed"), offset)
        number = sum((digit - 1) * _BASE**place for place, digit in enumerate(key[1:9]))
        if not 0 <= number < self._count or len(key) > 9:
            raise MessageError(because("rules.no_attribute", number=number, count=self._count), offset)

    def expand(self, value: Attribute, offset: int) -> Attribute:
        """Return the string, or strings, that a value has the numbers of.

        Raises:
            MessageError: a number without a string.
        """
        if isinstance(value, tuple):
            return tuple(self.string(item, offset) for item in value)
        return self.string(value, offset)

    def string(self, number: Attribute, offset: int) -> str:
        """Return a string by its number.

        Raises:
            MessageError: there is none.
        """
        if not isinstance(number, int) or not 0 <= number < len(self._strings):
            raise MessageError(because("rules.no_string", number=number, count=len(self._strings)), offset)
        return str(self._strings[number])


def _items(value: Attribute) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()


def _compressed(number: int) -> bytes:
    """Return the key of an attribute by its number: a zero, then digits of base 127, each plus one, lowest first."""
    digits = bytearray(b"\0")
    while True:
        number, digit = divmod(number, _BASE)
        digits.append(digit + 1)
        if not number:
            return bytes(digits)
