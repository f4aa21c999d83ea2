"""Tensor data in memory for the kernel, which reads other data from files itself: remote tensors, and short tensors.

Short tensors were read with the headers of their files. Remote tensors are fetched for one call of the kernel while the
kernel measures the tensors of the call before; a call has a limited number of remote bytes.
"""

from __future__ import annotations

import ctypes
from itertools import accumulate
from typing import TYPE_CHECKING

from opdiff.core.errors import DumpError
from opdiff.core.reasons import because
from opdiff.core.remote.urls import is_remote
from opdiff.core.source import FileRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.dump import SideTensor
    from opdiff.core.pairing import Pairing
    from opdiff.core.remote.store import Data
    from opdiff.workflows.compare.job import Job

# Remote data in memory during one call; there are two calls at a time.
_MAX_CALL_NBYTES = 256 << 20


class Payloads:
    """Data of remote and of short tensors; in memory as long as this object is."""

    def __init__(
        self,
        found: Mapping[FileRange, Data | OSError] | None = None,
        kept: Mapping[tuple[str, int, int], bytes] | None = None,
    ) -> None:
        self._found = found or {}
        kept = kept or {}
        self._joined = b"".join(kept.values())
        starts = accumulate(map(len, kept.values()), initial=_address(self._joined) if kept else 0)
        self._starts = dict(zip(kept, starts, strict=False))

    def address(self, source: FileRange) -> int:
        """Return the address of the data of a tensor; 0 if the data is in a file of this machine.

        Raises:
            DumpError: the data could not be fetched, or its file is too short.
        """
        start = self._starts.get((source.path, source.offset, source.nbytes))
        if start is not None:
            return start
        if not is_remote(source.path):
            return 0
        data = self._found[source]
        if isinstance(data, OSError):
            raise DumpError(source.path, because("core.cannot_read", error=data.strerror), source.offset) from data
        if len(data) < source.nbytes:
            problem = because("core.file_ends", nbytes=source.nbytes, size=source.offset + len(data))
            raise DumpError(source.path, problem, source.offset)
        return _address(data)


def _address(data: Data) -> int:
    # An empty tensor needs an address, too, which is never read.
    data = data or b"\0"
    if isinstance(data, bytes):
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    import numpy as np

    return int(np.frombuffer(data, np.uint8).ctypes.data)


def calls_of(jobs: Sequence[Job], max_pairs: int) -> Iterator[Sequence[Job]]:
    """Divide jobs into calls of the kernel, by number of pairs, and by bytes that are remote."""
    start = nbytes = 0
    for end, job in enumerate(jobs):
        more = _remote_nbytes(job.pairing.target) + _remote_nbytes(job.pairing.golden)
        if end - start == max_pairs or (nbytes and nbytes + more > _MAX_CALL_NBYTES):
            yield jobs[start:end]
            start, nbytes = end, 0
        nbytes += more
    if start < len(jobs):
        yield jobs[start:]


def fetch_payloads(pairings: Iterable[Pairing]) -> Payloads:
    """Return the payloads of some pairings; remote tensors are fetched."""
    kept: dict[tuple[str, int, int], bytes] = {}
    sources: dict[FileRange, None] = {}
    for pairing in pairings:
        for side in (pairing.target, pairing.golden):
            source = side.data.source
            if not isinstance(source, FileRange):
                continue
            data = source.kept
            if data is not None:
                kept[source.path, source.offset, source.nbytes] = data
            elif is_remote(source.path):
                sources[source] = None
    if not sources:
        return Payloads({}, kept)
    from opdiff.core.remote.stores import fetch_all

    return Payloads(dict(zip(sources, fetch_all([*sources]), strict=True)), kept)


def is_remote_pair(pairing: Pairing) -> bool:
    """Return whether a tensor is remote."""
    tensors = (pairing.target.tensor, pairing.golden.tensor)
    return any(tensor is not None and is_remote(tensor.source.path) for tensor in tensors)


def _remote_nbytes(side: SideTensor) -> int:
    """Return the size of a tensor that has to be fetched; 0 for others."""
    source = side.data.source
    return source.nbytes if isinstance(source, FileRange) and is_remote(source.path) else 0
