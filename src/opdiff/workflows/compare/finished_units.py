"""Finished units of a comparison, saved as they finish: an interrupted run continues with the others.

    jobs ──► units ──digest──► OUT/opdiff-unfinished/DIGEST.rows   the rows of one unit, a whole file or none

The digest covers all that rows depend on: descriptions of the tensors, size and time of their files, and the version of
opdiff. A changed file changes the digest, so that no row is taken from another state of the dumps.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from opdiff.core import filesystem
from opdiff.core.atomic_file import make_folder, open_atomic
from opdiff.core.comparison import Row
from opdiff.core.input_file import read_input
from opdiff.core.reasons import kind_of
from opdiff.report.packed_columns import pack_columns, unpack_columns
from opdiff.workflows.cluster import UNREADABLE
from opdiff.workflows.compare.job import JobOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.dump import SideTensor
    from opdiff.workflows.compare.job import Job

FOLDER = "opdiff-unfinished"
_SUFFIX = ".rows"
_MAX_UNIT_JOBS = 2000
_MAX_UNIT_BYTES = 1 << 30
_MAX_FILE_BYTES = 1 << 28
# Reasons of failures that another attempt may not have.
_TRANSIENT = UNREADABLE | {"compare.process_died", "compare.no_memory"}


class FinishedUnits:
    """The units of some jobs: which of them earlier runs have finished, and those that finish now.

    Attributes:
        known: jobs that earlier runs finished, with their outcomes.
        missing: units that have to be measured.
    """

    def __init__(self, folder: str, jobs: Sequence[Job]) -> None:
        self._folder = os.path.join(folder, FOLDER)
        self._digests: dict[int, str] = {}
        self._outcomes: dict[str, dict[int, JobOutcome]] = {}
        self.known: list[tuple[Job, JobOutcome]] = []
        self.missing: list[tuple[Job, ...]] = []
        for unit in _units(jobs):
            digest = _digest(unit)
            rows = self._read(digest)
            if rows is not None and len(rows) == len(unit):
                self.known += zip(unit, map(JobOutcome, rows), strict=True)
                continue
            self.missing.append(unit)
            self._digests |= dict.fromkeys((job.number for job in unit), digest)
            self._outcomes[digest] = {}
        self._counts = {self._digests[unit[0].number]: len(unit) for unit in self.missing}

    def add(self, job: Job, outcome: JobOutcome) -> None:
        """Note the outcome of a job, and save its unit if that is complete now."""
        digest = self._digests[job.number]
        outcomes = self._outcomes[digest]
        outcomes[job.number] = outcome
        if len(outcomes) == self._counts[digest]:
            del self._outcomes[digest]
            if all(map(_is_final, outcomes.values())):
                self._write(digest, [outcomes[number].row for number in sorted(outcomes)])

    def _read(self, digest: str) -> tuple[Row, ...] | None:
        """Return the rows of a unit; `None` if there are none, or none that can be used."""
        try:
            packed = read_input(self._path(digest), _MAX_FILE_BYTES)
            return msgspec.convert(unpack_columns(packed)["rows"], tuple[Row, ...])
        except (OSError, ValueError, KeyError):
            return None

    def _write(self, digest: str, rows: list[Row]) -> None:
        make_folder(self._folder)
        with open_atomic(self._path(digest)) as file:
            file.write(pack_columns({"rows": rows}))

    def _path(self, digest: str) -> str:
        return os.path.join(self._folder, f"{digest}{_SUFFIX}")


def remove_units(folder: str) -> None:
    """Remove the saved units of a run that is complete."""
    saved = os.path.join(folder, FOLDER)
    with suppress(OSError):
        for name in os.listdir(saved):
            if name.endswith(_SUFFIX):
                os.unlink(os.path.join(saved, name))
        os.rmdir(saved)


def _is_final(outcome: JobOutcome) -> bool:
    """Return whether another attempt would have the same outcome."""
    return not outcome.defect and not is_transient(outcome.row)


def is_transient(row: Row) -> bool:
    """Return whether another attempt may give the row numbers that it does not have."""
    codes = kind_of(row.reason) if row.reason is not None else ()
    return any(code in _TRANSIENT or code.startswith("run.") for code in codes)


def _units(jobs: Sequence[Job]) -> Iterator[tuple[Job, ...]]:
    unit: list[Job] = []
    nbytes = 0
    for job in jobs:
        unit.append(job)
        nbytes += job.nbytes
        if len(unit) >= _MAX_UNIT_JOBS or nbytes >= _MAX_UNIT_BYTES:
            yield tuple(unit)
            unit, nbytes = [], 0
    if unit:
        yield tuple(unit)


def _digest(unit: Sequence[Job]) -> str:
    """Return a digest of everything that the rows of a unit depend on."""
    encode = msgspec.msgpack.Encoder(enc_hook=repr).encode
    options = unit[0].options.with_kl, [metric.name for metric in unit[0].options.metrics]
    digest = hashlib.sha256(encode((version("opdiff"), version("numpy"), unit[0].number, options)))
    for job in unit:
        digest.update(encode((job.data_mode, job.pairing, _file_states(job))))
    return digest.hexdigest()


def _file_states(job: Job) -> list[str]:
    """Return the state of each file of a job."""
    sides = job.pairing.target, job.pairing.golden
    return [filesystem.version(path) for side in sides for path in _paths(side)]


def _paths(side: SideTensor) -> Iterable[str]:
    return [side.path] if side.tensor is None else side.tensor.source.paths
