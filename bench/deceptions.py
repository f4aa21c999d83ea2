"""Compare damaged and misleading inputs; print how often the verdict is right, unsure, or certain and wrong."""

from __future__ import annotations

import argparse
from collections import Counter

from fault_injection.deceptions import Outcome, Result, iter_outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1, help="damage every N-th file only")
    parser.add_argument("--seed", type=int, default=61, help="5 was used while the judge was developed")
    parser.add_argument("--verbose", action="store_true", help="print every verdict that is certain and wrong")
    args = parser.parse_args()
    outcomes = []
    for each in iter_outcomes(args.seed, args.step):
        outcomes.append(each)
        if args.verbose and each.result is Result.WRONG:
            print(each.case.group, "|", each.case.name, "|", each.message)
    print_scores(outcomes)


def print_scores(outcomes: list[Outcome]) -> None:
    counts: dict[str, Counter[str]] = {}
    for each in outcomes:
        for group in (each.case.group, "all"):
            counts.setdefault(group, Counter())[each.result] += 1
    print(f"{'':36} {'cases':>6} {'right':>6} {'unsure':>7} {'wrong':>6}")
    for group, found in sorted(counts.items(), key=lambda item: item[0] == "all"):
        numbers = (found[Result.RIGHT], found[Result.UNSURE], found[Result.WRONG])
        print(f"{group:36} {found.total():6} {numbers[0]:6} {numbers[1]:7} {numbers[2]:6}")


if __name__ == "__main__":
    main()
