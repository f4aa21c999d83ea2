"""Noise of a whole run: if many operators differ a little more than expected, the run is noisy and not faulty."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Operators from which the noise of a run is estimated, at least.
_MIN_OPERATORS_FOR_NOISE = 8
# If at least this share of the operators adds more than rounding, the run is noisy (other implementations), not faulty:
# one fault makes few such operators.
_MIN_NOISY_SHARE = 1 / 3
# Margin above the median noise of a run, and the largest noise of a run that is accepted.
_NOISE_MARGIN = 2.5
MAX_RUN_NOISE = 4.0


def noise_of_run(added: Sequence[float]) -> float:
    """Return the noise that operators of a run may add, by the noise that each adds, in units of the expected noise."""
    if len(added) < _MIN_OPERATORS_FOR_NOISE:
        return 1.0
    noisy = [noise for noise in added if noise > 1.0]
    # Operators that only move data add nothing, and behind large errors the noise of an operator does not show.
    is_most = len(noisy) >= max(_MIN_OPERATORS_FOR_NOISE, _MIN_NOISY_SHARE * len(added))
    ordered = sorted(noisy if is_most else added)
    return _NOISE_MARGIN * ordered[len(ordered) // 2]
