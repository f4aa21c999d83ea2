"""Values in columns: equal fields of many values become one array, and everything is compressed together.

Every column is described by a JSON array, its kind first; ARRAY is an array of `report.arrays`:

    ["none"]                                    all values are `None`
    ["bool", ARRAY], ["int", ARRAY]             ["int", [NUMBER, …]] if 64 bits are too few
    ["float", ARRAY]
    ["str", ARRAY]                              indices in the table `strings`
    ["tuple", LENGTHS, ITEMS]                   two columns: lengths, and items one after the other
    ["record", NAMES, [COLUMN, …]]              a column for each field
    ["reason", CHOICES, [[CODE, NAMES, [COLUMN, …], STATUS], …]]    a column for each fact of each code;
                                                no STATUS if it is `other`
    ["mixed", CHOICES, [COLUMN, …]]             values of different kinds; CHOICES is the column of each value
"""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from itertools import chain, count, islice
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from opdiff.core.reasons import MAX_NESTING, Reason, Status
from opdiff.report.arrays import ArrayReader, ArrayWriter, pack_integers, pack_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from opdiff.core.reasons import Fact

    Column = list[Any]

_INTEGERS = "bhiq"
# Statuses that earlier versions did not save with these codes.
_STATUSES = {
    "pair.constant": Status.NO_COUNTERPART,
    "pair.graph_constant": Status.NO_COUNTERPART,
    "pair.not_run": Status.NO_COUNTERPART,
    "pair.not_by_itself": Status.NOT_EXPECTED,
    "pair.not_in_rules": Status.NOT_IN_RULES,
    "pair.not_named": Status.NOT_IN_QUANT_RULES,
    "pair.no_file": Status.NOT_DUMPED,
}
_MAX_UNPACKED_NBYTES = 1 << 30
_MAX_VALUES = 1 << 26


def pack_columns(tables: Mapping[str, Sequence[object]]) -> bytes:
    """Return sequences of values: `None`, numbers, strings, tuples, reasons, and Structs of them.

    Raises:
        TypeError: there is a value of another class.
    """
    encoder = _Encoder()
    columns = {name: [len(values), encoder.column(values)] for name, values in tables.items()}
    document = {"columns": columns, "strings": list(encoder.string_numbers)}
    return encoder.arrays.compressed(document)


def unpack_columns(packed: bytes, positional: Iterable[type[Struct]] = ()) -> dict[str, list[Any]]:
    """Return the sequences of `pack_columns`; Structs become objects with the same attributes.

    A Struct whose fields are those of a class in `positional`, in order, becomes a tuple, which is converted faster.

    Raises:
        ValueError: the data is damaged.
    """
    try:
        return _Decoder(ArrayReader(inflate(packed, "columns")), positional).tables()
    except (AttributeError, LookupError, TypeError, OverflowError, RecursionError, zlib.error, struct.error) as error:
        raise ValueError(f"its columns are damaged: {error}") from error


def saved_reason(code: str, facts: tuple[tuple[str, Fact], ...], status: str | None) -> Reason:
    """Return a reason of a saved file; `None` as status for `OTHER`, and for what earlier versions saved."""
    if status is None:
        is_golden_file = code == "pair.no_file" and ("side", "golden") in facts
        return Reason(code, facts, Status.NO_GOLDEN_FILE if is_golden_file else _STATUSES.get(code, Status.OTHER))
    # Newer versions may have other statuses.
    return Reason(code, facts, next((known for known in Status if known == status), Status.OTHER))


def inflate(packed: bytes, noun: str) -> bytes:
    """Return deflated data, which `noun` names in errors.

    Raises:
        ValueError: the data is cut, or too large.
        zlib.error: the data is damaged.
    """
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(packed, _MAX_UNPACKED_NBYTES)
    if not decompressor.eof:
        raise ValueError(f"its {noun} are cut, or larger than 1 GiB")
    return data


class _Encoder:
    """Encoder of columns, which collects their arrays and strings."""

    def __init__(self) -> None:
        self.arrays = ArrayWriter()
        self.string_numbers: dict[str, int] = defaultdict(count().__next__)

    def column(self, values: Sequence[Any]) -> Column:
        """Add the arrays of a column, and return its description."""
        kinds = set(map(type, values))
        if len(kinds) > 1:
            return self._mixed(values, sorted(kinds, key=attrgetter("__name__")))
        kind = kinds.pop() if kinds else type(None)
        if kind is type(None):
            return ["none"]
        if issubclass(kind, (int, float, str)):
            return self._scalars(kind, values)
        if kind is Reason:
            return self._reasons(values)
        if issubclass(kind, (Struct, tuple)):
            return self._records(kind, values)
        raise TypeError(f"{kind.__name__} cannot be saved")

    def _scalars(self, kind: type, values: Sequence[Any]) -> Column:
        if issubclass(kind, float):
            return ["float", self.arrays.add("d", pack_numbers("d", values))]
        if issubclass(kind, str):
            return ["str", self._integers(list(map(self.string_numbers.__getitem__, values)))]
        return ["bool" if kind is bool else "int", self._integers(values)]

    def _integers(self, numbers: Sequence[int]) -> object:
        packed = pack_integers(_INTEGERS, numbers)
        return list(numbers) if packed is None else self.arrays.add(*packed)

    def _records(self, kind: type, values: Sequence[Any]) -> Column:
        if issubclass(kind, Struct):
            columns = zip(*map(structs.astuple, values), strict=True)
            return ["record", kind.__struct_encode_fields__, [self.column(field) for field in columns]]
        return ["tuple", self.column(list(map(len, values))), self.column(list(chain.from_iterable(values)))]

    def _reasons(self, reasons: Sequence[Reason]) -> Column:
        groups: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}
        numbers: dict[tuple[str, ...], int] = defaultdict(count().__next__)
        choices = []
        for reason in reasons:
            names, facts = zip(*reason.facts, strict=True) if reason.facts else ((), ())
            shape = (reason.code, reason.status, *names)
            choices.append(numbers[shape])
            groups.setdefault(shape, []).append(facts)
        described = [
            [
                code,
                names,
                [self.column(fact) for fact in zip(*facts, strict=True)],
                *[status] * (status != Status.OTHER),
            ]
            for (code, status, *names), facts in groups.items()
        ]
        return ["reason", self.column(choices), described]

    def _mixed(self, values: Sequence[Any], kinds: Sequence[type]) -> Column:
        numbers = {kind: number for number, kind in enumerate(kinds)}
        columns = [self.column([value for value in values if type(value) is kind]) for kind in kinds]
        return ["mixed", self.column([numbers[type(value)] for value in values]), columns]


