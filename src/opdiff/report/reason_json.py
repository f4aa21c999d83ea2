"""Reasons as JSON: code and facts for programs, the English sentence for people.

    {"code": "judge.scaled", "facts": {"scale": 1.05}, "text": "the target is 1.05 times the golden tensor"}

Older files have the sentence alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from opdiff.core.reasons import Reason, quoted, render

if TYPE_CHECKING:
    from opdiff.core.reasons import Fact

# JSON has neither NaN nor infinity.
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def reason_to_json(reason: Reason) -> dict[str, object]:
    """Return the JSON object of a reason."""
    return _without_text(reason) | {"text": render(reason)}


def _without_text(reason: Reason) -> dict[str, object]:
    return {"code": reason.code, "facts": {name: _fact_to_json(fact) for name, fact in reason.facts}}


def _fact_to_json(fact: Fact) -> object:
    if isinstance(fact, Reason):
        return _without_text(fact)
    if isinstance(fact, tuple):
        return [_fact_to_json(item) for item in fact]
    return str(float(fact)) if isinstance(fact, float) and not math.isfinite(fact) else fact


def reason_from_json(value: object) -> Reason:
    """Return the reason in a JSON object, or a sentence of an older file.

    Raises:
        TypeError: the value is neither.
    """
    if isinstance(value, str):
        return quoted(value)
    if not isinstance(value, dict) or not isinstance(value.get("facts"), dict):
        raise TypeError
    return Reason(str(value["code"]), tuple((name, _fact_from_json(fact)) for name, fact in value["facts"].items()))


def _fact_from_json(value: object) -> Fact:
    if isinstance(value, dict):
        return reason_from_json(value)
    if isinstance(value, list):
        return tuple(_fact_from_json(item) for item in value)
    if isinstance(value, str):
        return _NOT_FINITE.get(value, value)
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError
