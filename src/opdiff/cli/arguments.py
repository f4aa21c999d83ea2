"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse


def jobs_argument(text: str) -> int:
    """How many workers to use."""
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers from 1 to 1024")
    return int(text)