class _Decoder:
    """Decoder of columns. Descriptions may be damaged: every column has to have the number of values that it should."""

    def __init__(self, arrays: ArrayReader, positional: Iterable[type[Struct]]) -> None:
        self._arrays = arrays
        self._positional = {kind.__struct_encode_fields__ for kind in positional}
        self._strings = arrays.document["strings"]
        self._values_left = _MAX_VALUES
        self._level = 0
        self._decoders: dict[str, Callable[..., list[Any]]] = {
            "none": self._nones,
            "bool": self._bools,
            "int": self._scalars,
            "float": self._scalars,
            "str": self._texts,
            "tuple": self._tuples,
            "record": self._records,
            "reason": self._reasons,
            "mixed": self._mixed,
        }

    def tables(self) -> dict[str, list[Any]]:
        """Return all values by name."""
        columns = self._arrays.document["columns"]
        return {name: self._column(column, length) for name, (length, column) in columns.items()}

    def _column(self, column: Column, length: int) -> list[Any]:
        self._values_left -= length
        if self._values_left < 0:
            raise ValueError(f"its columns have more than {_MAX_VALUES} values")
        if self._level > MAX_NESTING:
            raise ValueError(f"its columns have more than {MAX_NESTING} levels")
        kind, *content = column
        self._level += 1
        found = self._decoders[kind](length, *content)
        self._level -= 1
        return found

    @staticmethod
    def _nones(length: int) -> list[None]:
        return [None] * length

    def _scalars(self, length: int, array: Any) -> list[Any]:  # noqa: ANN401  a description in JSON
        if not isinstance(array, list):
            return list(self._arrays.numbers(array, length))
        if len(array) != length:
            raise ValueError(f"its columns are damaged: one does not have {length} values")
        return array

    def _bools(self, length: int, array: Any) -> list[bool]:  # noqa: ANN401
        return list(map(bool, self._scalars(length, array)))

    def _texts(self, length: int, array: Any) -> list[str]:  # noqa: ANN401
        numbers = self._scalars(length, array)
        _require_indices(numbers, self._strings)
        return [self._strings[number] for number in numbers]

    def _tuples(self, length: int, lengths: Column, items: Column) -> list[tuple[Any, ...]]:
        found = self._column(lengths, length)
        values = iter(self._column(items, sum(found)))
        return [tuple(islice(values, each)) for each in found]

    def _records(self, length: int, names: list[str], columns: list[Column]) -> list[Any]:
        rows = zip(*[self._column(column, length) for column in columns], strict=True)
        if len(names) == len(columns) and tuple(names) in self._positional:
            return list(rows)
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in rows]

    def _reasons(self, length: int, choices: Column, groups: list[Any]) -> list[Reason]:
        found = self._column(choices, length)
        made = [
            iter(self._group(code, names, columns, found.count(number), *status))
            for number, (code, names, columns, *status) in enumerate(groups)
        ]
        return list(_chosen(found, made))

    def _group(
        self, code: str, names: list[str], columns: list[Column], length: int, status: str | None = None
    ) -> list[Reason]:
        if not all(isinstance(name, str) for name in (code, *names)):
            raise ValueError("its columns are damaged: the name of a reason or fact is not a string")
        if not columns:
            return [saved_reason(code, (), status)] * length
        facts = zip(*[self._column(column, length) for column in columns], strict=True)
        return [saved_reason(code, tuple(zip(names, row, strict=True)), status) for row in facts]

    def _mixed(self, length: int, choices: Column, columns: list[Column]) -> list[Any]:
        found = self._column(choices, length)
        made = [iter(self._column(column, found.count(number))) for number, column in enumerate(columns)]
        return list(_chosen(found, made))


def _chosen(choices: Sequence[int], values: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Yield the next value of the iterator that each choice names."""
    _require_indices(choices, values)
    for choice in choices:
        yield next(values[choice])


def _require_indices(numbers: Sequence[int], items: Sequence[object]) -> None:
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(items):
        raise ValueError("its columns are damaged: an index is out of range")
