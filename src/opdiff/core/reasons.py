"""Reasons as values: why tensors were paired, converted, not compared, or judged as they were.

A reason is a code and the facts that belong to it. The sentences are in `catalogue/`, one JSON file for each part that
gives reasons, English and Chinese for each code; they are rendered where people read them (terminal, tables, page), and
never parsed back.

Templates name the facts: `"relative error {error:.3g}, {allowed:.3g} allowed"`. After the colon comes one of Python's
format specifications, `shape` (`[1, 16]`), `plural NOUN` (`1 element`, `3 elements`), or `word` for a fact that is one
of the words of `catalogue/word.json` (`input`, `golden`). Items of a tuple are joined by commas, reasons of a tuple by
semicolons; an empty tuple is the word `none`. A fact that is itself a reason is rendered in the same language, and
`None` is left out.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import cache, reduce
from itertools import chain
from string import Formatter
from typing import TYPE_CHECKING, Any, Union

from msgspec import Struct, json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Fact = Union[str, int, float, "Reason", tuple["Fact", ...], None]  # noqa: UP007  names itself
else:
    # msgspec reads annotations when rows are loaded, and cannot follow a type that names itself. Facts are reasons, and
    # tuples of tuples such as shapes, but not deeper.
    _Inner = Union[str, int, float, bool, "Reason", tuple[Any, ...], None]
    _Middle = Union[str, int, float, bool, "Reason", tuple[_Inner, ...], None]
    Fact = Union[str, int, float, bool, "Reason", tuple[_Middle, ...], None]

TEXT = "core.text"
"""Code of a reason that is a text from outside: a plug-in's message, or a sentence of an older saved file."""

ALL = "core.all"
"""Code of several reasons that hold together; see `all_of`."""

_CATALOGUE = os.path.join(os.path.dirname(__file__), "catalogue")


class Language(StrEnum):
    """Languages that have a sentence for every code."""

    ENGLISH = "en"
    CHINESE = "zh"


# Bits of the largest integers that Python writes in decimal: it refuses more than 4300 digits.
_MAX_INTEGER_BITS = 14_000
_SEPARATORS = {Language.ENGLISH: "; ", Language.CHINESE: "\uff1b"}


class Status(StrEnum):
    """Meaning of a reason for other stages, the most decisive first: of several reasons of a row, the first one counts.

    Attributes:
        COMPARED: nothing is in the way.
        NO_COUNTERPART: an input or a constant of the compiled model, which no golden tensor can equal.
        NOT_EXPECTED: the operator need not be one of the target, because it may have been fused into another one.
        NOT_IN_RULES: the rule file does not have the operator.
        NOT_IN_QUANT_RULES: the file of the quantization does not have it, nor parts of its name.
        UNCLEAR_NAME: its name and the file of the quantization do not tell what it computes.
        NOT_DUMPED: the target dump has no file for the operator of the fact `name`.
        NO_GOLDEN_FILE: the golden dump has no file for it.
        UNREADABLE: a file cannot be read, or is damaged. No other tensor stands in for it.
        NOT_HERE: a file or a program that this host does not have; another one may.
        KILLED: a process or a worker died, perhaps because of this job.
        INTERRUPTED: another attempt may succeed.
        NO_TENSOR: a file that holds something else than numbers.
        OTHER: any other reason why the comparison failed, or is doubtful.
    """

    COMPARED = "compared"
    NO_COUNTERPART = "no counterpart"
    NOT_EXPECTED = "not expected"
    NOT_IN_RULES = "not in rules"
    NOT_IN_QUANT_RULES = "not in quantization rules"
    UNCLEAR_NAME = "unclear name"
    NOT_DUMPED = "not dumped"
    NO_GOLDEN_FILE = "no golden file"
    UNREADABLE = "unreadable"
    NOT_HERE = "not here"
    KILLED = "killed"
    INTERRUPTED = "interrupted"
    NO_TENSOR = "no tensor"
    OTHER = "other"


