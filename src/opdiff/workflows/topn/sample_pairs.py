"""Pairs of samples: by name, by name without the number of the output, or by order."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.workflows.topn.sample_names import without_output_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.reasons import Reason
    from opdiff.workflows.topn.samples import Outputs, Sample

_MAX_NAMES_SHOWN = 3


class SamplePairs(Struct, frozen=True):
    """Samples of both sides that belong together, and remarks about the others."""

    target: tuple[Sample, ...]
    golden: tuple[Sample, ...]
    notes: tuple[Reason, ...] = ()


def pair_samples(target: Outputs, golden: Outputs) -> SamplePairs:
    """Pair the samples of two runs.

    Raises:
        InputError: no names are equal, and the numbers of samples differ.
    """
    candidates = [_by_keys(target, golden, keys) for keys in product((_whole_name, without_output_number), repeat=2)]
    best = max(candidates, key=lambda pairs: len(pairs.target))
    if best.target:
        return best
    if len(target.samples) != len(golden.samples):
        counts = {"target": len(target.samples), "golden": len(golden.samples)}
        names = {"target_name": target.samples[0].name, "golden_name": golden.samples[0].name}
        raise InputError(target.path, because("topn.not_paired", **counts, **names))
    note = because("topn.paired_by_order", target=target.samples[0].name, golden=golden.samples[0].name)
    return SamplePairs(target.samples, golden.samples, (note,))


def _whole_name(name: str) -> str:
    return name


def _by_keys(target: Outputs, golden: Outputs, keys: tuple[Callable[[str], str], ...]) -> SamplePairs:
    """Pair samples with equal keys; none if keys are not unique."""
    outputs = target, golden
    sides = [{key(sample.name): sample for sample in side.samples} for side, key in zip(outputs, keys, strict=True)]
    if any(len(named) < len(side.samples) for named, side in zip(sides, outputs, strict=True)):
        return SamplePairs((), ())
    common = [name for name in sides[0] if name in sides[1]]
    first, second = (tuple(named[name] for name in common) for named in sides)
    return SamplePairs(first, second, tuple(_unpaired(sides[0], sides[1])))


def _unpaired(target: dict[str, Sample], golden: dict[str, Sample]) -> Iterator[Reason]:
    for side, own, other in (("target", target, golden), ("golden", golden, target)):
        alone = [name for name in own if name not in other]
        if alone:
            names = (*alone[:_MAX_NAMES_SHOWN], "…") if len(alone) > _MAX_NAMES_SHOWN else tuple(alone)
            yield because("topn.unpaired", count=len(alone), side=side, names=names)
