"""Which of the errors that were born spoil the results of the network most, and by which way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.judge.locate import Born, Located
    from opdiff.judge.network import Network
    from opdiff.judge.noise import State

_LONGEST_PATH = 200
# An operator with bad inputs may enlarge them in a way that is not expected of its type: half a fault.
_DOUBTFUL = 0.5


class Ranked(NamedTuple):
    """An operator with an error of its own.

    Attributes:
        born: its worst tensor.
        share: the part of the error of the network's results that comes from it; `None` when they have none.
        path: from it to a result.
        is_sure: its inputs are good.
    """

    born: Born
    share: float | None
    path: tuple[str, ...]
    is_sure: bool


def rank(network: Network, located: Located) -> tuple[Ranked, ...]:
    """The errors that were born, the one that spoils the results most first; one for each operator."""
    worst: dict[str, Born] = {}
    for born in located.born:
        known = worst.get(born.operator.name)
        if known is None or _weight(born) > _weight(known):
            worst[born.operator.name] = born
    if not worst:
        return ()
    shares = _shares(network, located, worst)
    ranked = [
        Ranked(born, shares.get(name), _path(network, name), not any(state.is_bad for state in born.states))
        for name, born in worst.items()
    ]
    order = {name: number for number, name in enumerate(network.operators)}
    return tuple(sorted(ranked, key=lambda found: (not found.is_sure, *_key(found, order))))


def _key(found: Ranked, order: dict[str, int]) -> tuple[float, int]:
    """Shares of about the same size go by the order of execution."""
    share = found.share or 0.0
    return -round(share, 1), order.get(found.born.operator.name, 0)


def _weight(born: Born) -> tuple[bool, float]:
    return born.size.special, born.size.error


def _shares(network: Network, located: Located, worst: dict[str, Born]) -> dict[str, float]:
    """How much of the error of the results goes back to each of the operators, by following it upwards."""
    ends = [name for name in network.ends if _is_bad(network, located, name)]
    if not ends:
        return {}
    weights: dict[str, float] = dict.fromkeys(ends, 1 / len(ends))
    shares: dict[str, float] = {}
    for name in reversed(network.operators):
        weight = weights.pop(name, 0.0)
        if not weight:
            continue
        passed = 0.0
        is_sure = name in worst and not any(state.is_bad for state in worst[name].states)
        for producer, part in _parts(*located.passed.get(name, ((), 0.0))):
            weights[producer] = weights.get(producer, 0.0) + weight * part
            passed += part
        if name in worst:
            own = weight * max(1 - passed, 0.0)
            shares[name] = own if is_sure else own * _DOUBTFUL
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else {}


def _parts(states: Sequence[State], own: float) -> list[tuple[str, float]]:
    """Which operator before another has which part of its error, of which `own` was born in it."""
    weights = [(1e6 if state.special else state.error * (state.rms or 1.0)) ** 2 for state in states]
    total = sum(weights)
    if not total:
        return []
    parts = zip(states, weights, strict=True)
    return [(state.source, (1 - own) * weight / total) for state, weight in parts if state.source]


def _is_bad(network: Network, located: Located, name: str) -> bool:
    operator = network.operators.get(name)
    return operator is not None and any(
        located.verdicts[number].level.is_bad for number in (*operator.outputs.values(), *operator.rows)
    )


def _path(network: Network, start: str) -> tuple[str, ...]:
    """The shortest way from an operator to a result."""
    ends = set(network.ends)
    before: dict[str, str] = {start: ""}
    queue: list[str] = [start]
    for name in queue:
        if name in ends:
            return _walk(before, name)
        for reader in network.readers.get(name, ()):
            if reader not in before:
                before[reader] = name
                queue.append(reader)
    return (start,)


def _walk(before: dict[str, str], end: str) -> tuple[str, ...]:
    path: list[str] = []
    name = end
    while name and len(path) < _LONGEST_PATH:
        path.append(name)
        name = before[name]
    return tuple(reversed(path))


def first_in_order(ranked: Sequence[Ranked], network: Network) -> str:
    """The operator that comes first in the order of execution."""
    order = {name: number for number, name in enumerate(network.operators)}
    names = [found.born.operator.name for found in ranked]
    return min(names, key=lambda name: order.get(name, 0))
