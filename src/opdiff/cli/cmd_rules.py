"""`opdiff rules`: write the rules of a compiled model as JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from opdiff.cli.arguments import require_paths
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, said
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable
from opdiff.core.reasons import because

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Write the JSON that `atc --mode=1` or `--mode=5` makes of an offline model or a graph text, without ATC. `compare` needs
no such file: -fr and -cfr take the model itself."""
EPILOG = """\
examples:
  opdiff rules model.om -o rules.json
  opdiff rules ge_proto_00000062_Build.txt -o rules.json --force
  opdiff rules model.om -o - | less
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("path", metavar="MODEL", help="offline model (.om, .om2), graph text, or bare model message")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="JSON file to write; - is standard output"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def run(args: argparse.Namespace) -> int:
    """Write the rules, and return the exit code."""
    from opdiff.workflows.model_rules import make_rules, write_rules

    require_paths(args.path)
    if args.output != "-" and os.path.exists(args.output) and not args.force:
        raise UsageError(because("cli.exists", path=args.output))
    rules = make_rules(args.path)
    for note in rules.notes:
        print(f"opdiff: {printable(in_language(note))}", file=sys.stderr)
    if args.output == "-":
        print(rules.content.decode(), end="")
        return ExitCode.OK
    write_rules(rules, args.output)
    print(printable(said("cli.rules_file", path=args.output, graphs=rules.graphs, operators=rules.operators)))
    return ExitCode.OK
