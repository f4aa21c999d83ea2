"""Inject every kind of fault into several networks; print how often operator and cause are named correctly."""

from __future__ import annotations

import argparse
from collections import Counter

from fault_injection.evaluation import Evaluation, Outcome, Setting, iter_outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds")
    parser.add_argument("--first-seed", type=int, default=51, help="1, 2 and 11 to 36 were used during development")
    parser.add_argument("--model", action="store_true", help="prove the findings by replay with the original model")
    parser.add_argument("--setting", type=Setting, default=Setting.PLAIN, choices=Setting, help="condition of the runs")
    parser.add_argument("--verbose", action="store_true", help="print every case that is not named correctly")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    wanted = Evaluation(seeds=seeds, setting=args.setting, with_model=args.model)
    outcomes = list(iter_outcomes(wanted))
    for each in outcomes if args.verbose else ():
        if not each.is_named or each.proved:
            print(*each.case, "found" if each.is_found else "NOT FOUND", each.message)
    print_scores(outcomes)


def print_scores(outcomes: list[Outcome]) -> None:
    sound = [each for each in outcomes if not each.case.fault]
    faulty = [each for each in outcomes if each.case.fault]
    faults = dict.fromkeys(each.case.fault for each in faulty)
    networks = dict.fromkeys(_network(each) for each in faulty)
    totals, found, named = Counter[str](), Counter[str](), Counter[str]()
    for each in faulty:
        for key in (each.case.fault, _network(each), "all"):
            totals[key] += 1
            found[key] += each.is_found
            named[key] += each.is_named
    print(f"{'':20} {'cases':>6} {'operator':>9} {'cause':>7}")
    for key in [*faults, *networks, "all"]:
        print(f"{key:20} {totals[key]:6} {found[key] / totals[key]:9.1%} {named[key] / totals[key]:7.1%}")
    print(f"false alarms: {sum(not each.is_found for each in sound)} of {len(sound)} sound runs")
    print(f"innocent operators called proved: {sum(len(each.proved) for each in outcomes)}")


def _network(outcome: Outcome) -> str:
    return f"{outcome.case.network} {outcome.case.dtype}"


if __name__ == "__main__":
    main()
