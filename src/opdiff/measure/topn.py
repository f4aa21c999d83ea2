"""Best classes of classification scores, sample by sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Scores = npt.NDArray[np.float64]
    Classes = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

NO_CLASS = -1
"""Best class of a sample whose scores contain NaN."""


class BestClasses(NamedTuple):
    """The k best classes of each sample, best first.

    Attributes:
        classes: samples by k; `NO_CLASS` for samples with NaN.
        scores: their scores; NaN for samples with NaN.
        has_nan: whether a score of the sample is NaN, so that its classes have no order.
    """

    classes: Classes
    scores: Scores
    has_nan: Flags


def best_classes(scores: Scores, k: int) -> BestClasses:
    """Return the k best classes of each row; of equal scores the class with the lower number is better.

    Args:
        scores: samples by classes.
        k: at most the number of classes.
    """
    has_nan: Flags = np.asarray(np.isnan(scores).any(axis=1))
    chosen = _choose(np.where(has_nan[:, None], 0.0, scores), k)
    values = np.take_along_axis(scores, chosen, axis=1)
    # Stable, so that equal scores stay in the order of their classes.
    order = np.argsort(-values, axis=1, kind="stable")
    classes, values = np.take_along_axis(chosen, order, axis=1), np.take_along_axis(values, order, axis=1)
    classes[has_nan], values[has_nan] = NO_CLASS, np.nan
    return BestClasses(classes, values, has_nan)


def _choose(scores: Scores, k: int) -> Classes:
    """Return the k best classes of each row in ascending order."""
    count = scores.shape[1]
    lowest = np.partition(scores, count - k, axis=1)[:, count - k, None]
    above, equal = scores > lowest, scores == lowest
    missing = k - above.sum(axis=1, keepdims=True)
    chosen = above | (equal & (np.cumsum(equal, axis=1) <= missing))
    return np.nonzero(chosen)[1].reshape(len(scores), k)


def scores_of(scores: Scores, classes: Classes) -> Scores:
    """Return the score of one class for each sample; NaN for `NO_CLASS`."""
    found: Scores = np.take_along_axis(scores, np.maximum(classes, 0)[:, None], axis=1)[:, 0]
    return np.where(classes == NO_CLASS, np.nan, found)


def are_among(classes: Classes, best: Classes) -> Flags:
    """Return for each sample whether a class is among the best ones; `NO_CLASS` never is."""
    found: Flags = (best == classes[:, None]).any(axis=1) & (classes != NO_CLASS)
    return found