class Reason(Struct, frozen=True, gc=False, omit_defaults=True):
    """A code of the catalogue and its facts, by name, and what it means to other stages; prints the English sentence.

    `OTHER` says nothing about the reasons in it; see `statuses_of`.
    """

    code: str
    facts: tuple[tuple[str, Fact], ...] = ()
    status: Status = Status.OTHER

    def __str__(self) -> str:
        return render(self)

    def fact(self, name: str) -> Fact:
        """Return the fact of this name, or `None`."""
        return next((value for key, value in self.facts if key == name), None)


MAX_NESTING = 100
"""Levels of reasons and tuples in a reason of a saved file; each takes several calls to render."""


def because(code: str, status: Status = Status.OTHER, /, **facts: Fact) -> Reason:
    """Make a reason: `because("judge.cosine", value=0.98, limit=0.99)`."""
    return Reason(code, tuple(facts.items()), status)


def quoted(text: str) -> Reason:
    """Make a reason of a text from outside that has no code."""
    return because(TEXT, text=text)


def all_of(reasons: Iterable[Reason]) -> Reason:
    """Make one reason of several that hold together; a single one stays as it is."""
    distinct = tuple(dict.fromkeys(reasons))
    return distinct[0] if len(distinct) == 1 else because(ALL, reasons=distinct)


def first_of(items: Sequence[str] | Sequence[int], limit: int = 8) -> Reason:
    """Make a reason of the first items of a list, and the number of the others."""
    more = because("core.and_more", count=len(items) - limit) if len(items) > limit else None
    return because("core.first_of_many", items=tuple(items[:limit]), more=more)


def any_of(reasons: Iterable[Reason]) -> Reason:
    """Make one reason of alternatives: `a or b or c`."""
    return reduce(lambda first, second: because("core.either", first=first, second=second), reasons)


def did_you_mean(word: str, known: Iterable[str]) -> Reason | None:
    """Make a question for the known name that is most similar to a word; `None` if none is."""
    from difflib import get_close_matches

    names = {name.lower(): name for name in known} if word else {}
    similar = [name for name in names if name.startswith(word.lower())] or get_close_matches(word.lower(), names, 1)
    return because("core.did_you_mean", name=names[similar[0]]) if similar else None


def kind_of(reason: Reason) -> tuple[str, ...]:
    """Return the codes of a reason and of the reasons in it: equal for reasons that differ in names and numbers only.

    A text from outside has no code, so that it counts as its own kind.
    """
    return tuple(
        chain.from_iterable((TEXT, str(each)) if each.code == TEXT else (each.code,) for each in reasons_in(reason))
    )


def reasons_in(fact: Fact) -> Iterator[Reason]:
    """Yield a reason and the reasons in it."""
    if isinstance(fact, Reason):
        yield fact
        for _, value in fact.facts:
            yield from reasons_in(value)
    elif isinstance(fact, tuple):
        for item in fact:
            yield from reasons_in(item)


def statuses_of(reason: Reason | None) -> set[Status]:
    """Return the statuses of a reason and of the reasons in it; none for `None`."""
    return {each.status for each in reasons_in(reason)}


def nesting(fact: Fact) -> int:
    """Return the levels of reasons and tuples in a fact."""
    if isinstance(fact, Reason):
        return 1 + max((nesting(value) for _, value in fact.facts), default=0)
    return 1 + max(map(nesting, fact), default=0) if isinstance(fact, tuple) else 0


def catalogue() -> dict[str, dict[str, str]]:
    """Read all sentences: code → language → template."""
    return {f"{part}.{code}": sentences for part in _parts() for code, sentences in _sentences(part).items()}


@cache
def _parts() -> tuple[str, ...]:
    """Return the parts that have sentences. Codes may come from files of others: no other file is opened for them."""
    names = sorted(os.path.splitext(name) for name in os.listdir(_CATALOGUE))
    return tuple(name for name, extension in names if extension == ".json")


