"""Hypotheses on trial: each is tried on a few elements, then on as many as the limit allows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opdiff.align.walk import Walk, open_stored, walk_pair, walk_stored
from opdiff.core import codes as elements
from opdiff.core.errors import OpdiffError
from opdiff.core.source import FileRange
from opdiff.workflows.element_diff.detective import Explanation, What
from opdiff.workflows.element_diff.detective.hypotheses import Scene, axis_letters, iter_hypotheses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from opdiff.align.custom import Custom
    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Pairing
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Tensor
    from opdiff.workflows.element_diff.detective import Suspect
    from opdiff.workflows.element_diff.detective.hypotheses import Hypothesis

    Index = npt.NDArray[np.intp]

# Tensors up to this size are looked at as a whole; of larger ones so many elements are.
_WHOLE = 1 << 20
_SAMPLE = 1 << 16
_RUN = 64
_PARTS = 32
# The first look.
_FEW = 1 << 11
# Fewer elements fit too many hypotheses by chance.
_LEAST = 8
_LEAST_VALUES = 3
# What may be left under an explanation: of the golden tensor, and of the distance that it explains.
_GOOD = 0.05
_BETTER = 4.0
# Nothing is to be explained below this distance.
_NOISE = 2.0**-9
# How many elements must be there, and finite, for a distance to mean something.
_ENOUGH = 0.5
_MAX_SUSPECTS = 4096
_MAX_EXPLANATIONS = 3
_SAME = 0.999


class Trial(NamedTuple):
    """A target and its golden tensor before the court.

    Attributes:
        pairing: both, described.
        golden: the golden elements.
        scene: what hypotheses are about.
        chosen: the elements that are looked at, by their numbers in row-major order.
        few: the first look: places in `chosen`.
    """

    pairing: Pairing
    golden: Walk
    scene: Scene
    chosen: Index
    few: Index

    @classmethod
    def of(cls, pairing: Pairing, custom: Custom | None = None) -> Trial:
        """Both tensors of a pairing, opened."""
        pair = walk_pair(pairing, custom)
        count = prod(pair.shape)
        random = np.random.default_rng(count)
        chosen = np.arange(count) if count <= _WHOLE else _sample(random, count)
        few = np.sort(random.permutation(chosen.size)[:_FEW])
        letters = axis_letters(pairing.layout, len(pair.golden.shape))
        spec = pairing.target.data.spec
        scene = Scene(pair.target, pair.golden.shape, letters, spec.layout, max(spec.groups, 1))
        return cls(pairing, pair.golden, scene, chosen, few)

    def explanations(self, suspects: Iterable[Suspect]) -> tuple[Explanation, ...]:
        """What fits, the best first."""
        target, golden = _taken(self.scene.target, self.chosen), _taken(self.golden, self.chosen)
        before = distance(target, golden)
        if self.chosen.size < _LEAST or before <= _NOISE or _are_few_values(golden):
            return ()
        found = [*self._moved(target, golden, before), *self._others(target, before, suspects)]
        best = sorted(found, key=lambda explanation: explanation.after)[:_MAX_EXPLANATIONS]
        return tuple(best) or self._unknown_order(target, golden, before)

    def _moved(self, target: AnyArray, golden: AnyArray, before: float) -> Iterator[Explanation]:
        """The hypotheses about where the elements are that fit; of several that come to the same, the first."""
        known: list[AnyArray] = []
        can_be_order = self._can_be_order(target, golden, before)
        few = self.chosen[self.few]
        for hypothesis in iter_hypotheses(self.scene):
            if not can_be_order and hypothesis.kind in (What.AXES, What.CHANNELS, What.REVERSED):
                continue
            first = self._taken(hypothesis, few)
            if distance(first, golden[self.few]) > _limit(before, looked_at=_FEW):
                continue
            values = first if self.few.size == self.chosen.size else self._taken(hypothesis, self.chosen)
            after = distance(values, golden)
            if after > _limit(before) or any(np.array_equal(first, other, equal_nan=True) for other in known):
                continue
            known.append(first)
            yield self._explanation(hypothesis.kind, hypothesis.text, before, after)

    def _can_be_order(self, target: AnyArray, golden: AnyArray, before: float) -> bool:
        """Whether any order of the target can come near enough: no order is nearer than that by size.

        Only where all elements are looked at; real numbers only, as others have no order.
        """
        if self.chosen.size < prod(self.scene.shape) or np.iscomplexobj(target) or np.iscomplexobj(golden):
            return True
        return distance(np.sort(target), np.sort(golden)) <= _limit(before)

    def _taken(self, hypothesis: Hypothesis, chosen: Index) -> AnyArray:
        """The target's numbers where the hypothesis looks for them, NaN where they are lost."""
        coordinates = [np.asarray(index) for index in np.unravel_index(chosen, self.scene.shape)]
        places = hypothesis.places(coordinates)
        stored = self.scene.target.stored
        there = places < stored.codes.size
        codes = stored.codes[np.where(there, places, 0)]
        codes = codes.byteswap() if stored.swapped is not hypothesis.swapped else codes
        stored.release()
        numbers = _numbers(codes, self.scene.target.dtype)
        return numbers if there.all() else np.where(there, numbers, np.nan)

    def _others(self, target: AnyArray, before: float, suspects: Iterable[Suspect]) -> Iterator[Explanation]:
        """The other golden tensors that the target equals."""
        own = self.pairing.golden.data.source
        for suspect, _ in zip(suspects, range(_MAX_SUSPECTS), strict=False):
            try:
                walk = None if suspect.tensor.source == own else self._walk(suspect.tensor)
                if walk is None:
                    continue
                first = _taken(walk, self.chosen[self.few])
                if distance(target[self.few], first) > _limit(before, looked_at=_FEW):
                    continue
                values = _taken(walk, self.chosen)
            except OpdiffError:
                continue  # what cannot be read is no suspect
            after = distance(target, values)
            if after <= _limit(before) and not _are_few_values(values):
                yield self._blame(suspect, before, after)

    def _walk(self, tensor: Tensor) -> Walk | None:
        """The elements of another golden tensor in the order of the golden one, if it has as many."""
        spec, own = tensor.spec, self.pairing.golden.data.spec
        if (spec.shape, spec.layout) == (own.shape, own.layout) and isinstance(tensor.source, FileRange):
            return Walk(open_stored(tensor), spec.dtype, self.golden.shape, self.golden.axes)
        return walk_stored(tensor) if spec.count == self.golden.count else None

    def _blame(self, suspect: Suspect, before: float, after: float) -> Explanation:
        if suspect.same_operator:
            text = f"the inputs have changed places: this is {suspect.name}"
            return self._explanation(What.INPUTS, text, before, after)
        return self._explanation(What.OTHER, f"this is the data of {suspect.name}", before, after)

    def _explanation(self, kind: What, text: str, before: float, after: float) -> Explanation:
        return Explanation(kind, text, before, after, int(self.chosen.size), prod(self.scene.shape))

    def _unknown_order(self, target: AnyArray, golden: AnyArray, before: float) -> tuple[Explanation, ...]:
        """The same numbers in an order that is none of the known ones."""
        if self.chosen.size < prod(self.scene.shape) or np.iscomplexobj(target) or np.iscomplexobj(golden):
            return ()
        ours, theirs = np.sort(_coarse(target, self.golden.dtype)), np.sort(_coarse(golden, self.scene.target.dtype))
        if np.count_nonzero(ours == theirs) < _SAME * ours.size:
            return ()
        text = "the same numbers in another order, which is none of those that are known"
        return (self._explanation(What.ORDER, text, before, distance(ours, theirs)),)


