"""Element types as graph texts write them."""

from __future__ import annotations

from opdiff.core.dtypes import BY_NAME, NANO_BY_NUMBER, Kind

_NAMES = {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_BF16": "bfloat16"}
# Which kinds hold the numbers of which.
_WIDTH_OF_KIND = {Kind.BOOL: 0, Kind.INTEGER: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def dtype_name(text: str) -> str:
    """Return the element type of a descriptor, as `DT_FLOAT16`; empty if it is not known."""
    name = _NAMES.get(text, text.removeprefix("DT_").lower())
    return name if name in BY_NAME and name != "undefined" else ""


def dtype_of_number(number: int) -> str:
    """Return the element type of an attribute such as `dst_type`; empty if it is not known."""
    dtype = NANO_BY_NUMBER.get(number)
    return dtype.name if dtype is not None and dtype.name != "undefined" else ""


def are_alike(first: str, second: str) -> bool:
    """Return whether one tensor can have these element types in two runs; an unknown type fits any.

    The widths of the two runs may differ, but floats stay floats.
    """
    return first not in BY_NAME or second not in BY_NAME or BY_NAME[first].kind is BY_NAME[second].kind


def holds(wide: str, narrow: str) -> bool:
    """Return whether every number of the second element type is a number of the first."""
    if wide not in BY_NAME or narrow not in BY_NAME:
        return False
    outer, inner = BY_NAME[wide], BY_NAME[narrow]
    order = _WIDTH_OF_KIND.get(outer.kind, -1), _WIDTH_OF_KIND.get(inner.kind, 9)
    if outer == inner:
        return True
    if order[0] == order[1]:
        same_sign = outer.name.startswith("u") == inner.name.startswith("u")
        return outer.bits > inner.bits and (same_sign or not outer.name.startswith("u"))
    return order[0] > order[1] and (inner.kind is Kind.BOOL or outer.bits >= 2 * inner.bits)
