"""Texts of the HTML page: strings without invisible characters, and reasons as templates in both languages with facts.

web/src/sentences.ts decodes the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.reasons import Language, Reason, depends_on_language, is_known, render, show, template

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.reasons import Fact

    # Number of a template, and the values of its facts.
    Encoded = list[object]
    Fields = dict[tuple[str, str], int]

# Non-ASCII control characters, joiners and direction marks.
_ESCAPES = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for first, last in (
        (0x80, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
        (0xFEFF, 0xFEFF),
    )
    for code in range(first, last + 1)
}  # fmt: skip


def page_text(text: str) -> str:
    """Escape invisible characters and bytes that are not UTF-8.

    File names may contain them, also direction marks that reorder characters; escaped, no name can look like another.
    """
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode().translate(_ESCAPES)


class ReasonEncoder:
    """Encoder of reasons; `templates` has the English and the Chinese template of each code that occurred."""

    def __init__(self) -> None:
        self.templates: list[tuple[str, str]] = []
        self._known: dict[str, tuple[int, Fields]] = {}

    def encode(self, reason: Reason) -> Encoded:
        """Return the number of the template and its facts, each formatted as the template says."""
        known = self._known.get(reason.code) or self._template(reason.code)
        if known is None:
            return self.encode(Reason("core.text", (("text", render(reason)),)))
        number, fields = known
        facts = dict(reason.facts)
        return [number, *[self._value(facts.get(name), spec) for name, spec in fields]]

    def encode_all(self, reasons: Iterable[Reason]) -> list[Encoded]:
        """Return each of the reasons, once."""
        return [self.encode(reason) for reason in dict.fromkeys(reasons)]

    def _template(self, code: str) -> tuple[int, Fields] | None:
        """Add the template of a code; `None` if the catalogue does not have the code."""
        if not is_known(code):
            return None
        fields: Fields = {}
        english, chinese = (_positional(code, language, fields) for language in Language)
        self._known[code] = found = len(self.templates), fields
        self.templates.append((english, chinese))
        return found

    def _value(self, fact: Fact, spec: str) -> object:
        """Return a nested reason, several of them, a string, or one string for each language."""
        if not depends_on_language(fact, spec):
            return page_text(show(fact, spec))
        if isinstance(fact, Reason):
            return self.encode(fact)
        if isinstance(fact, tuple) and fact and isinstance(fact[0], Reason):
            return {"all": self.encode_all(item for item in fact if isinstance(item, Reason))}
        english = page_text(show(fact, spec))
        chinese = page_text(show(fact, spec, Language.CHINESE))
        return english if english == chinese else {"en": english, "zh": chinese}


def _positional(code: str, language: Language, fields: Fields) -> str:
    """Return a template with `{0}` for its first fact; each fact in each format has a position of its own."""
    pieces = []
    for literal, name, spec in template(code, language):
        pieces.append(literal)
        if name:
            position = fields.setdefault((name, spec), len(fields))
            pieces.append(f"{{{position}}}")
    return "".join(pieces)
