"""Fuzz parsers and kernel with atheris for a fixed time each: `make fuzz`, or `run.py [--seconds N] [target …]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

FINDINGS = Path("build/fuzz")
NAMES = (
    "header", "dump", "nano", "npy", "npz", "name", "record", "attr", "graph", "figures", "kernel", "om", "message",
    "model_text", "onnx_text", "om2", "atc_json",
)  # fmt: skip


def main() -> int:
    """Run each target in a process of its own; a finding ends that process with an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"default: all of {', '.join(NAMES)}")
    parser.add_argument("--seconds", type=int, default=15, help="for each target")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        fuzz(args.targets[0], args.seconds)
    failed = []
    for name in args.targets or NAMES:
        print(f"fuzzing {name} for {args.seconds} s", flush=True)
        command = [sys.executable, str(Path(__file__)), "--inside", "--seconds", str(args.seconds), name]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    count = len(args.targets or NAMES)
    print(f"{count - len(failed)} passed, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def fuzz(name: str, seconds: int) -> None:
    """Let atheris look for an input on which the target raises; ends the process."""
    import atheris

    if name == "name":
        # Leads the fuzzer through regular expressions; its stand-in for patterns cannot do what the others need.
        atheris.enabled_hooks.add("RegEx")
    with atheris.instrument_imports(include=["opdiff", "targets"]):
        from seeds import SEEDS
        from targets import TARGETS
    FINDINGS.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", "-max_len=16384", "-verbosity=0", f"-artifact_prefix={FINDINGS}/"]
    corpus = FINDINGS / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]):
        (corpus / f"seed{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], *options, str(corpus)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
