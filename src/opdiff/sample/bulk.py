"""Many dumps at once, for benchmarks: what counts is their number and size, not what they mean."""

from __future__ import annotations

import os

_BLOCK = 1 << 20
_TIMESTAMP = 1_700_000_000_000_000


def write_many(directory: str, files: int, nbytes: int) -> tuple[str, ...]:
    """Write so many standard dumps, each with one float16 output of `nbytes` bytes (made even); return their paths.

    All hold the same numbers, which repeat after 1 MiB.
    """
    from opdiff.core import dtypes
    from opdiff.sample.container import EncodedDump, EncodedTensor, iter_standard
    from opdiff.sample.names import DumpName

    os.makedirs(directory, exist_ok=True)
    payload = _payload(nbytes // 2 * 2)
    output = EncodedTensor(dtypes.FLOAT16, (len(payload) // 2,), "ND", payload, origin_shape=(len(payload) // 2,))
    paths = []
    for number in range(files):
        name = DumpName("Add", f"block{number // 100}/add_{number}", number, 3, _TIMESTAMP + number)
        paths.append(os.path.join(directory, str(name)))
        dump = EncodedDump(outputs=(output,), op_name=name.op_name, dump_time=name.timestamp)
        with open(paths[-1], "wb") as file:
            file.writelines(iter_standard(dump))
    return tuple(paths)


def _payload(nbytes: int) -> bytes:
    import numpy as np

    block = np.random.default_rng(0).normal(size=_BLOCK // 2).astype("<f2").tobytes()
    return (block * (nbytes // _BLOCK + 1))[:nbytes]
