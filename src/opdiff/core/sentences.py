"""Sentences in Chinese, by the table that the page of the report has, too: `sentences.json`.

The table has English sentences with `{}` where values stand, and what they are in Chinese: `{0}` is the first value.
A value may be a sentence itself; `{0:w}` is one of the words of the table. What is said in one line is split at `; `.
A text that is not in the table stays as it is. `web/src/sentences.ts` does the same.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from typing import NamedTuple

TABLE = os.path.join(os.path.dirname(__file__), "sentences.json")
_GAP = "{}"


class Sentence(NamedTuple):
    """What stands around the values of an English sentence, and the Chinese one."""

    parts: tuple[str, ...]
    chinese: str

    def values(self, text: str) -> tuple[str, ...] | None:
        """The values in a text; `None` when it is another sentence."""
        first, last = self.parts[0], self.parts[-1]
        if len(self.parts) == 1:
            return () if text == first else None
        if not text.startswith(first) or not text.endswith(last):
            return None
        found, at, end = [], len(first), len(text) - len(last)
        for part in self.parts[1:-1]:
            place = text.find(part, at, end)
            if place < 0:
                return None
            found.append(text[at:place])
            at = place + len(part)
        return (*found, text[at:end]) if at <= end else None


class _Table(NamedTuple):
    words: dict[str, str]
    sentences: tuple[Sentence, ...]


@lru_cache(maxsize=1)
def _table() -> _Table:
    with open(TABLE, encoding="utf-8") as file:
        content = json.load(file)
    made = [Sentence(tuple(english.split(_GAP)), chinese) for english, chinese in content["sentences"].items()]
    # What says most of itself is the surest.
    made.sort(key=lambda sentence: -sum(map(len, sentence.parts)))
    return _Table(content["words"], tuple(made))


def in_chinese(text: str) -> str:
    """A text of a report in Chinese, as far as the table has it."""
    parts = text.split("; ")
    return "；".join([_sentence(part) or _behind_a_name(part) for part in parts])


def _sentence(text: str) -> str:
    """One sentence; empty when it is not known."""
    for sentence in _table().sentences:
        values = sentence.values(text)
        if values is not None:
            return _filled(sentence.chinese, values)
    return ""


def _filled(chinese: str, values: tuple[str, ...]) -> str:
    return re.sub(r"\{(\d+)(:w)?\}", lambda gap: _value(values[int(gap[1])], is_word=bool(gap[2])), chinese)


def _value(text: str, *, is_word: bool) -> str:
    return _table().words.get(text, text) if is_word else in_chinese(text)


def _behind_a_name(text: str) -> str:
    """A file or a tensor, and what is said of it."""
    name, colon, rest = text.partition(": ")
    told = _sentence(rest) if colon else ""
    return f"{name}：{told}" if told else text
