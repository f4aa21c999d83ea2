"""Would it be found? Known faults in copies of the user's own dumps: the way of `opdiff selftest`.

    compare ──► rows within limits ──chosen──► places
    place, fault ──plant──► a copy of one file ──read, align, measure──► the row anew ──► found? named rightly?

The user's files are only read. A copy lives in a temporary folder for as long as it is measured.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.comparison import Measured, Pairing
from opdiff.core.dtypes import Kind
from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.core.tensor import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import TensorKey
    from opdiff.workflows.compare.inputs import CompareOptions
    from opdiff.workflows.element_diff.detective import Suspect
    from opdiff.workflows.selftest.faults import Fault

    Progress = Callable[[int, int], None]

# Tensors that are large enough for faults to mean something, and small enough for many trials.
_LEAST = 16
_MOST = 1 << 22


class SelftestOptions(NamedTuple):
    """Which faults, at how many places, and the seed from which choices are made."""

    faults: tuple[str, ...] = ()
    places: int = 3
    seed: int = 0


class Outcome(NamedTuple):
    """What came of one fault at one place.

    Attributes:
        fault: its name.
        key: the tensor in which it was planted.
        is_found: whether the comparison shows it; `None` when it could not be planted.
        right_name: what it should be called.
        names: what it was called.
        distance: the relative Euclidean distance that it made.
        note: why it could not be planted.
    """

    fault: str
    key: TensorKey
    is_found: bool | None
    right_name: str
    names: tuple[str, ...] = ()
    distance: float | None = None
    note: str = ""

    @property
    def is_named(self) -> bool:
        """Whether it was called what it is, and nothing else."""
        return self.names == (self.right_name,)


def choose_faults(text: str) -> tuple[str, ...]:
    """The names of the faults in a list with commas; all of them for an empty one.

    Raises:
        UsageError: there is no such fault.
    """
    from opdiff.workflows.selftest.faults import FAULTS

    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in FAULTS:
            raise UsageError(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")
    return names or tuple(FAULTS)


def run_selftest(
    options: CompareOptions, wanted: SelftestOptions, progress: Progress = lambda _done, _all: None
) -> tuple[Outcome, ...]:
    """Plant every fault at every place, one at a time, and see what the comparison says.

    Raises:
        UsageError: the options contradict each other or the data, or there is no such fault.
        InputError: a side cannot be used, or no tensor is good enough to be spoiled.
    """
    from tempfile import TemporaryDirectory

    import numpy as np

    from opdiff.workflows.element_diff.detective import Suspect
    from opdiff.workflows.selftest.faults import FAULTS

    rows = _compared(options)
    random = np.random.default_rng(wanted.seed)
    good = _good_rows(rows, options)
    places = [good[int(place)] for place in sorted(random.permutation(len(good))[: wanted.places])]
    suspects = [Suspect(str(row.pairing.golden_key), row.pairing.golden.data) for row in rows]
    faults = [FAULTS[name] for name in wanted.faults or FAULTS]
    outcomes: list[Outcome] = []
    with TemporaryDirectory(prefix="opdiff-selftest-") as folder:
        for place in places:
            for fault in faults:
                outcomes.append(_try(place, fault, _Scene(good, suspects, folder, random)))
                progress(len(outcomes), len(places) * len(faults))
    return tuple(outcomes)


class _Scene(NamedTuple):
    """What every trial needs."""

    good: Sequence[Measured]
    suspects: Sequence[Suspect]
    folder: str
    random: np.random.Generator


def _compared(options: CompareOptions) -> list[Measured]:
    from opdiff.workflows.compare.inputs import NotCompared
    from opdiff.workflows.compare.pipeline import compare

    if os.path.isdir(options.fusion_rules):
        raise UsageError("a test takes one rule file; give that of one model instead of a directory")
    (result,) = compare(options, lambda _done, _all: None)
    if isinstance(result, NotCompared):
        raise InputError(result.path, result.reason)
    return [row for row in result.comparison.rows if isinstance(row, Measured)]


def _good_rows(rows: Sequence[Measured], options: CompareOptions) -> list[Measured]:
    """Tensors that are right and can be spoiled: outputs, or where there are none of that kind, inputs."""
    from opdiff.workflows.selftest.naming import is_found
    from opdiff.workflows.selftest.planting import can_be_planted

    good = [row for row in rows if not is_found(row) and can_be_planted(row.pairing) and _is_fit(row)]
    outputs = [row for row in good if row.pairing.key.slot is Slot.OUTPUT]
    if not good:
        raise InputError(options.target, "no tensor here is within limits and fit to be spoiled, so nothing was tested")
    return outputs or good


def _is_fit(row: Measured) -> bool:
    metrics, kind = row.metrics, row.pairing.target.data.spec.dtype.kind
    if metrics is None or kind not in (Kind.FLOAT, Kind.INTEGER):
        return False
    is_constant = metrics.target_min == metrics.target_max
    return _LEAST <= metrics.count <= _MOST and metrics.finite_count == metrics.count and not is_constant


def _try(row: Measured, fault: Fault, scene: _Scene) -> Outcome:
    from opdiff.workflows.compare.job import MeasureJob, measure_pairing
    from opdiff.workflows.selftest.naming import is_found, named

    key = row.pairing.key
    try:
        planted = _planted(row, fault, scene)
        if planted is None:
            return Outcome(fault.name, key, None, fault.right_name, note="this tensor cannot have it")
        anew, defect = measure_pairing(MeasureJob(0, planted))
        if defect:
            return Outcome(fault.name, key, None, fault.right_name, note=anew.reason)
        names = named(anew, scene.suspects)
    except OpdiffError as error:
        return Outcome(fault.name, key, None, fault.right_name, note=str(error))
    distance = anew.metrics.relative_euclidean_distance if anew.metrics else None
    return Outcome(fault.name, key, is_found(anew), fault.right_name, names, distance)


def _planted(row: Measured, fault: Fault, scene: _Scene) -> Pairing | None:
    import numpy as np

    from opdiff.workflows.selftest.faults import Victim
    from opdiff.workflows.selftest.planting import logical_numbers, plant

    numbers = logical_numbers(row.pairing)
    channel = _channel_axis(row, numbers.ndim)
    victim = Victim(numbers, row.pairing.target.data.spec.dtype, channel, _other(row, numbers, scene), scene.random)
    wrong = fault.plant(victim)
    if wrong is None or np.array_equal(wrong, numbers):
        return None
    return plant(row.pairing, wrong, scene.folder)


def _channel_axis(row: Measured, rank: int) -> int:
    layout = row.pairing.layout
    if len(layout) == rank and "C" in layout:
        return layout.index("C")
    return 1 if rank in (4, 5) else rank - 1


def _other(row: Measured, numbers: AnyArray, scene: _Scene) -> AnyArray | None:
    """The numbers of the next tensor of as many elements that holds something else."""
    import numpy as np

    place = next(number for number, other in enumerate(scene.good) if other is row)
    for other in (*scene.good[place + 1 :], *scene.good[:place]):
        if other.metrics is None or other.metrics.count != numbers.size or other.golden_dtype != row.golden_dtype:
            continue
        found = _numbers(other)
        if not np.array_equal(found.reshape(-1), numbers.reshape(-1)):
            return found
    return None


def _numbers(row: Measured) -> AnyArray:
    from opdiff.workflows.selftest.planting import logical_numbers

    return logical_numbers(row.pairing)


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How many were found, and how many were named rightly."""
    tried = [outcome for outcome in outcomes if outcome.is_found is not None]
    found = [outcome for outcome in tried if outcome.is_found]
    right = [outcome for outcome in found if outcome.is_named]
    yield f"{len(found)} of {len(tried)} planted faults were found, {len(right)} were named rightly"
    if len(tried) < len(outcomes):
        yield f"{len(outcomes) - len(tried)} could not be planted"
