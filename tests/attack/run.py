"""Attack whole runs with mutated files, disturbances and signals: `make attack`, or `run.py [--seconds N] [--seed N]`.

Every trial follows from its seed, disturbances while a command runs up to their timing.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from attack.trials import keep_files, make_scenes, run_trial


def main() -> int:
    """Run trials for a time, and print the findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="duration; default: 300")
    parser.add_argument("--seed", type=int, help="seed of the first trial; default: random")
    parser.add_argument("--trials", type=int, default=1 << 40, help="number of trials at most")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="opdiff-attack-"))
    scenes = make_scenes(folder)
    first = random.randrange(1 << 40) if args.seed is None else args.seed
    done = findings = 0
    end = time.monotonic() + args.seconds
    while done < args.trials and time.monotonic() < end:
        finding = run_trial(first + done, scenes, folder / "work")
        done += 1
        if finding is not None:
            findings += 1
            kept = keep_files(folder / "work", finding.seed)
            print(f"seed {finding.seed}: {finding.what}\n  {finding.problem}\n  {kept}", flush=True)
    print(f"{done} trials from seed {first}, {findings} findings")
    if not findings:
        shutil.rmtree(folder)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
