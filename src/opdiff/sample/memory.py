"""Device memory plan: addresses are reused once a tensor has no further reader."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opdiff.sample.graph import DeviceOp, Port

FEATURES_BASE = 0x1240_C000_0000
WEIGHTS_BASE = 0x1240_8000_0000

_ALIGNMENT = 512


@dataclass(frozen=True, slots=True, order=True)
class _Block:
    """Allocated memory, and the step after which it is free."""

    start: int
    stop: int
    last_use: int


def plan_features(
    ops: Sequence[DeviceOp], nbytes: Mapping[Port, int], *, persistent: Iterable[Port], given: Port
) -> dict[Port, int]:
    """Return an address per tensor; tensors with overlapping lifetimes do not share memory.

    `given` exists before the first step; `persistent` tensors are never freed.
    """
    last_use = {port: step for step, op in enumerate(ops) for port in (*op.inputs, *op.ports)}
    last_use |= dict.fromkeys(persistent, len(ops))
    addresses: dict[Port, int] = {}
    blocks: list[_Block] = []
    for step, ports in enumerate([(given,), *(op.ports for op in ops)], start=-1):
        blocks = [block for block in blocks if block.last_use >= step]
        for port in ports:
            start = _first_gap(blocks, nbytes[port])
            insort(blocks, _Block(start, start + nbytes[port], last_use[port]))
            addresses[port] = start
    return addresses


def plan_weights(nbytes: Mapping[str, int]) -> dict[str, int]:
    """Return an address per constant, one after the other."""
    addresses, start = {}, WEIGHTS_BASE
    for name, size in nbytes.items():
        addresses[name] = start
        start = _aligned(start + size)
    return addresses


def _first_gap(blocks: list[_Block], nbytes: int) -> int:
    start = FEATURES_BASE
    for block in blocks:
        if start + nbytes <= block.start:
            break
        start = max(start, _aligned(block.stop))
    return start


def _aligned(address: int) -> int:
    return -(-address // _ALIGNMENT) * _ALIGNMENT
