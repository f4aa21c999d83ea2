"""Finished chunks of the jobs of a comparison, saved as they finish: an interrupted run continues with the others.

    jobs ──► chunks ──digest──► OUT/opdiff-unfinished/DIGEST.rows   the rows of one chunk, a whole file or none

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
from opdiff.core.comparison import STORED_AS_ARRAYS, Row
from opdiff.core.filesystem import read_input
from opdiff.core.reasons import Status, statuses_of
from opdiff.report.packed_columns import pack_columns, unpack_columns
from opdiff.workflows.compare.job import JobOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.dump import SideTensor
    from opdiff.workflows.compare.job import Job

FOLDER = "opdiff-unfinished"
_SUFFIX = ".rows"
_MAX_CHUNK_JOBS = 2000
_MAX_CHUNK_BYTES = 1 << 30
_MAX_FILE_BYTES = 1 << 28
# Failures that another attempt may not have.
_TRANSIENT = frozenset({Status.NOT_HERE, Status.KILLED, Status.INTERRUPTED})


class FinishedChunks:
    """The chunks of some jobs: chunks that earlier runs have finished, and chunks that finish now.

    Attributes:
        known: jobs that earlier runs finished, with their outcomes.
        missing: chunks that have to be measured.
    """

    def __init__(self, folder: str, jobs: Sequence[Job]) -> None:
        self._folder = os.path.join(folder, FOLDER)
        self._digests: dict[int, str] = {}
        self._outcomes: dict[str, dict[int, JobOutcome]] = {}
        self.known: list[tuple[Job, JobOutcome]] = []
        self.missing: list[tuple[Job, ...]] = []
        for chunk in _chunks(jobs):
            digest = _digest(chunk)
            rows = self._read(digest)
            if rows is not None and len(rows) == len(chunk):
                self.known += zip(chunk, map(JobOutcome, rows), strict=True)
                continue
            self.missing.append(chunk)
            self._digests |= dict.fromkeys((job.number for job in chunk), digest)
            self._outcomes[digest] = {}
        self._counts = {self._digests[chunk[0].number]: len(chunk) for chunk in self.missing}

    def add(self, job: Job, outcome: JobOutcome) -> None:
        """Note the outcome of a job, and save its chunk if all jobs of the chunk are finished now."""
        digest = self._digests[job.number]
        outcomes = self._outcomes[digest]
        outcomes[job.number] = outcome
        if len(outcomes) == self._counts[digest]:
            del self._outcomes[digest]
            if all(map(_is_final, outcomes.values())):
                self._write(digest, [outcomes[number].row for number in sorted(outcomes)])

    def _read(self, digest: str) -> tuple[Row, ...] | None:
        """Return the saved rows of a chunk; `None` if it was not saved, or its file cannot be used."""
        try:
            packed = read_input(self._path(digest), _MAX_FILE_BYTES)
            return msgspec.convert(
                unpack_columns(packed, STORED_AS_ARRAYS)["rows"], tuple[Row, ...], from_attributes=True
            )
        except (OSError, ValueError, KeyError):
            return None

    def _write(self, digest: str, rows: list[Row]) -> None:
        make_folder(self._folder)
        with open_atomic(self._path(digest)) as file:
            file.write(pack_columns({"rows": rows}))

    def _path(self, digest: str) -> str:
        return os.path.join(self._folder, f"{digest}{_SUFFIX}")


def remove_chunks(folder: str) -> None:
    """Remove the saved chunks of a run that is complete."""
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
    """Return whether another attempt may measure a row that could not be measured."""
    return not _TRANSIENT.isdisjoint(statuses_of(row.reason))


def _chunks(jobs: Sequence[Job]) -> Iterator[tuple[Job, ...]]:
    chunk: list[Job] = []
    nbytes = 0
    for job in jobs:
        chunk.append(job)
        nbytes += job.nbytes
        if len(chunk) >= _MAX_CHUNK_JOBS or nbytes >= _MAX_CHUNK_BYTES:
            yield tuple(chunk)
            chunk, nbytes = [], 0
    if chunk:
        yield tuple(chunk)


def _digest(chunk: Sequence[Job]) -> str:
    """Return a digest of everything that the rows of a chunk depend on."""
    encode = msgspec.msgpack.Encoder(enc_hook=repr).encode
    options = chunk[0].options.with_kl, [metric.name for metric in chunk[0].options.metrics]
    digest = hashlib.sha256(encode((version("opdiff"), version("numpy"), chunk[0].number, options)))
    for job in chunk:
        digest.update(encode((job.data_mode, job.pairing, _file_states(job))))
    return digest.hexdigest()


def _file_states(job: Job) -> list[str]:
    """Return the state of each file of a job."""
    sides = job.pairing.target, job.pairing.golden
    return [filesystem.version(path) for side in sides for path in _paths(side)]


def _paths(side: SideTensor) -> Iterable[str]:
    return [side.path] if side.tensor is None else side.tensor.source.paths
