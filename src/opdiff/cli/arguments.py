"""Arguments that several commands take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError

if TYPE_CHECKING:
    import argparse

    from opdiff.workflows.compare.inputs import CompareOptions


def describe(name: str, command: argparse.ArgumentParser) -> None:
    """Give a command its description and its options."""
    # `importlib` would have to be imported first.
    module = __import__(f"opdiff.cli.cmd_{name.replace('-', '_')}", fromlist=["run"])
    command.description, command.epilog = module.DESCRIPTION, module.EPILOG
    module.add_arguments(command)
    command.add_argument("-q", "--quiet", action="count", default=0, help="say less on standard error")
    command.add_argument("-v", "--verbose", action="count", default=0, help="say more on standard error")
    command.set_defaults(run=module.run)


def unfit(problem: str) -> argparse.ArgumentTypeError:
    """The error of an argument that is not what it should be."""
    from argparse import ArgumentTypeError

    return ArgumentTypeError(problem)


def jobs_argument(text: str) -> int:
    """How many workers to use."""
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise unfit(f"{text!r} is not a number of workers from 1 to 1024")
    return int(text)


def add_judging(parser: argparse.ArgumentParser) -> None:
    """What commands that judge a comparison have in common."""
    parser.add_argument(
        "--limits", metavar="FILE", default="", help="limits of your own (TOML); default: opdiff.toml, if it is here"
    )
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the advice; default: en")
    parser.add_argument("--remedies", metavar="DIR", default="", help="write files that help: fusion switch, lists")


def add_sides(parser: argparse.ArgumentParser) -> None:
    """The two runs."""
    parser.add_argument("target", metavar="TARGET", help="directory of the run that is judged")
    parser.add_argument("golden", metavar="GOLDEN", help="directory of the run that it must equal")


def add_rules(parser: argparse.ArgumentParser) -> None:
    """The rule files, under their documented names."""
    parser.add_argument(
        "-fr", "--fusion_rule_file", "--rules", metavar="FILE", default="", help="rules of the model with fusion on"
    )
    parser.add_argument(
        "-cfr", "--close_fusion_rule_file", metavar="FILE", default="", help="rules of the model with fusion off"
    )
    parser.add_argument(
        "-qfr", "--quant_fusion_rule_file", metavar="FILE", default="", help="rules that quantization wrote"
    )


def two_sides(args: argparse.Namespace) -> CompareOptions:
    """The comparison that the arguments of `add_sides` and `add_rules` name.

    Raises:
        InputError: a side is not there.
    """
    from opdiff.workflows.compare.inputs import CompareOptions

    require_paths(args.target, args.golden)
    return CompareOptions(
        target=args.target,
        golden=args.golden,
        fusion_rules=args.fusion_rule_file,
        close_rules=args.close_fusion_rule_file,
        quant_rules=args.quant_fusion_rule_file,
    )


def require_paths(*paths: str) -> None:
    """Say so early when something is not there.

    Raises:
        InputError: the first path that is not.
    """
    for path in paths:
        if not os.path.exists(path):
            raise InputError(path, "no such file or directory")


def add_element_wishes(parser: argparse.ArgumentParser) -> None:
    """What is wanted of a look at single elements, by documented names."""
    parser.add_argument("-n", "--topn", type=_topn, metavar="N", help="worst elements to list; default: 20")
    parser.add_argument("-ml", "--max_line", type=_max_line, metavar="N", help="rows of a table; default: 1000000")
    parser.add_argument(
        "--ignore_single_op_result", "--no-tables", action="store_true", help="write no tables of all elements"
    )


def _topn(text: str) -> int:
    return _number(text, 1, 10000)


def _max_line(text: str) -> int:
    return _number(text, 10000, 1000000)


def _number(text: str, low: int, high: int) -> int:
    if not text.isdecimal() or not low <= int(text) <= high:
        raise unfit(f"{text!r} is not a number from {low} to {high}")
    return int(text)
