"""Texts as a page may show them."""

from __future__ import annotations

# Controls, joiners, marks of direction: what ASCII does not have of them.
_HIDDEN = {
    code: chr(code).encode("unicode_escape").decode()
    for first, last in (
        (0x80, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
        (0xFEFF, 0xFEFF),
    )
    for code in range(first, last + 1)
}  # fmt: skip


def printable(text: str) -> str:
    """A text as the page shows it.

    Names of files need not be text, and may hold marks that turn the letters around or are not seen: those become
    escapes, so that one name cannot look like another.
    """
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode().translate(_HIDDEN)
