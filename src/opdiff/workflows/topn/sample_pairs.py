"""Pairs of samples: by name, by name without the number of the output, or by order."""

from __future__ import annotations

import os
import re
from itertools import product
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.reasons import Reason
    from opdiff.workflows.topn.samples import Outputs, Sample

_MAX_NAMES_SHOWN = 3
# Number of an output, and a timestamp, at the end of the names of output files: `img_7_0`, `img_7.0`, `img.0.167…`.
_OUTPUT_NUMBER = re.compile(r"(.+?)(?:_|\.)[0-9]{1,2}(?:\.[0-9]{10,20})?")
# Files that samples are made from.
_INPUT_SUFFIX = re.compile(r"\.(?:jpe?g|png|bmp|gif|tiff?|webp|wav|bin|npy|txt)$", re.IGNORECASE)


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
    forms: tuple[Callable[[str], str], ...] = (str, without_output_number)
    candidates = [_by_keys(target, golden, keys) for keys in product(forms, repeat=2)]
    best = max(candidates, key=lambda pairs: len(pairs.target))
    if best.target:
        return best
    if len(target.samples) != len(golden.samples):
        counts = {"target": len(target.samples), "golden": len(golden.samples)}
        names = {"target_name": target.samples[0].name, "golden_name": golden.samples[0].name}
        raise InputError(target.path, because("topn.not_paired", **counts, **names))
    note = because("topn.paired_by_order", target=target.samples[0].name, golden=golden.samples[0].name)
    return SamplePairs(target.samples, golden.samples, (note,))


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


def without_output_number(name: str) -> str:
    """Return a name without the number of an output at its end."""
    match = _OUTPUT_NUMBER.fullmatch(name)
    return match[1] if match else name


def input_name(name: str) -> str:
    """Return the name of an input file without folders and suffix: `val/img_7.JPEG` is `img_7`."""
    return _INPUT_SUFFIX.sub("", os.path.basename(name))
