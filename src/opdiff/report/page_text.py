"""Escapes of characters that the HTML page must not show."""

from __future__ import annotations

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
