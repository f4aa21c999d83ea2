"""`opdiff bundle`: one operator with its data as an archive that others can run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opdiff.cli.arguments import add_json, require_paths
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.language import said
from opdiff.cli.model_options import add_replayed_model, given_shapes
from opdiff.cli.terminal import note_owner, write_json
from opdiff.core.errors import UsageError
from opdiff.core.formatting import printable, size
from opdiff.core.reasons import because
from opdiff.core.tensor import file_safe_name

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
Write one operator as an archive for others: what it read and wrote on the NPU, the golden tensors, and, with the
original model, the part of the model that it computes and a script that runs it. Nothing else is in it, and no path or
name of this machine."""
EPILOG = """\
examples:
  opdiff bundle conv1 NPU_DIR GOLDEN_DIR --model net.onnx --rules net.om
  opdiff bundle conv1 NPU_DIR -o conv1.zip          inputs and outputs on the NPU only
  unzip conv1.zip -d conv1 && python conv1/run.py   compute it again, with onnxruntime alone
"""
_MAX_NAME_LENGTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument("operator", metavar="OP", help="name of the operator")
    parser.add_argument("target", metavar="TARGET", help="dump directory of the run on the NPU")
    parser.add_argument("golden", metavar="GOLDEN", nargs="?", default="", help="golden directory")
    add_replayed_model(parser, "original model: ONNX file, or prototxt")
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="archive to write; default: OP.zip")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Write the archive, print its contents, and return the exit code."""
    from opdiff.workflows.bundle.options import BundleOptions
    from opdiff.workflows.bundle.pipeline import write_bundle

    if args.model and not args.fusion_rule_file:
        raise UsageError(because("cli.bundle_needs_rules"))
    given = (args.golden, args.fusion_rule_file, args.model, args.weights)
    require_paths(args.target, *filter(None, given))
    output = args.output or f"{file_safe_name(args.operator)[:_MAX_NAME_LENGTH]}.zip"
    note_owner(os.path.dirname(output) or ".")
    files = write_bundle(
        BundleOptions(
            operator=args.operator,
            target=args.target,
            output=output,
            golden=args.golden,
            rules=args.fusion_rule_file,
            model=args.model,
            weights=args.weights,
            shapes=given_shapes(args),
        )
    )
    if args.json != "-":
        for name in files if args.quiet == 0 else ():
            print(f"  {name}")
        print(printable(said("cli.bundle_file", path=output, size=size(os.path.getsize(output)))))
    if args.json:
        write_json(args.json, {"bundle": output, "files": files, "nbytes": os.path.getsize(output)})
    return ExitCode.OK