def _sentences(part: str) -> dict[str, dict[str, str]]:
    """Return the sentences of one part; none if there is no such part."""
    return _read_sentences(part) if part in _parts() else {}


@cache
def _read_sentences(part: str) -> dict[str, dict[str, str]]:
    with open(os.path.join(_CATALOGUE, f"{part}.json"), "rb") as file:
        return json.decode(file.read(), type=dict[str, dict[str, str]])


def load_sentences(*parts: str) -> None:
    """Read the sentences of parts of the catalogue, which are otherwise read when they are needed.

    Raises:
        OSError: they cannot be read.
    """
    for part in parts:
        _sentences(part)


def is_known(code: str) -> bool:
    """Return whether the catalogue has a code."""
    part, _, name = code.partition(".")
    return name in _sentences(part)


@cache
def template(code: str, language: Language) -> tuple[tuple[str, str, str], ...]:
    """Return the pieces of a template: literal text, name of a fact, its format; no name behind the last fact.

    Raises:
        KeyError: the catalogue does not have the code.
    """
    part, _, name = code.partition(".")
    parsed = Formatter().parse(_sentences(part)[name][language])
    return tuple((literal, name or "", spec or "") for literal, name, spec, _ in parsed)


def render(reason: Reason | None, language: Language = Language.ENGLISH) -> str:
    """Return the sentence of a reason; an empty string for `None`.

    An unknown code, as newer versions save it, is shown with its facts.
    """
    if reason is None:
        return ""
    try:
        fields = template(reason.code, language)
    except KeyError:
        return f"{reason.code} ({', '.join(f'{name}: {value}' for name, value in reason.facts)})"
    facts = dict(reason.facts)
    return "".join(
        [literal + show(facts.get(name), spec, language) if name else literal for literal, name, spec in fields]
    )


def render_all(reasons: Iterable[Reason], language: Language = Language.ENGLISH) -> str:
    """Return the sentences of several reasons, each once."""
    return _SEPARATORS[language].join(dict.fromkeys(render(reason, language) for reason in reasons))


def show(fact: Fact, spec: str = "", language: Language = Language.ENGLISH) -> str:
    """Return a fact as text, formatted by the specification of its template."""
    if isinstance(fact, str) and not spec:
        return str(fact)
    if fact is None or isinstance(fact, Reason):
        return render(fact, language)
    if isinstance(fact, tuple):
        return _show_items(fact, spec, language)
    if spec == "word":
        return _word(str(fact), language)
    if spec.startswith("plural "):
        return f"{fact} {spec[7:]}{'' if fact == 1 else 's'}"
    return str(fact) if isinstance(fact, str) or spec == "shape" else _formatted(fact, spec)


def _formatted(number: float, spec: str) -> str:
    try:
        return format(number, spec)
    except (ValueError, OverflowError):
        if isinstance(number, int) and number.bit_length() > _MAX_INTEGER_BITS:
            # Python refuses to write it. The product of a hostile shape is such a number.
            return f"about 2^{number.bit_length()}"
        # Not the expected number, as an older or damaged file may have it.
        return str(number)


def depends_on_language(fact: Fact, spec: str) -> bool:
    """Return whether `show` may return different strings for the languages."""
    return spec == "word" or not isinstance(fact, (str, int, float))


def _show_items(items: tuple[Fact, ...], spec: str, language: Language) -> str:
    if spec == "shape" and not any(isinstance(item, tuple) for item in items):
        return str(list(items))
    if not items:
        return _word("none", language)
    separator = _SEPARATORS[language] if isinstance(items[0], Reason) else ", "
    return separator.join(show(item, spec, language) for item in items)


def _word(word: str, language: Language) -> str:
    code = f"word.{word}"
    return render(Reason(code), language) if is_known(code) else word
