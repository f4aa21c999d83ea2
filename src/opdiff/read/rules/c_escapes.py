r"""Texts with C escapes, as protobuf prints them: `\346\225\260`."""

from __future__ import annotations

import re
from functools import cache

_ESCAPE = rb"(?s)\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))"
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_SPECIAL = {b"\n": "\\n", b"\t": "\\t", b"\r": "\\r", b'"': '\\"', b"'": "\\'", b"\\": "\\\\"}


def unescape(text: str, errors: str = "replace") -> str:
    """Return a text without escapes; `errors` is what becomes of bytes that are not UTF-8."""
    if "\\" not in text:
        return text
    return re.sub(_ESCAPE, _unescaped, text.encode(errors="surrogatepass")).decode(errors=errors)


def escape(content: bytes) -> str:
    """Return bytes as a string of printable ASCII; the inverse of `unescape`."""
    return "".join(map(_escaped, content))


@cache
def _escaped(byte: int) -> str:
    return _SPECIAL.get(bytes((byte,)), chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}")


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    return _LETTERS.get(letter, letter)
