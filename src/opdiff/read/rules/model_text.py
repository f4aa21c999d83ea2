"""Graph texts of the graph engine (`ge_proto_*.txt`) and of TorchAir as messages. See docs/formats/graph-text.md.

The outermost message is the model in texts of the graph engine, and the graph in those of TorchAir.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.read.rules.message_writer import FieldError, encode
from opdiff.read.rules.protobuf_text import Block, iter_top, read_text

if TYPE_CHECKING:
    from opdiff.core.reasons import Reason
    from opdiff.read.rules.message_writer import Tree


def read_model_text(path: str) -> bytes:
    """Return the message of the model that a graph text describes.

    Raises:
        InputError: the file cannot be read, is cut off, or is not such a text.
    """
    tree = read_text_tree(path)
    try:
        return encode("ModelDef", {"graph": [tree]} if "op" in tree else tree)
    except FieldError as error:
        raise InputError(path, because("rules.not_graph_text", error=str(error))) from error


def read_text_tree(path: str) -> Tree:
    """Return the fields of the outermost message of a text.

    Raises:
        InputError: the file cannot be read, or is damaged.
    """
    problems: dict[Reason, None] = {}
    tree: dict[str, list[object]] = {}
    for name, value in iter_top(read_text(path), problems):
        tree.setdefault(name, []).append(_tree(value) if isinstance(value, Block) else value)
    if problems:
        raise InputError(path, because("rules.damaged_graph_text", problem=next(iter(problems))))
    return tree


def _tree(block: Block) -> Tree:
    blocks = {name: [_tree(inner) for inner in inners] for name, inners in block.blocks.items()}
    return {**block.texts, **blocks}
