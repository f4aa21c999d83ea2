"""Arguments that several commands take, and converters of argument values."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from opdiff.cli.language import said
from opdiff.core import filesystem
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from opdiff.core.comparison import Mode
    from opdiff.workflows.compare.options import CompareOptions

# Values of the modes by their documented names.
_MODES = {"offline_data": "offline", "torchair": "graph"}
_SIZE_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def integer(low: int, high: int, noun: str = "number") -> Callable[[str], int]:
    """Return a converter that accepts integers from `low` to `high`; `noun` is their name in the error message."""

    def convert(value: str) -> int:
        if not value.isdecimal() or not low <= int(value) <= high:
            raise ArgumentTypeError(said("cli.not_integer", text=value, noun=noun, low=low, high=high))
        return int(value)

    return convert


def byte_count(value: str) -> int:
    """Convert a number of bytes such as 512M."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)(?:i?B)?", value, re.IGNORECASE)
    if match is None:
        raise ArgumentTypeError(said("cli.not_size", text=value))
    return int(float(match[1]) * _SIZE_SUFFIXES[match[2].upper()])


def add_output(parser: argparse.ArgumentParser, *aliases: str, help: str, default: str = ".") -> None:  # noqa: A002
    """Add the directory of the results as `output`."""
    parser.add_argument("-o", "--output", *aliases, metavar="DIR", default=default, help=help)


def add_json(parser: argparse.ArgumentParser, content: str = "the result") -> None:
    """Add the file that gets the result as JSON, `-` for standard output."""
    parser.add_argument(
        "--json", type=_json_path, metavar="FILE", nargs="?", const="-", default="",
        help=f"write {content} as JSON; without FILE, or with -, to standard output",
    )  # fmt: skip


def _json_path(path: str) -> str:
    """Refuse to replace input files: `--json` in front of PATH takes it for its own file."""
    if os.path.isdir(path) or (os.path.isfile(path) and not _is_replaceable(path)):
        raise ArgumentTypeError(said("cli.json_replaces", path=path))
    return path


def _is_replaceable(path: str) -> bool:
    """Return whether a file is empty, or JSON other than a saved comparison."""
    with open(path, "rb") as file:
        head = file.read(256).lstrip()
    return head[:1] in (b"", b"{", b"[") and b"opdiff.comparison" not in head


def add_jobs(parser: argparse.ArgumentParser) -> None:
    """Add the number of workers; 0 is the default."""
    parser.add_argument(
        "-j", "--jobs", type=integer(1, 1024, "number of workers"), metavar="N", default=0,
        help="maximum number of workers; default: all cores",
    )  # fmt: skip


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the cluster that does the work; `check_cluster` checks its options."""
    parser.add_argument(
        "--cluster", metavar="ADDRESS", default="",
        help="workers of dask.distributed: tcp://HOST:PORT, tls://HOST:PORT, a scheduler file, or local:N processes",
    )  # fmt: skip
    parser.add_argument(
        "--cluster-config", metavar="FILE", default="", help="settings of dask (YAML), such as TLS certificates"
    )


def check_cluster(args: argparse.Namespace, *local_options: str) -> None:
    """Check the options of `add_cluster`; `local_options` are names of options that concern this machine only.

    Raises:
        UsageError: they contradict others.
    """
    if args.cluster_config and not args.cluster:
        raise UsageError(because("cli.cluster_config_alone"))
    for name in local_options:
        if args.cluster and getattr(args, name):
            raise UsageError(because("cli.not_with_cluster", name=name))


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add the folder of copies of remote files."""
    parser.add_argument(
        "--cache", metavar="DIR", default="", help="keep copies of remote files (sftp://, s3://, …) here for later runs"
    )


def add_judging(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that judge a comparison."""
    parser.add_argument(
        "--limits", metavar="FILE", default="", help="limits (TOML); default: opdiff.toml in this directory, if present"
    )
    parser.add_argument(
        "--remedies", metavar="DIR", default="", help="write suggested configuration files: fusion switches, op lists"
    )


def add_sides(parser: argparse.ArgumentParser) -> None:
    """Add the directories of the two runs."""
    parser.add_argument("target", metavar="TARGET", help="dump directory of the run under test")
    parser.add_argument("golden", metavar="GOLDEN", help="dump directory of the reference run")


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add the rule files, under their documented names."""
    parser.add_argument(
        "-fr", "-f", "--fusion-rule-file", "--rules", metavar="FILE", default="",
        help="rules of the model with fusion on",
    )  # fmt: skip
    parser.add_argument(
        "-cfr", "-cf", "--close-fusion-rule-file", "--fusion-off-rules", metavar="FILE", default="",
        help="rules of the model with fusion off",
    )  # fmt: skip
    parser.add_argument(
        "-qfr", "--quant-fusion-rule-file", "--quant-rules", metavar="FILE", default="",
        help="rules written by the quantization tool",
    )  # fmt: skip


def add_custom(parser: argparse.ArgumentParser, content: str = "conversions and metrics") -> None:
    """Add the directory of user-defined conversions and metrics."""
    parser.add_argument(
        "-c", "--custom", "--custom-script-path", metavar="DIR", default="",
        help=f"directory of user-defined {content}; its Python files are executed",
    )  # fmt: skip


def add_mode(parser: argparse.ArgumentParser) -> None:
    """Add the kind of data; `chosen_mode` returns it."""
    parser.add_argument(
        "-m", "--mode", choices=("auto", *_MODES), default="auto", help="kind of data; default: detected from the files"
    )


def chosen_mode(args: argparse.Namespace) -> Mode | None:
    """Return the mode that was asked for; `None` to detect it."""
    from opdiff.core.comparison import Mode

    return Mode(_MODES[args.mode]) if args.mode in _MODES else None


def add_units(group: argparse._ArgumentGroup) -> None:
    """Add rank, token and graph of graph mode."""
    unit_number = integer(0, 999_999_999)
    group.add_argument("--rank", type=unit_number, metavar="N", help="compare this rank only")
    group.add_argument("--token", type=unit_number, metavar="N", help="compare this token only")
    group.add_argument("--graph", type=unit_number, metavar="N", help="compare this graph only")


def compare_options(args: argparse.Namespace) -> CompareOptions:
    """Return the comparison that the arguments of `add_sides` and `add_rules` describe.

    Raises:
        InputError: a directory does not exist.
    """
    from opdiff.workflows.compare.options import CompareOptions

    require_paths(args.target, args.golden)
    return CompareOptions(
        target=args.target,
        golden=args.golden,
        fusion_rules=args.fusion_rule_file,
        fusion_off_rules=args.close_fusion_rule_file,
        quant_rules=args.quant_fusion_rule_file,
    )


def require_paths(*paths: str) -> None:
    """Check that all paths exist.

    Raises:
        InputError: the first path that does not exist.
    """
    for path in paths:
        if not filesystem.exists(path):
            raise InputError(path, because("core.no_such_path"))


def add_element_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the element-by-element comparison, under their documented names."""
    parser.add_argument(
        "-n", "--topn", type=integer(1, 10_000), metavar="N", help="number of worst elements to list; default: 20"
    )
    parser.add_argument(
        "-ml", "--max-line", type=integer(10_000, 1_000_000), metavar="N",
        help="maximum number of rows per table file; default: 1000000",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-single-op-result", "--no-tables", action="store_true", help="do not write tables of all elements"
    )
