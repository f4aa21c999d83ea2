"""Facts about the tensors of findings, measured on their elements, so that evidence is checked before it is given."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from opdiff.core.comparison import Pairing
from opdiff.core.dtypes import Kind
from opdiff.core.errors import OpdiffError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.comparison import ErrorFacts, Pair, Row
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
        facts = _examine(number, pair, custom)
        if facts is not None:
            remaining -= facts.count
            found.append(facts)
    return tuple(found)


def _is_small(pair: Pairing, remaining: int) -> bool:
    spec = pair.target.data.spec
    nbytes = pair.target.data.source.nbytes + pair.golden.data.source.nbytes
    return spec.dtype.kind is not Kind.COMPLEX and prod(spec.shape) <= remaining and nbytes <= _MAX_LOADED_BYTES


def _examine(number: int, pairing: Pairing, custom: Conversions | None) -> ErrorFacts | None:
    from opdiff.align.element_reader import open_pair
    from opdiff.core import codes
    from opdiff.measure.error_facts import measure_error_facts

    try:
        pair = open_pair(*pairing.operands, custom)
        sides = [codes.decode(side.block(0, side.count), side.dtype) for side in (pair.target, pair.golden)]
    except (OpdiffError, MemoryError):
        return None
    return measure_error_facts(number, *(side.reshape(pair.shape) for side in sides))
