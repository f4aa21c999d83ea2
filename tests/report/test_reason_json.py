"""Reasons as JSON: what is written is read again, older files have sentences."""

from __future__ import annotations

import json
from math import inf, nan

import pytest

from opdiff.core.reasons import Reason, because, quoted
from opdiff.report.reason_json import reason_from_json, reason_to_json


@pytest.mark.parametrize(
    "reason",
    [
        because("judge.all_equal"),
        because("judge.scaled", scale=inf),
        because("judge.new_special_values", infinities=1, nans=0, first=None),
        because("judge.fused_from", originals=("a", "b")),
        because("judge.advice", remedy=because("judge.remedy_scale")),
        quoted("from a plug-in"),
        Reason("later.code", (("count", 3),)),
    ],
    ids=str,
)
def test_reasons_are_read_as_they_were_written(reason: Reason) -> None:
    written = reason_to_json(reason)
    assert reason_from_json(json.loads(json.dumps(written, allow_nan=False))) == reason
    assert written["text"] == str(reason)


def test_nan_is_a_word() -> None:
    assert reason_to_json(because("judge.scaled", scale=nan))["facts"] == {"scale": "nan"}


def test_sentences_of_older_files_are_quoted() -> None:
    assert reason_from_json("cosine below 0.99") == quoted("cosine below 0.99")


@pytest.mark.parametrize("value", [None, 3, [], {}, {"code": "judge.scaled"}, {"code": "a.b", "facts": []}])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        reason_from_json(value)
