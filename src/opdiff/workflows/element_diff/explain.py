"""Search for explanations: each hypothesis is tested on a few elements first, then on all elements or a sample.

Only stored positions are looked up; no tensor is moved or copied as a whole, so time and memory are bounded.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from opdiff.align.element_reader import ElementReader, open_pair, open_stored_codes, open_tensor
from opdiff.core import codes as elements
from opdiff.core.error_facts import Explanation, ExplanationKind
from opdiff.core.errors import OpdiffError
from opdiff.core.reasons import because
from opdiff.core.source import FileRange
from opdiff.workflows.element_diff.hypotheses import HypothesisContext, axis_labels, iter_hypotheses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from opdiff.align.custom import Conversions
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.pairing import Pairing
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.workflows.element_diff.explanation import Candidate
    from opdiff.workflows.element_diff.hypotheses import Hypothesis

    Index = npt.NDArray[np.intp]

# Tensors up to this size are examined as a whole, larger tensors by a sample of runs of neighbours.
_MAX_FULL_ELEMENTS = 1 << 20
_SAMPLE_ELEMENTS = 1 << 16
_SAMPLE_RUN_LENGTH = 64
_SAMPLE_PARTS = 32
# Elements of the first, coarse test, and its tolerance.
_PREVIEW_ELEMENTS = 1 << 11
_PREVIEW_TOLERANCE = 2.0
# With fewer elements or distinct values, too many hypotheses fit by chance.
_MIN_ELEMENTS = 8
_MIN_DISTINCT_VALUES = 3
# Bounds of the distance that remains under an explanation: absolute, and relative to the distance before.
_MAX_DISTANCE_AFTER = 0.05
_MIN_IMPROVEMENT = 4.0
# Smaller differences need no explanation.
_MIN_DISTANCE_BEFORE = 2.0**-9
# Share of finite elements that a meaningful distance needs.
_MIN_FINITE_SHARE = 0.5
# Share of equal values by which two tensors are permutations of each other.
_MIN_EQUAL_SHARE = 0.999
_MAX_CANDIDATES = 4096
_MAX_EXPLANATIONS = 3
_ORDERS = (ExplanationKind.AXIS_ORDER, ExplanationKind.CHANNEL_ORDER, ExplanationKind.REVERSED_AXIS)


def explain(
    pairing: Pairing, candidates: Iterable[Candidate] = (), custom: Conversions | None = None
) -> tuple[Explanation, ...]:
    """Return the explanations of the difference between two tensors, best first; empty if the difference is small.

    Args:
        pairing: both tensors, described.
        candidates: other golden tensors; tensors with another number of elements are skipped.
        custom: user-defined layout conversions.

    Raises:
        DumpError, ElementError: a tensor of the pairing cannot be read.
        LayoutError: the tensors cannot be aligned.
    """
    pair = open_pair(*pairing.operands, custom)
    count = prod(pair.shape)
    random = np.random.default_rng(count)
    sample = np.arange(count) if count <= _MAX_FULL_ELEMENTS else _random_sample(random, count)
    preview = np.sort(random.permutation(sample.size)[:_PREVIEW_ELEMENTS])
    labels = axis_labels(pairing.declared.layout, len(pair.golden.shape))
    spec = pairing.target.data.spec
    context = HypothesisContext(pair.target, pair.golden.shape, labels, spec.layout, max(spec.groups, 1))
    return _HypothesisTest(pairing, pair.golden, context, sample, preview).explanations(candidates)


class _HypothesisTest(Struct, frozen=True):
    """Test of hypotheses about one pairing.

    Attributes:
        pairing: both tensors, described.
        golden: the golden elements.
        context: subject of the hypotheses.
        sample: row-major numbers of the examined elements.
        preview: elements of the coarse test, as positions in `sample`.
    """

    pairing: Pairing
    golden: ElementReader
    context: HypothesisContext
    sample: Index
    preview: Index

    def explanations(self, candidates: Iterable[Candidate]) -> tuple[Explanation, ...]:
        """Return the explanations that fit, best first."""
        target, golden = _take(self.context.target, self.sample), _take(self.golden, self.sample)
        before = _distance(target, golden)
        if self.sample.size < _MIN_ELEMENTS or before <= _MIN_DISTANCE_BEFORE or _has_few_values(golden):
            return ()
        found = [*self._reordered(target, golden, before), *self._other_tensors(target, before, candidates)]
        best = sorted(found, key=lambda explanation: explanation.after)[:_MAX_EXPLANATIONS]
        return tuple(best) or self._unknown_order(target, golden, before)

    def _reordered(self, target: AnyArray, golden: AnyArray, before: float) -> Iterator[Explanation]:
        """Yield the hypotheses that fit; of several with equal results only the first."""
        known: list[AnyArray] = []
        can_be_order = self._can_be_order(target, golden, before)
        for hypothesis in iter_hypotheses(self.context):
            if not can_be_order and hypothesis.kind in _ORDERS:
                continue
            first = self._take(hypothesis, self.sample[self.preview])
            if _distance(first, golden[self.preview]) > _PREVIEW_TOLERANCE * _max_distance(before):
                continue
            values = first if self.preview.size == self.sample.size else self._take(hypothesis, self.sample)
            after = _distance(values, golden)
            if after > _max_distance(before) or any(np.array_equal(first, other, equal_nan=True) for other in known):
                continue
            known.append(first)
            yield self._explanation(hypothesis.kind, hypothesis.reason, before, after)

    def _can_be_order(self, target: AnyArray, golden: AnyArray, before: float) -> bool:
        """Return whether any permutation of the target can be near enough: sorting both gives the smallest distance."""
        if not self._is_sortable(target, golden):
            return True
        return _distance(np.sort(target), np.sort(golden)) <= _max_distance(before)

    def _is_sortable(self, target: AnyArray, golden: AnyArray) -> bool:
        """Return whether all elements are examined, and are real."""
        is_full = self.sample.size >= prod(self.context.shape)
        return is_full and not np.iscomplexobj(target) and not np.iscomplexobj(golden)

    def _take(self, hypothesis: Hypothesis, sample: Index) -> AnyArray:
        """Return the values of the target under a hypothesis; NaN for lost elements."""
        coordinates = [np.asarray(index) for index in np.unravel_index(sample, self.context.shape)]
        positions = hypothesis.positions(coordinates)
        stored = self.context.target.stored
        is_stored = positions < stored.codes.size
        codes = stored.codes[np.where(is_stored, positions, 0)]
        codes = codes.byteswap() if stored.swapped is not hypothesis.swapped else codes
        stored.release()
        values = _decode(codes, self.context.target.dtype)
        return values if is_stored.all() else np.where(is_stored, values, np.nan)

    def _other_tensors(self, target: AnyArray, before: float, candidates: Iterable[Candidate]) -> Iterator[Explanation]:
        """Yield the other golden tensors that the target equals."""
        own = self.pairing.golden.data.source
        for candidate, _ in zip(candidates, range(_MAX_CANDIDATES), strict=False):
            try:
                reader = None if candidate.tensor.source == own else self._open_like_golden(candidate.tensor)
                if reader is None:
                    continue
                first = _take(reader, self.sample[self.preview])
                if _distance(target[self.preview], first) > _PREVIEW_TOLERANCE * _max_distance(before):
                    continue
                values = _take(reader, self.sample)
            except OpdiffError:
                continue  # an unreadable tensor is no explanation
            after = _distance(target, values)
            if after <= _max_distance(before) and not _has_few_values(values):
                yield self._explanation(*_mistaken_for(candidate), before, after)

    def _open_like_golden(self, tensor: Tensor) -> ElementReader | None:
        """Return another golden tensor in the order of the paired golden tensor, if it has as many elements."""
        spec, own = tensor.spec, self.pairing.golden.data.spec
        if (spec.shape, spec.layout) == (own.shape, own.layout) and isinstance(tensor.source, FileRange):
            return ElementReader(open_stored_codes(tensor), spec.dtype, self.golden.shape, self.golden.axes)
        return open_tensor(tensor) if spec.count == self.golden.count else None

    def _explanation(self, kind: ExplanationKind, reason: Reason, before: float, after: float) -> Explanation:
        return Explanation(kind, reason, before, after, int(self.sample.size), prod(self.context.shape))

    def _unknown_order(self, target: AnyArray, golden: AnyArray, before: float) -> tuple[Explanation, ...]:
        """Return an explanation if both tensors have the same values in an order that is no hypothesis."""
        if not self._is_sortable(target, golden):
            return ()
        target_values = np.sort(_as_stored_in(target, self.golden.dtype))
        golden_values = np.sort(_as_stored_in(golden, self.context.target.dtype))
        if np.count_nonzero(target_values == golden_values) < _MIN_EQUAL_SHARE * target_values.size:
            return ()
        reason = because("workflows.unknown_order")
        return (
            self._explanation(ExplanationKind.UNKNOWN_ORDER, reason, before, _distance(target_values, golden_values)),
        )


def _mistaken_for(candidate: Candidate) -> tuple[ExplanationKind, Reason]:
    if candidate.sibling is None:
        return ExplanationKind.OTHER_TENSOR, because("workflows.other_tensor", tensor=str(candidate.key))
    sibling = f"{candidate.sibling.slot}:{candidate.sibling.index}"
    reason = because("workflows.inputs_swapped", tensor=str(candidate.key), sibling=sibling)
    return ExplanationKind.INPUT_ORDER, reason


def _random_sample(random: np.random.Generator, count: int) -> Index:
    """Choose runs of neighbouring elements of a large tensor, so that few pages of it are read."""
    starts = random.integers(0, count - _SAMPLE_RUN_LENGTH, _SAMPLE_ELEMENTS // _SAMPLE_RUN_LENGTH)
    return np.unique(starts[:, None] + np.arange(_SAMPLE_RUN_LENGTH))


def _distance(target: AnyArray, golden: AnyArray) -> float:
    """Return the relative Euclidean distance over elements finite on both sides; infinite if they are too few."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(target) & np.isfinite(golden)
        if np.count_nonzero(finite) < _MIN_FINITE_SHARE * target.size:
            return inf
        errors, magnitudes = np.abs(target[finite] - golden[finite]), np.abs(golden[finite])
        scale = float(max(errors.max(initial=0.0), magnitudes.max(initial=0.0))) or 1.0
        total = float(np.square(magnitudes / scale).sum())
        error = float(np.square(errors / scale).sum())
    return float(np.sqrt(error / total)) if total else (0.0 if error == 0 else inf)


def _max_distance(before: float) -> float:
    """Return the largest distance that may remain under an explanation."""
    return min(_MAX_DISTANCE_AFTER, before / _MIN_IMPROVEMENT)


def _take(reader: ElementReader, sample: Index) -> AnyArray:
    """Return the values of some elements, taken in parts to hold few pages at a time."""
    parts = []
    for part in np.array_split(sample, _SAMPLE_PARTS if sample.size < reader.count else 1):
        parts.append(reader.take(part))
        reader.stored.release()
    return _decode(np.concatenate(parts), reader.dtype)


def _decode(codes: AnyArray, dtype: DType) -> AnyArray:
    values = elements.decode(codes, dtype)
    with np.errstate(invalid="ignore"):
        return values.astype(np.complex128 if np.iscomplexobj(values) else np.float64)


def _as_stored_in(values: AnyArray, dtype: DType) -> AnyArray:
    """Round values to an element type; return the values unchanged if the type cannot encode them."""
    try:
        return _decode(elements.encode(values, dtype), dtype)
    except OpdiffError:
        return values


def _has_few_values(values: AnyArray) -> bool:
    """Return whether there are so few distinct values that any hypothesis fits."""
    return len(set(values[:: max(values.size // _PREVIEW_ELEMENTS, 1)].tolist())) < _MIN_DISTINCT_VALUES
