"""Limits: how far a tensor may be off before it is called noise, suspicious or wrong. See docs/limits.md.

Defaults go by the coarser element type of both sides. A file `opdiff.toml` can change any of them for an element type,
an operator type or operators whose names fit a pattern; what is said later, and closer to the operator, counts.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

DEFAULT_FILE = "opdiff.toml"

_MAX_BYTES = 1 << 20
_MOST_RULES = 1000


class Limit(NamedTuple):
    """What one tensor may be off.

    Attributes:
        noise: relative error (Euclidean) that a simple operator may add to that of its inputs. Operators that round
            several times may add a multiple of it.
        peak: relative error that a single element may have beside what its operator's noise explains.
        small: golden tensors whose numbers are smaller than this ...
        small_error: ... may be off by this much, absolutely.
        distance: relative Euclidean distance from which a tensor is wrong, not only suspicious.
        cosine: cosine similarity below which it is wrong.
        unequal: share of integers, booleans or indices that may be unequal.
    """

    noise: float
    peak: float
    small: float = 0.0
    small_error: float = 0.0
    distance: float = 0.05
    cosine: float = 0.99
    unequal: float = 0.01


def _float(noise: float, small: float, small_error: float, distance: float = 0.05) -> Limit:
    return Limit(noise, 10 * noise, small, small_error, distance)


# Published limits of single operators: the mean relative error below `noise`, the largest below ten times that.
DEFAULTS: Mapping[str, Limit] = {
    "float64": _float(2.0**-30, 2.0**-30, 2.0**-60),
    "float32": _float(2.0**-13, 2.0**-14, 2.0**-30),
    "float16": _float(2.0**-10, 2.0**-11, 2.0**-16),
    "bfloat16": _float(2.0**-7, 2.0**-8, 2.0**-16),
    "hifloat8": _float(2.0**-3, 2.0**-4, 2.0**-16, 0.25),
    "float8_e4m3fn": _float(2.0**-3, 2.0**-4, 2.0**-9, 0.25),
    "float8_e5m2": _float(2.0**-2, 2.0**-5, 2.0**-16, 0.4),
    "integer": Limit(2.0**-7, 2.0**-4, distance=0.2),
}
_ALIASES = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}
# From the finest to the coarsest; what is in none of these lists is an integer or a bool.
_COARSENESS = {name: rank for rank, name in enumerate(DEFAULTS)}
_RANGES = {
    "noise": (0.0, 1.0),
    "peak": (0.0, inf),
    "small": (0.0, inf),
    "small_error": (0.0, inf),
    "distance": (0.0, inf),
    "cosine": (-1.0, 1.0),
    "unequal": (0.0, 1.0),
}


class NameLimit(NamedTuple):
    """Limits for operators whose names fit a pattern such as `head/*`."""

    pattern: str
    changes: Mapping[str, float]


class Limits(NamedTuple):
    """All limits: changes of the defaults by element type, by operator type and by name."""

    path: str = ""
    dtypes: Mapping[str, Mapping[str, float]] = {}
    types: Mapping[str, Mapping[str, float]] = {}
    names: tuple[NameLimit, ...] = ()

    def of(self, dtype: str, op_type: str, name: str) -> Limit:
        """The limit of a tensor of an operator; `dtype` is what `coarser` returned."""
        limit = DEFAULTS[dtype]
        if not (self.dtypes or self.types or self.names):
            return limit
        changes = {**self.dtypes.get(dtype, {}), **self.types.get(op_type, {})}
        if self.names:
            from fnmatch import fnmatchcase

            for rule in self.names:
                if fnmatchcase(name, rule.pattern):
                    changes |= rule.changes
        return limit._replace(**changes)


@lru_cache(maxsize=1024)
def coarser(target: str, golden: str) -> str:
    """Of two element types that with fewer digits, as `DEFAULTS` has it. Beside an integer type a float type counts."""
    ours, theirs = float_type(target), float_type(golden)
    if ours == "integer" or theirs == "integer":
        return theirs if ours == "integer" else ours
    return ours if _COARSENESS[ours] >= _COARSENESS[theirs] else theirs


def float_type(dtype: str) -> str:
    """The name under which the limits of an element type are found."""
    if dtype in DEFAULTS:
        return dtype
    if dtype.startswith("float"):
        return "float8_e5m2"
    return _ALIASES.get(dtype, "integer")


def read_limits(path: str) -> Limits:
    """The limits in a TOML file.

    Raises:
        InputError: it cannot be read, or says what has no meaning, with the place.
    """
    import tomllib

    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from error
    if len(data) > _MAX_BYTES:
        raise InputError(path, f"is larger than {_MAX_BYTES} bytes; a file of limits has a few hundred")
    try:
        return _limits(path, tomllib.loads(data.decode()))
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"is not a file of limits: {error}") from error


def _limits(path: str, content: dict[str, Any]) -> Limits:
    _only(content, ("dtype", "type", "name"), "the file")
    dtypes = _tables(content.get("dtype", {}), "dtype")
    unknown = [name for name in dtypes if name not in DEFAULTS]
    if unknown:
        raise ValueError(f"dtype.{unknown[0]}: there are limits for {', '.join(DEFAULTS)}")
    names = content.get("name", [])
    if not isinstance(names, list) or len(names) > _MOST_RULES:
        raise ValueError(f"name: a list of at most {_MOST_RULES} tables [[name]] is expected")
    rules = tuple(_name_limit(item, f"name {number}") for number, item in enumerate(names, 1))
    return Limits(path, dtypes, _tables(content.get("type", {}), "type"), rules)


def _tables(value: object, where: str) -> dict[str, dict[str, float]]:
    if not isinstance(value, dict) or len(value) > _MOST_RULES:
        raise ValueError(f"{where}: at most {_MOST_RULES} tables [{where}.NAME] are expected")
    return {name: _changes(item, f"{where}.{name}") for name, item in value.items()}


def _name_limit(item: object, where: str) -> NameLimit:
    if not isinstance(item, dict) or not isinstance(item.get("pattern"), str) or not item["pattern"]:
        raise ValueError(f'{where}: a pattern of names is missing, such as pattern = "head/*"')
    changes = {key: value for key, value in item.items() if key != "pattern"}
    return NameLimit(item["pattern"], _changes(changes, where))


def _changes(value: object, where: str) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: a table of limits is expected")  # noqa: TRY004  it is bad data
    _only(value, _RANGES, where)
    return {key: _number(number, key, where) for key, number in value.items()}


def _number(value: object, key: str, where: str) -> float:
    low, high = _RANGES[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{where}.{key}: a number from {low:g} to {high:g} is expected, and it is {value!r}")
    return float(value)


def _only(found: Iterable[str], known: Iterable[str], where: str) -> None:
    strange = [name for name in found if name not in known]
    if strange:
        raise ValueError(f"{where}: {strange[0]} means nothing here; {', '.join(known)} do")


def limits_text() -> str:
    """The defaults as a file that can be edited."""
    tables = [
        "\n".join([f"[dtype.{name}]", *(f"{key} = {value!r}" for key, value in limit._asdict().items())])
        for name, limit in DEFAULTS.items()
    ]
    return "\n\n".join([_HEAD, *tables, _EXAMPLES]) + "\n"


_HEAD = """\
# Limits of opdiff. Save as opdiff.toml where opdiff is run, or give with --limits FILE; keep only what you change.
# noise: what a simple operator may add (relative); peak: what one element may be off (relative);
# small, small_error: numbers below the first may be off by the second; distance, cosine: beyond these it is wrong;
# unequal: share of integers, booleans or indices that may differ."""
_EXAMPLES = """\
# For operators of a type:
# [type.SoftmaxV2]
# noise = 0.005

# For operators by name; the last one that fits counts:
# [[name]]
# pattern = "head/*"
# distance = 0.1"""
