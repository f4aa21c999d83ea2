"""`opdiff selftest`: would a fault in these dumps be found?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.cli.arguments import add_json, add_rules, add_sides, compare_options, integer
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import in_language, said, worded
from opdiff.cli.terminal import Progress, table, write_json

if TYPE_CHECKING:
    import argparse

    from opdiff.workflows.selftest.trials import TrialResult

DESCRIPTION = """\
Inject known faults into copies of your own dumps, one at a time, compare, and show which of them are found and named
correctly. Your files are only read; the copies live in a temporary directory."""
EPILOG = """\
examples:
  opdiff selftest NPU_DIR GOLDEN_DIR --rules network.json
  opdiff selftest NPU_DIR OTHER_NPU_DIR --faults scale,permuted --tensors 10 --seed 7
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    add_sides(parser)
    add_rules(parser)
    parser.add_argument("--faults", metavar="LIST", default="", help="comma-separated list of faults; default: all")
    parser.add_argument(
        "--tensors", "--places", type=integer(1, 10_000), metavar="N", default=3,
        help="number of tensors that get a fault; default: 3",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=integer(0, 10**18), metavar="N", default=0, help="seed of the random choices; default: 0"
    )
    add_json(parser, "the results")


def run(args: argparse.Namespace) -> int:
    """Run the self-test, print the results, and return the exit code."""
    from opdiff.workflows.selftest.trials import SelftestOptions, choose_faults, run_selftest, summary

    options = replace(compare_options(args), in_process=True)
    selftest_options = SelftestOptions(choose_faults(args.faults), args.tensors, args.seed)
    with Progress(said("cli.injecting"), quiet=args.quiet > 0) as progress:
        results = run_selftest(options, selftest_options, progress.reach)
    if args.json != "-":
        rows = [_row(result) for result in results]
        table("", ("fault", "tensor", "distance", "found", "named"), rows, ("distance",))
        print(*map(in_language, summary(results)), sep="\n")
    if args.json:
        write_json(args.json, results)
    return ExitCode.GATE if any(result.is_found is False for result in results) else ExitCode.OK


def _row(result: TrialResult) -> tuple[str, ...]:
    if result.is_found is None:
        return result.fault, str(result.key), "", worded("not injected"), in_language(result.note)
    distance = "" if result.distance is None else f"{result.distance:.3g}"
    names = ", ".join(result.names) or worded("unknown")
    verdict = worded("yes") if result.is_named else said("cli.named_as", names=names)
    return result.fault, str(result.key), distance, worded("yes") if result.is_found else worded("NO"), verdict
