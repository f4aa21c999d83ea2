"""How a model was compiled, from the attributes of its file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opdiff.core.graph import ModelOrigin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.read.rules.model import Attribute, Model

# Options whose values are names in the model, in which a slash does not separate directories.
_NAME_OPTIONS = frozenset({
    "--input_shape", "--input_shape_range", "--input_hint_shape", "--input_format", "--out_nodes", "--output_type",
    "--input_fp16_nodes", "--is_input_adjust_hw_layout", "--is_output_adjust_hw_layout", "--dynamic_dims",
    "--dynamic_image_size", "--dynamic_batch_size",
})  # fmt: skip
_DIRECTORIES = re.compile(r"[^=,;:]*[/\\]")


def find_origin(model: Model) -> ModelOrigin:
    """Return how a model was compiled, as far as its attributes say."""
    attributes = model.attributes
    return ModelOrigin(
        model.name,
        split_command_line(_string(attributes, "atc_cmdline")),
        _string(attributes, "framework_type"),
        _string(attributes, "atc_version"),
        _string(attributes, "opp_version"),
        _string(attributes, "soc_version"),
        model.header.platform if model.header is not None else "",
    )


def split_command_line(text: str) -> tuple[str, ...]:
    """Return the arguments of a command line; of paths, which are those of another machine, only the last part."""
    if not text:
        return ()
    import shlex

    try:
        arguments = shlex.split(text)
    except ValueError:
        arguments = text.split()
    found: list[str] = []
    for argument in arguments:
        earlier = found[-1] if found else ""
        option = argument.partition("=")[0] if argument.startswith("-") else earlier
        found.append(argument if option in _NAME_OPTIONS else _DIRECTORIES.sub("", argument))
    return tuple(found)


def _string(attributes: Mapping[str, Attribute], name: str) -> str:
    value = attributes.get(name)
    return value if isinstance(value, str) else ""
