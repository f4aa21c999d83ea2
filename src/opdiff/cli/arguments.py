"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse


def jobs_argument(text: str) -> int:
    """How many workers to use."""
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers from 1 to 1024")
    return int(text)


def add_judging(parser: argparse.ArgumentParser) -> None:
    """What commands that judge a comparison have in common."""
    parser.add_argument(
        "--limits", metavar="FILE", default="", help="limits of your own (TOML); default: opdiff.toml, if it is here"
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the advice; default: en")
    parser.add_argument("--remedies", metavar="DIR", default="", help="write files that help: fusion switch, lists")
