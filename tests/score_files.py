"""Outputs of classification models for tests: scores with known best classes, as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opdiff.core.codes import AnyArray


def scores(best: Sequence[int] | AnyArray, classes: int = 10, seed: int = 0) -> AnyArray:
    """Return scores in which these classes are the best ones; float16 represents all of them exactly."""
    made = np.random.default_rng(seed).integers(0, 64, (len(best), classes)) / 64
    made[np.arange(len(best)), list(best)] = 2
    return made.astype(np.float32)


def save(path: Path, array: AnyArray) -> Path:
    """Write a `.npy` file, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array)
    return path
