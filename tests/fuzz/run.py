"""Fuzz the parsers with atheris for a fixed time each: `make fuzz`, or `run.py [--seconds N] [target …]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from seeds import SEEDS
from targets import TARGETS


def main() -> int:
    """Run each target in a process of its own; a finding ends that process with an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help="default: all")
    parser.add_argument("--seconds", type=int, default=15, help="for each target")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.targets or list(TARGETS)
    if args.inside:
        fuzz(names[0], args.seconds)
        return 0
    failed = []
    for name in names:
        command = [sys.executable, str(Path(__file__)), "--inside", "--seconds", str(args.seconds), name]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def fuzz(name: str, seconds: int) -> None:
    """Let atheris look for an input on which the target raises."""
    import atheris

    atheris.enabled_hooks.add("RegEx")
    atheris.enabled_hooks.add("str")
    atheris.instrument_all()
    options = [f"-max_total_time={seconds}", "-max_len=1024", "-verbosity=0", "-print_final_stats=1"]
    with tempfile.TemporaryDirectory(prefix="opdiff-corpus-") as corpus:
        for number, seed in enumerate(SEEDS.get(name, ())):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], *options, corpus], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
