"""Damaged and misleading inputs: the verdict must be right or say that it is not sure, never certain and wrong."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from fault_injection.evaluation import REPLAYED
from fault_injection.misleading_runs import Case, faulty_networks, misleading_runs, write_run
from opdiff.api import compare
from opdiff.core.errors import OpdiffError
from opdiff.report.answer_json import make_answer
from opdiff.sample.device import dump_files, run_device
from opdiff.sample.golden import TIMESTAMP
from opdiff.sample.names import golden_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.report.answer_json import Answer
    from opdiff.sample.graph import SampleNetwork


# Files as dump tools write them have no such contents.
_GARBAGE = b"\xff" * 200


class Result(StrEnum):
    """Result of a case."""

    RIGHT = "right"
    UNSURE = "unsure"
    WRONG = "wrong"


class Outcome(NamedTuple):
    """A case, its result, and what was said."""

    case: Case
    result: Result
    message: str


def evaluate(case: Case) -> Outcome:
    """Compare, and check the verdict against the truth."""
    options = structs.replace(case.options, replay=REPLAYED if case.options.fusion_rules else 0, pictures="none")
    rules = {"rules": options.fusion_rules, "fusion_off_rules": options.fusion_off_rules}
    try:
        found = compare(options.target, options.golden, options=options, **rules)
    except OpdiffError as error:
        return Outcome(case, Result.UNSURE, str(error))
    answer = make_answer(found.values)
    named = [finding.operator for finding in answer.findings[:3]]
    return Outcome(case, _result(case, answer), f"{answer.verdict}, {named}: {' '.join(answer.advice[:2])}")


def _result(case: Case, answer: Answer) -> Result:
    if answer.verdict == "unsure":
        return Result.UNSURE
    if not answer.findings:
        if case.culprits and answer.verdict != "clean" and answer.coverage.by != "data":
            # Statistics show that tensors are bad, not which operator is to blame.
            return Result.UNSURE
        return Result.RIGHT if not case.culprits and answer.verdict == "clean" else Result.WRONG
    if case.outputs_first and any(name in answer.advice[0] for name in case.culprits):
        return Result.WRONG
    first = {answer.findings[0].operator, *answer.findings[0].before}
    named = {finding.operator for finding in answer.findings} | first
    return Result.RIGHT if first & case.culprits and case.others <= named else Result.WRONG


# Damage of single files


def _remove(path: str, _neighbour: str) -> None:
    os.remove(path)


def _cut(path: str, _neighbour: str) -> None:
    os.truncate(path, os.path.getsize(path) // 2)


def _make_unreadable(path: str, _neighbour: str) -> None:
    with open(path, "wb") as file:
        file.write(_GARBAGE)


def _exchange(path: str, neighbour: str) -> None:
    os.rename(path, f"{path}.moved")
    os.rename(neighbour, path)
    os.rename(f"{path}.moved", neighbour)


DAMAGES: dict[str, Callable[[str, str], None]] = {
    "missing": _remove,
    "cut": _cut,
    "unreadable": _make_unreadable,
    "exchanged": _exchange,
}


def damaged_files(folder: str, seed: int, step: int) -> Iterator[Case]:
    """Yield every damage of every `step`-th file of every network; each case is to be evaluated before the next."""
    for number, network in enumerate(faulty_networks(seed)):
        options = write_run(os.path.join(folder, network.name), network.network)
        operators = _operators_by_file(network.network)
        for side, kind in ((options.target, "target"), (options.golden, "golden")):
            names = sorted(os.listdir(side), key=lambda name: (name.split(".")[-1], name))
            for position, damage in product(range(number % step, len(names), step), DAMAGES):
                pair = names[position], names[position - 1]
                exchanged = network.others | {operators.get(name, "") for name in pair}
                culprits = network.culprits | (exchanged if damage == "exchanged" else frozenset())
                with _damaged(side, damage, *pair):
                    yield Case(f"{kind} file {damage}", f"{network.name}: {pair[0]}", options, culprits)


@contextmanager
def _damaged(folder: str, damage: str, name: str, neighbour: str) -> Iterator[None]:
    shutil.copytree(folder, f"{folder}.whole")
    DAMAGES[damage](os.path.join(folder, name), os.path.join(folder, neighbour))
    yield
    shutil.rmtree(folder)
    os.rename(f"{folder}.whole", folder)


def _operators_by_file(network: SampleNetwork) -> dict[str, str]:
    """Return the operator of each target file and of each golden file, if it stores that tensor."""
    names = {op.name.replace("/", "_"): op.name for op in network.device}
    files = {file: names.get(file.split(".")[1], "") for file in dump_files(network, run_device(network))}
    for op in network.device:
        origins = [output.origin for output in op.outputs if output.origin is not None]
        files |= {golden_name(origin.op, origin.index, TIMESTAMP): op.name for origin in origins}
    return files


def iter_outcomes(seed: int, step: int = 1) -> Iterator[Outcome]:
    """Evaluate all cases; of the damaged files every `step`-th."""
    with tempfile.TemporaryDirectory() as folder:
        for case in damaged_files(folder, seed, step):
            yield evaluate(case)
    with tempfile.TemporaryDirectory() as folder:
        for case in misleading_runs(folder, seed):
            yield evaluate(case)