def _sample(random: np.random.Generator, count: int) -> Index:
    """Elements of a large tensor: neighbours by the run, so that few pages of it are read."""
    starts = random.integers(0, count - _RUN, _SAMPLE // _RUN)
    return np.unique(starts[:, None] + np.arange(_RUN))


def distance(target: AnyArray, golden: AnyArray) -> float:
    """The relative Euclidean distance over what is finite on both sides; infinite when that is too little."""
    with np.errstate(all="ignore"):
        there = np.isfinite(target) & np.isfinite(golden)
        if np.count_nonzero(there) < _ENOUGH * target.size:
            return float("inf")
        errors, sizes = np.abs(target[there] - golden[there]), np.abs(golden[there])
        scale = float(max(errors.max(initial=0.0), sizes.max(initial=0.0))) or 1.0
        total = float(np.square(sizes / scale).sum())
        error = float(np.square(errors / scale).sum())
    return float(np.sqrt(error / total)) if total else (0.0 if error == 0 else float("inf"))


def _taken(walk: Walk, chosen: Index) -> AnyArray:
    """The numbers of some elements, taken in parts, so that few pages are held at a time."""
    parts = []
    for part in np.array_split(chosen, _PARTS if chosen.size < walk.count else 1):
        parts.append(walk.take(part))
        walk.stored.release()
    return _numbers(np.concatenate(parts), walk.dtype)


def _limit(before: float, *, looked_at: int = 0) -> float:
    """What may be left; a first look, at few elements, is not so strict."""
    return min(_GOOD, before / _BETTER) * (2.0 if looked_at else 1.0)


def _numbers(codes: AnyArray, dtype: DType) -> AnyArray:
    numbers = elements.decode(codes, dtype)
    with np.errstate(invalid="ignore"):
        return numbers.astype(np.complex128 if np.iscomplexobj(numbers) else np.float64)


def _coarse(numbers: AnyArray, other: DType) -> AnyArray:
    """The numbers as the other side would hold them, if it has floats."""
    try:
        return _numbers(elements.encode(numbers, other), other)
    except OpdiffError:
        return numbers


def _are_few_values(numbers: AnyArray) -> bool:
    """Whether there are so few different numbers that anything fits."""
    sample: Sequence[object] = numbers[:: max(numbers.size // _FEW, 1)].tolist()
    return len(set(sample)) < _LEAST_VALUES
