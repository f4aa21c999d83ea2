"""Facts about the tensors of findings, measured on their elements, so that evidence is checked before it is given."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.comparison import Pairing
from opdiff.core.dtypes import Kind
from opdiff.core.errors import OpdiffError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Pair, Row
    from opdiff.core.error_facts import ErrorFacts
    from opdiff.core.judgement import Judgement

_MAX_TENSORS = 20
# Elements of all tensors together, and bytes of a pair.
_MAX_ELEMENTS = 1 << 22
_MAX_LOADED_BYTES = 64 << 20


def find_error_facts(
    rows: Sequence[Row], judgement: Judgement, pairs: Sequence[Pair], custom: Conversions | None = None
) -> tuple[ErrorFacts, ...]:
    """Return the facts about the tensors of findings, as far as these can be read quickly; `pairs` are of the rows."""
    numbers = {str(row.key): number for number, row in enumerate(rows) if row.metrics is not None}
    found: list[ErrorFacts] = []
    remaining = _MAX_ELEMENTS
    for finding in judgement.findings[:_MAX_TENSORS]:
        number = numbers.get(finding.tensor)
        pair = None if number is None else pairs[number]
        if number is None or not isinstance(pair, Pairing) or not _is_small(pair, remaining):
            continue
        facts = _examine(number, pair, _input_pairs(rows[number], rows, pairs), custom)
        if facts is not None:
            remaining -= facts.count
            found.append(facts)
    return tuple(found)


def _is_small(pair: Pairing, remaining: int) -> bool:
    spec = pair.target.data.spec
    nbytes = pair.target.data.source.nbytes + pair.golden.data.source.nbytes
    return spec.dtype.kind is not Kind.COMPLEX and prod(spec.shape) <= remaining and nbytes <= _MAX_LOADED_BYTES


def _input_pairs(row: Row, rows: Sequence[Row], pairs: Sequence[Pair]) -> list[Pairing]:
    """Return the inputs of the operator whose output a row is, in their order."""
    if row.key is None or not row.is_output:
        return []
    found = [pair for each, pair in zip(rows, pairs, strict=True) if _is_input_of(each, row.key.op)]
    return sorted((pair for pair in found if isinstance(pair, Pairing)), key=lambda pair: pair.target.key.index)


def _is_input_of(row: Row, operator: str) -> bool:
    return row.key is not None and row.key.op == operator and not row.is_output


def _examine(number: int, pairing: Pairing, inputs: Sequence[Pairing], custom: Conversions | None) -> ErrorFacts | None:
    from opdiff.measure.error_facts import measure_error_facts
    from opdiff.measure.error_patterns import find_error_patterns

    sides = _load(pairing, custom)
    if sides is None:
        return None
    facts = measure_error_facts(number, *sides)
    if facts is None:
        return None
    given = [loaded[0] for each in inputs if _is_small(each, _MAX_ELEMENTS) and (loaded := _load(each, custom))]
    return replace(facts, patterns=find_error_patterns(*sides, given if len(given) == len(inputs) else ()))


def _load(pairing: Pairing, custom: Conversions | None) -> tuple[AnyArray, AnyArray] | None:
    """Return the values of both sides in one shape; `None` if they cannot be read."""
    from opdiff.align.element_reader import open_pair
    from opdiff.core import codes

    try:
        pair = open_pair(*pairing.operands, custom)
        target, golden = (codes.decode(side.block(0, side.count), side.dtype) for side in (pair.target, pair.golden))
    except (OpdiffError, MemoryError):
        return None
    return target.reshape(pair.shape), golden.reshape(pair.shape)
