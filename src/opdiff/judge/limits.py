"""Error limits between noise, suspicious and wrong. See docs/limits.md.

Defaults depend on the coarser element type of both sides. A file `opdiff.toml` can change each limit for an element
type, an operator type or operators whose names match a pattern; the most specific and then the last entry applies.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, structs
from msgspec.structs import replace

from opdiff.core.errors import InputError
from opdiff.core.filesystem import regular_file
from opdiff.core.reasons import Status, because

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_FILE = "opdiff.toml"

_MAX_BYTES = 1 << 20

Share = Annotated[float, Meta(ge=0, le=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Changes = TypeVar("Changes", bound="LimitChanges")


class Limit(Struct, frozen=True):
    """Limits of one tensor.

    Attributes:
        noise: relative error (Euclidean) that a simple operator may add to the error of its inputs. Operators that
            round several times may add a multiple of this error.
        peak: relative error of a single element, in addition to the noise of its operator.
        small: golden tensors whose values are all smaller than this ...
        small_error: ... may have this absolute error.
        distance: relative Euclidean distance above which a bad tensor is wrong, not only suspicious.
        cosine: cosine similarity below which a bad tensor is wrong.
        unequal: share of integers, booleans or indices that may differ.
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


# Published limits of single operators: mean relative error below `noise`, largest below ten times that.
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
# From the finest to the coarsest type.
_COARSENESS = {name: rank for rank, name in enumerate(DEFAULTS)}


class LimitChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of limits; the others keep their values."""

    noise: Share | UnsetType = UNSET
    peak: NotNegative | UnsetType = UNSET
    small: NotNegative | UnsetType = UNSET
    small_error: NotNegative | UnsetType = UNSET
    distance: NotNegative | UnsetType = UNSET
    cosine: Annotated[float, Meta(ge=-1, le=1)] | UnsetType = UNSET
    unequal: Share | UnsetType = UNSET

    def apply(self, limit: Limit) -> Limit:
        """Return the limit with these changes."""
        values = ((name, getattr(self, name)) for name in Limit.__struct_fields__)
        return replace(limit, **{name: value for name, value in values if value is not UNSET})


class NameLimit(LimitChanges, frozen=True, kw_only=True):
    """Limits for operators whose names match a pattern such as `head/*`."""

    pattern: Annotated[str, Meta(min_length=1)]


class Limits(Struct, frozen=True):
    """Changes of the default limits by element type, by operator type and by name.

    `path` is the file that changes them; empty if no limit differs from its default.
    """

    path: str = ""
    dtypes: Mapping[str, LimitChanges] = {}
    types: Mapping[str, LimitChanges] = {}
    names: tuple[NameLimit, ...] = ()

    def of(self, dtype: str, op_type: str, name: str) -> Limit:
        """Return the limits of a tensor; `dtype` is one of `DEFAULTS`."""
        limit = DEFAULTS[dtype]
        for changes in (self.dtypes.get(dtype), self.types.get(op_type)):
            limit = limit if changes is None else changes.apply(limit)
        for rule in self.names:
            limit = rule.apply(limit) if fnmatchcase(name, rule.pattern) else limit
        return limit


@lru_cache(maxsize=1024)
def coarser(target: str, golden: str) -> str:
    """Return the coarser of two element types, as a key of `DEFAULTS`; floats take precedence over integers."""
    first, second = _limit_type(target), _limit_type(golden)
    if first == "integer" or second == "integer":
        return second if first == "integer" else first
    return first if _COARSENESS[first] >= _COARSENESS[second] else second


def _limit_type(dtype: str) -> str:
    """Return the key of `DEFAULTS` for an element type."""
    if dtype in DEFAULTS:
        return dtype
    if dtype.startswith("float"):
        return "float8_e5m2"
    return _ALIASES.get(dtype, "integer")


def read_limits(path: str) -> Limits:
    """Read the limits in a TOML file.

    Raises:
        InputError: the file cannot be read, or an entry is unknown or out of range.
    """
    import tomllib

    try:
        with open(path, "rb", opener=regular_file) as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    if len(data) > _MAX_BYTES:
        raise InputError(path, because("judge.limits_too_large", limit=_MAX_BYTES))
    try:
        return _limits(path, tomllib.loads(data.decode()))
    except (ValueError, RecursionError) as error:
        raise InputError(path, because("judge.not_limits", error=str(error))) from error


class _LimitsFile(Struct, frozen=True, forbid_unknown_fields=True):
    dtype: dict[str, object] = {}
    type: dict[str, object] = {}
    name: list[object] = []


def _limits(path: str, content: dict[str, object]) -> Limits:
    file = convert(content, _LimitsFile)
    unknown = [name for name in file.dtype if name not in DEFAULTS]
    if unknown:
        raise ValueError(f"dtype.{unknown[0]}: unknown element type; known are {', '.join(DEFAULTS)}")
    names = tuple(_convert_table(table, NameLimit, f"name {number}") for number, table in enumerate(file.name, 1))
    dtypes, types = _tables(file.dtype, "dtype"), _tables(file.type, "type")
    changed = {changes.apply(DEFAULTS[name]) != DEFAULTS[name] for name, changes in dtypes.items()}
    changed |= {rule.apply(limit) != limit for rule in (*types.values(), *names) for limit in DEFAULTS.values()}
    return Limits(path if True in changed else "", dtypes, types, names)


def _tables(tables: dict[str, object], where: str) -> dict[str, LimitChanges]:
    return {name: _convert_table(table, LimitChanges, f"{where}.{name}") for name, table in tables.items()}


def _convert_table(table: object, kind: type[Changes], where: str) -> Changes:
    try:
        return convert(table, kind)
    except ValidationError as error:
        raise ValueError(f"{where}: {error}") from error


def limits_text() -> str:
    """Return the defaults as an editable TOML file."""
    tables = [
        "\n".join([f"[dtype.{name}]", *(f"{key} = {value!r}" for key, value in structs.asdict(limit).items())])
        for name, limit in DEFAULTS.items()
    ]
    return "\n\n".join([_HEAD, *tables, _EXAMPLES]) + "\n"


_HEAD = """\
# Limits of opdiff. Save as opdiff.toml in the working directory, or use --limits FILE; keep only what you change.
# noise: relative error that a simple operator may add; peak: relative error of one element;
# small, small_error: values below the first may have this absolute error; distance, cosine: beyond these it is wrong;
# unequal: share of integers, booleans or indices that may differ."""
_EXAMPLES = """\
# For operators of a type:
# [type.SoftmaxV2]
# noise = 0.005

# For operators by name; the last matching pattern applies:
# [[name]]
# pattern = "head/*"
# distance = 0.1"""
