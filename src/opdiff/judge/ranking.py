"""Ranking of operators that created errors by their share of the error of the network outputs."""

from __future__ import annotations

import sys
from math import log2
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.judgement import Level
from opdiff.judge.error_model import Propagation
from opdiff.judge.locate import OperatorErrors
from opdiff.judge.tensor_errors import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.judge.locate import Located
    from opdiff.judge.network import Network
    from opdiff.judge.tensor_verdicts import CreatedError

_MAX_PATH_LENGTH = 200
# Weight of an error of an operator with bad inputs: the operator may amplify them more than its type suggests.
_UNCERTAIN_WEIGHT = 0.5
# Weight of an input with NaN or infinity.
_SPECIAL_WEIGHT = 1e6
_NO_ERRORS = OperatorErrors()
_MAX_EXCESS = 1e6
# A reader refutes an error if the error is this many times as large as the error of the reader.
_REFUTED_RATIO = 10.0


class Ranked(Struct, frozen=True):
    """An operator that created an error.

    Attributes:
        created: the worst error that the operator created.
        share: share of the error of the network outputs that comes from the operator; `None` if they have no error.
        path: operators from the operator to a network output.
        is_certain: its inputs are good.
    """

    created: CreatedError
    share: float | None
    path: tuple[str, ...]
    is_certain: bool


def rank(network: Network, located: Located, faulty_readers: frozenset[str] = frozenset()) -> tuple[Ranked, ...]:
    """Return the worst error of each operator that created an error, the largest share first.

    Operators in `faulty_readers` refute no errors of what they read.
    """
    worst: dict[str, CreatedError] = {}
    for error in located.created:
        known = worst.get(error.operator.name)
        if known is None or _severity(error) > _severity(known):
            worst[error.operator.name] = error
    if not worst:
        return ()
    worst = {
        name: replace(error, refuted_by=_refuting_reader(error, network, located, faulty_readers))
        for name, error in worst.items()
    }
    shares = _shares(network, located, worst)
    ranked = [
        Ranked(error, shares.get(name), _path(network, name), _is_certain(error)) for name, error in worst.items()
    ]
    order = {name: position for position, name in enumerate(network.operators)}
    return tuple(sorted(ranked, key=lambda found: _key(found, order)))


def _refuting_reader(error: CreatedError, network: Network, located: Located, faulty_readers: frozenset[str]) -> str:
    """Return an operator that reads the tensor and whose output is too good for this error; empty for none.

    Linear operators keep relative errors, and sums keep absolute errors. Other operators may hide errors.
    """
    if error.is_input:
        return ""
    for name in network.readers.get(error.operator.name, ()):
        reader, magnitude = network.operators[name], located.operators.get(name, _NO_ERRORS).magnitude
        if name in faulty_readers or magnitude is None or magnitude.has_special_mismatch:
            continue
        if reader.error_model.propagation in (Propagation.LINEAR, Propagation.NORMALIZE):
            errors = error.magnitude.error, magnitude.error
        elif reader.error_model.propagation is Propagation.ADD:
            errors = error.magnitude.rms_error, magnitude.rms_error
        else:
            continue
        if errors[0] > _REFUTED_RATIO * errors[1]:
            return name
    return ""


def _key(found: Ranked, order: dict[str, int]) -> tuple[float, ...]:
    """Sort key: errors that no reader refutes first, then certain errors, then large shares.

    Errors without shares are sorted by how far they are above their budgets. Similar shares and similar excesses are
    sorted by the order of execution.
    """
    error = found.created
    excess = ratio(error.magnitude.error, error.budget.allowed)
    strength = 0.0 if found.share is not None else -round(log2(min(max(excess, 1.0), _MAX_EXCESS)) / 2)
    return (
        bool(error.refuted_by),
        not found.is_certain,
        -round(found.share or 0.0, 1),
        strength,
        order.get(error.operator.name, 0),
    )


def _severity(error: CreatedError) -> tuple[bool, float]:
    return error.magnitude.has_special_mismatch, error.magnitude.error


def _is_certain(error: CreatedError) -> bool:
    return not any(state.exceeds_noise for state in error.inputs)


def _shares(network: Network, located: Located, worst: dict[str, CreatedError]) -> dict[str, float]:
    """Return the share of the output error that each operator created, traced back from the outputs."""
    outputs = [name for name in network.outputs if _is_bad(network, located, name)]
    if not outputs:
        return {}
    weights: dict[str, float] = dict.fromkeys(outputs, 1 / len(outputs))
    shares: dict[str, float] = {}
    for name in reversed(network.operators):
        weight = weights.pop(name, 0.0)
        if not weight:
            continue
        inherited = 0.0
        for producer, part in _inherited_parts(located.operators.get(name, _NO_ERRORS)):
            weights[producer] = weights.get(producer, 0.0) + weight * part
            inherited += part
        if name in worst:
            own = weight * max(1 - inherited, 0.0)
            shares[name] = own if _is_certain(worst[name]) else own * _UNCERTAIN_WEIGHT
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else {}


def _inherited_parts(operator: OperatorErrors) -> list[tuple[str, float]]:
    """Return the producers of an operator, each with the part of the error that the producer contributes."""
    errors = [
        _SPECIAL_WEIGHT if state.has_special_mismatch else min(state.error * (state.rms or 1.0), sys.float_info.max)
        for state in operator.inputs
    ]
    largest = max(errors, default=0.0)
    if not largest:
        return []
    # Scaled first: squares of very large errors are no float64.
    weights = [(error / largest) ** 2 for error in errors]
    total = sum(weights)
    parts = zip(operator.inputs, weights, strict=True)
    inherited = 1 - operator.own_share
    return [(state.source, inherited * weight / total) for state, weight in parts if state.source]


def _is_bad(network: Network, located: Located, name: str) -> bool:
    """Return whether an operator has a bad tensor, or, if it was not compared, reads a bad tensor that was compared."""
    operator = network.operators.get(name)
    if operator is None:
        return False
    levels = [located.verdicts[row_index].level for row_index in operator.rows]
    if any(level is not Level.NOT_COMPARABLE for level in levels):
        return any(level.is_bad for level in levels)
    return any(state.exceeds_noise and not state.uncompared for state in located.operators.get(name, _NO_ERRORS).inputs)


def _path(network: Network, start: str) -> tuple[str, ...]:
    """Return the shortest path from an operator to a network output."""
    outputs = set(network.outputs)
    before: dict[str, str] = {start: ""}
    queue: list[str] = [start]
    for name in queue:
        if name in outputs:
            return _backtrack(before, name)
        for reader in network.readers.get(name, ()):
            if reader not in before:
                before[reader] = name
                queue.append(reader)
    return (start,)


def _backtrack(before: dict[str, str], end: str) -> tuple[str, ...]:
    path: list[str] = []
    name = end
    while name and len(path) < _MAX_PATH_LENGTH:
        path.append(name)
        name = before[name]
    return tuple(reversed(path))


def first_in_order(ranked: Sequence[Ranked], network: Network) -> str:
    """Return the operator that is executed first; empty for none."""
    names = {found.created.operator.name for found in ranked}
    return next((name for name in network.operators if name in names), "") if names else ""
