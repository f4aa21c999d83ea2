"""What pairing does not read in a rule file, taken out before the JSON is parsed.

An operator has dozens of attributes, of which a few are looked at, and most of the time went into the others. What is
taken out are attributes of the usual form, each with the comma before it:

    , {"key": "_kernel_id", "value": {"i": 7}}

Each has another attribute behind it, which stays or is taken out in the same way, so that at the end one stays. In
valid JSON such a piece is an item of a list: in a text its quotes would have backslashes. And JSON that is not valid
stays so, because what follows the piece is as wrong at its place as the piece was.
"""

from __future__ import annotations

import re

# The attributes that are looked at.
READ = frozenset(
    {
        "_datadump_original_op_names",
        "_datadump_is_multiop",
        "_L1_fusion_sub_graph_no",
        "pass_name",
        "pass_name_ub",
        "_datadump_origin_name",
        "_datadump_origin_output_index",
        "_datadump_origin_format",
        "origin_format",
        "origin_shape",
    }
)
# How their names begin; what begins so is kept.
_BEGINNINGS = "_datadump_|_L1_fusion_|pass_name|origin_"
_TEXT = r"[^\"\\\x00-\x1f]*"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]+)?(?:[Ee][-+]?[0-9]+)?"
# An attribute in front of another one, as parts between which there may be white space.
_PARTS = (
    ",",
    r"\{",
    '"key"',
    ":",
    f'"(?!{_BEGINNINGS}){_TEXT}"',
    ",",
    '"value"',
    ":",
    r"\{",
    '"[a-z]*"',
    ":",
    f'(?:"{_TEXT}"|{_NUMBER}|true|false)',
    r"\}",
    r"\}",
)
_NEXT = (",", r"\{", '"key"', ":")


def without_unread(text: str) -> str | None:
    """JSON without most of the attributes that are not looked at; `None` when it has none of them.

    The white space between the parts of an attribute is that of the first one: the others look alike, and to look for
    just this is quicker than to allow any.
    """
    first = re.search("([ \t\n\r]*)".join(_PARTS), text)
    if first is None:
        return None
    between = [*map(re.escape, first.groups()), ""]
    piece = "".join(part + space for part, space in zip(_PARTS, between, strict=True))
    follows = "".join(part + space for part, space in zip(_NEXT, between, strict=False))
    return re.sub(f"{piece}(?={follows})", "", text)
