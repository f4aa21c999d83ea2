"""Patterns of errors: each wrong computation is recognized by its elements, and random errors by none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.measure.error_patterns import find_error_patterns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.error_facts import ErrorPattern

_RANDOM = np.random.default_rng(7)
_IMAGE = _RANDOM.normal(0.2, 1, (1, 8, 10, 12))
_OTHER = _RANDOM.normal(0, 1, _IMAGE.shape)
_ROWS = _RANDOM.normal(0, 2, (1, 16, 16))
_BIAS = np.linspace(-0.4, 0.5, 8).reshape(1, -1, 1, 1)


def _relu(x: AnyArray) -> AnyArray:
    return np.maximum(x, 0)


def _softmax(x: AnyArray, axis: int) -> AnyArray:
    powers: AnyArray = np.exp(x - x.max(axis=axis, keepdims=True))
    total: AnyArray = powers.sum(axis=axis, keepdims=True)
    return powers / total


def _swap(x: AnyArray) -> AnyArray:
    return x[:, [0, 1, 5, 3, 4, 2, 6, 7]]


def _break_border(x: AnyArray) -> AnyArray:
    result = x.copy()
    result[:, :, 0] += 0.5
    result[:, :, :, -1] -= 0.5
    return result


def _break_channels(x: AnyArray) -> AnyArray:
    result = x.copy()
    result[:, [1, 6]] *= -0.5
    return result


CASES: dict[str, tuple[AnyArray, AnyArray, Sequence[AnyArray], str, str]] = {
    "sign": (-_IMAGE, _IMAGE, (), "operand", "measure.sign_reversed"),
    "difference": (_OTHER - _IMAGE, _IMAGE - _OTHER, (_IMAGE, _OTHER), "operand", "measure.sign_reversed"),
    "quotient": (_OTHER / _IMAGE, _IMAGE / _OTHER, (_IMAGE, _OTHER), "operand", "measure.exchanged"),
    "product": (
        _ROWS @ _ROWS.swapaxes(1, 2),
        _ROWS.swapaxes(1, 2) @ _ROWS,
        (_ROWS.swapaxes(1, 2), _ROWS),
        "operand",
        "measure.exchanged",
    ),
    "dropped": (_relu(_IMAGE), _relu(_IMAGE + _OTHER), (_IMAGE, _OTHER), "operand", "measure.not_applied"),
    "concatenated": (
        np.concatenate([_OTHER, _IMAGE], 1),
        np.concatenate([_IMAGE, _OTHER], 1),
        (_IMAGE, _OTHER),
        "operand",
        "measure.concatenated",
    ),
    "softmax axis": (_softmax(_ROWS, 1), _softmax(_ROWS, 2), (_ROWS,), "axis", "measure.other_axis"),
    "no activation": (_IMAGE, _relu(_IMAGE), (), "activation", "measure.activation_missing"),
    "extra activation": (np.tanh(_IMAGE), _IMAGE, (), "activation", "measure.activation_extra"),
    "bias": (_IMAGE + _BIAS, _IMAGE, (), "bias", "measure.slice_offsets"),
    "bias before activation": (_relu(_IMAGE + _BIAS), _relu(_IMAGE), (), "bias", "measure.slice_offsets"),
    "factors": (_IMAGE * (1 + _BIAS), _IMAGE, (), "scale", "measure.slice_factors"),
    "exchanged channels": (_swap(_IMAGE), _IMAGE, (), "permuted", "measure.slices_exchanged"),
    "two channels": (_break_channels(_IMAGE), _IMAGE, (), "channel", "measure.slices_wrong"),
    "border": (_break_border(_IMAGE), _IMAGE, (), "padding", "measure.border"),
    "function": (np.exp(_IMAGE) + 0.05 * np.sin(9 * _IMAGE), np.exp(_IMAGE), (_IMAGE,), "function", "measure.by_value"),
}


def _best(patterns: Sequence[ErrorPattern]) -> ErrorPattern:
    return min(patterns, key=lambda pattern: pattern.rest)


@pytest.mark.parametrize("name", CASES)
def test_pattern_is_found(name: str) -> None:
    target, golden, inputs, kind, code = CASES[name]
    error = float(np.linalg.norm(target - golden) / np.linalg.norm(golden))
    best = _best(find_error_patterns(target, golden, inputs))
    assert (best.kind, best.reason.code) == (kind, code)
    assert best.rest < 0.4 * error


@pytest.mark.parametrize("noise", [1e-3, 0.1, 1.0])
def test_random_errors_have_no_pattern(noise: float) -> None:
    random = np.random.default_rng(3)
    target = _IMAGE + random.normal(0, noise, _IMAGE.shape)
    assert find_error_patterns(target, _IMAGE, (_IMAGE,)) == ()


@pytest.mark.parametrize("change", [np.zeros_like, lambda x: x * np.nan, lambda x: x * 1e200])
def test_extreme_values_have_no_pattern(change: Callable[[AnyArray], AnyArray]) -> None:
    assert find_error_patterns(_IMAGE, change(_IMAGE), (_IMAGE, _OTHER)) == ()
