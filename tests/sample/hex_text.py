"""The worked examples of the format page, as bytes."""

from __future__ import annotations

import re


def parse_hex(listing: str) -> bytes:
    """Return the bytes of a hex listing; each line has an offset, bytes, and a comment after two spaces."""
    found = bytearray()
    for line in filter(str.strip, listing.splitlines()):
        match = re.match(r"\s*([0-9a-f]{4})\s+((?:[0-9a-f]{2} ?)+)(?:\s{2,}.*)?$", line)
        assert match, f"not a line of a hex listing: {line!r}"
        assert int(match[1], 16) == len(found), f"the offset is {len(found):04x}: {line!r}"
        found += bytes.fromhex(match[2])
    return bytes(found)
