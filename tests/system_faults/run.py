"""Make the n-th call of each kind fail, for every n, in every command: `make system-faults`, or `run.py [--numbers N]`.

Prints how many calls of each kind a command makes, and every fault after which it did not behave as documented.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from itertools import count
from pathlib import Path

from system_faults.calls import Kind, compile_library, preload
from system_faults.trials import COMMANDS, Bench


def main() -> int:
    """Run the faults in a process with the library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, nargs="*", default=[], help="which calls fail; default: each one")
    parser.add_argument("--commands", nargs="*", default=[], help="names of commands; default: all")
    parser.add_argument("--kinds", nargs="*", default=[], help="kinds of calls; default: all")
    args = parser.parse_args()
    if "LD_PRELOAD" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="opdiff-faults-") as folder:
            return preload(compile_library(Path(folder)), "-m", "system_faults.run", *sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="opdiff-faults-") as folder:
        return _run(Bench(Path(folder)), args)


def _run(bench: Bench, args: argparse.Namespace) -> int:
    findings = 0
    for command in COMMANDS:
        for kind in Kind:
            if (args.commands and command.name not in args.commands) or (
                args.kinds and kind.name.lower() not in args.kinds
            ):
                continue
            for lasting in (False, True):
                done = 0
                for finding in bench.iter_faults(command, kind, args.numbers or count(1), lasting=lasting):
                    done += 1
                    if finding is not None:
                        findings += 1
                        print(finding, flush=True)
                what = f"{command.name}: {kind.name.lower()}{' and all later ones' if lasting else ''}"
                print(f"{what}: {done} faults", flush=True)
    print(f"{findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
