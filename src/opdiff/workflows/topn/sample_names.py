"""Names of samples, as writers of outputs and labels vary them."""

from __future__ import annotations

import os
import re

# Number of an output, and a timestamp, at the end of the names of output files: `img_7_0`, `img_7.0`, `img.0.167…`.
_OUTPUT_NUMBER = re.compile(r"(.+?)(?:_|\.)[0-9]{1,2}(?:\.[0-9]{10,20})?")
# Files that samples are made from.
_INPUT_SUFFIX = re.compile(r"\.(?:jpe?g|png|bmp|gif|tiff?|webp|wav|bin|npy|txt)$", re.IGNORECASE)


def without_output_number(name: str) -> str:
    """Return a name without the number of an output at its end."""
    match = _OUTPUT_NUMBER.fullmatch(name)
    return match[1] if match else name


def input_name(name: str) -> str:
    """Return the name of an input file without folders and suffix: `val/img_7.JPEG` is `img_7`."""
    return _INPUT_SUFFIX.sub("", os.path.basename(name))
