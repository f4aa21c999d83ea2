"""Facts about the tensors of findings, measured on their elements, so that evidence is checked before it is given."""

from __future__ import annotations

from math import isfinite, prod
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.dtypes import Kind
from opdiff.core.errors import OpdiffError
from opdiff.core.pairing import Pairing
from opdiff.workflows.compare.batch import native_job
from opdiff.workflows.compare.kept_pairs import MAX_LOADED_BYTES, load_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.align.custom import Conversions
    from opdiff.core.comparison import Row
    from opdiff.core.dump import Unit
    from opdiff.core.error_facts import ErrorFacts, Explanation
    from opdiff.core.judgement import Finding, Judgement
    from opdiff.core.pairing import PairingResult
    from opdiff.workflows.compare.kept_pairs import LazyPairs

_MAX_TENSORS = 20
# Elements of all tensors together.
_MAX_ELEMENTS = 1 << 22
# Tensors, and elements of each, whose storage order is examined.
_MAX_EXPLAINED = 5
_MAX_EXPLAINED_ELEMENTS = 1 << 20
# Sample of a larger tensor: blocks, and elements of a block.
_MAX_BLOCKS = 4096
_BLOCK = 64


def find_error_facts(rows: Sequence[Row], judgement: Judgement, pairs: LazyPairs) -> tuple[ErrorFacts, ...]:
    """Return the facts about the tensors of findings, as far as the tensors can be read quickly."""
    found: list[ErrorFacts] = []
    explained = 0
    remaining = _MAX_ELEMENTS
    for members, tensor in _iter_members(rows, judgement.findings[:_MAX_TENSORS]):
        number = next((number for number, row in members if row.metrics is not None and str(row.key) == tensor), None)
        pair = None if number is None else pairs.pairing(number)
        if number is None or pair is None:
            continue
        if _is_small(pair, remaining):
            inputs = [other for other, row in members if not row.is_output] if rows[number].is_output else []
            facts = _examine(number, pairs, _in_order(map(pairs.pairing, inputs)))
        else:
            facts = _examine_sample(number, rows[number], pair) if pairs.custom is None else None
        if facts is not None:
            remaining -= facts.count
            if explained < _MAX_EXPLAINED and not facts.is_sample and facts.count <= _MAX_EXPLAINED_ELEMENTS:
                explained += 1
                facts = replace(facts, explanations=_explanations(pair, pairs.custom))
            found.append(facts)
    return tuple(found)


def _explanations(pairing: Pairing, custom: Conversions | None) -> tuple[Explanation, ...]:
    from opdiff.workflows.element_diff.explain import explain

    try:
        return explain(pairing, custom=custom)
    except (OpdiffError, MemoryError):
        return ()


def _iter_members(rows: Sequence[Row], findings: Sequence[Finding]) -> Iterator[tuple[list[tuple[int, Row]], str]]:
    """Yield the rows of the operator of each finding, with their numbers, and the tensor of the finding."""
    operators = [
        (finding.units[0] if finding.units else None, finding.tensor.rsplit(":", 2)[0]) for finding in findings
    ]
    members: dict[tuple[Unit | None, str], list[tuple[int, Row]]] = {operator: [] for operator in operators}
    for number, row in enumerate(rows if members else ()):
        found = members.get((row.unit, row.key.op)) if row.key is not None else None
        if found is not None:
            found.append((number, row))
    for operator, finding in zip(operators, findings, strict=True):
        yield members[operator], finding.tensor


def _is_small(pair: Pairing, remaining: int) -> bool:
    spec = pair.target.data.spec
    return spec.dtype.kind is not Kind.COMPLEX and prod(spec.shape) <= remaining and pair.nbytes <= MAX_LOADED_BYTES


def _in_order(inputs: Iterable[PairingResult | None]) -> list[Pairing]:
    return sorted((pair for pair in inputs if isinstance(pair, Pairing)), key=lambda pair: pair.target.key.index)


def _examine(number: int, pairs: LazyPairs, inputs: Sequence[Pairing]) -> ErrorFacts | None:
    from opdiff.measure.error_examination import measure_error_facts
    from opdiff.measure.error_patterns import find_error_patterns

    values = pairs.values(number)
    if values is None:
        return None
    facts = measure_error_facts(number, values.target, values.golden)
    if facts is None:
        return None
    small = [each for each in inputs if _is_small(each, _MAX_ELEMENTS)]
    given = [found.target for each in small if (found := load_values(each, pairs.custom))]
    operands = given if len(given) == len(inputs) else ()
    return replace(facts, patterns=find_error_patterns(values.target, values.golden, operands))


def _examine_sample(number: int, row: Row, pairing: Pairing) -> ErrorFacts | None:
    """Examine a sample of large tensors that are read where they are stored: short blocks at random positions."""
    import numpy as np

    from opdiff.align.element_reader import open_pair
    from opdiff.core import codes
    from opdiff.measure.error_examination import measure_sampled_facts

    error = row.metrics.relative_euclidean_distance if row.metrics is not None else None
    is_complex = pairing.target.data.spec.dtype.kind is Kind.COMPLEX
    if not error or not isfinite(error) or is_complex or native_job(pairing) is None:
        return None
    try:
        pair = open_pair(*pairing.operands, None)
        count = min(pair.target.count, pair.golden.count) if pair.shape else 0
        if not count:
            return None
        starts = np.random.default_rng(0).integers(0, max(count - _BLOCK, 0) + 1, _MAX_BLOCKS)
        places = np.unique((starts[:, None] + np.arange(min(_BLOCK, count))).ravel())
        target, golden = (codes.decode(side.take(places), side.dtype) for side in (pair.target, pair.golden))
    except (OpdiffError, MemoryError):
        return None
    return measure_sampled_facts(number, target, golden, np.unravel_index(places, pair.shape), pair.shape, error)
