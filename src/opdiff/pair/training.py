"""Many dumps of a training run and many rule files: which belong together."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.graph import RuleFile

_DIGITS = re.compile(r"[0-9]+")


class ModelFolder(NamedTuple):
    """The dumps of one step: `{device}/{model}/{model_id}/{step}`."""

    path: str
    device: int
    model: str
    model_id: int
    step: int


class BatchJob(NamedTuple):
    """A folder to compare, its rules, and what is to be known about their belonging together (mostly nothing)."""

    folder: ModelFolder
    rules: RuleFile
    note: str = ""


class Unmatched(NamedTuple):
    """A folder without rules, and why."""

    folder: ModelFolder
    reason: str


class Batch(NamedTuple):
    """What to compare, in the order of devices, models and steps, and what cannot be compared."""

    jobs: tuple[BatchJob, ...]
    unmatched: tuple[Unmatched, ...]


def match_rules(rule_files: Sequence[RuleFile], folders: Iterable[ModelFolder]) -> Batch:
    """Find the rules of each folder: a graph has the model's name, or agrees with it in the graph's number."""
    by_graph = {graph.name: rules for rules in rule_files for graph in rules.graphs if graph.name}
    by_number: dict[str, list[str]] = defaultdict(list)
    for name in by_graph:
        if (number := _graph_number(name)) is not None:
            by_number[number].append(name)
    found = [_match(folder, by_graph, by_number) for folder in sorted(folders, key=_order)]
    return Batch(
        tuple(item for item in found if isinstance(item, BatchJob)),
        tuple(item for item in found if isinstance(item, Unmatched)),
    )


def _order(folder: ModelFolder) -> tuple[object, ...]:
    return folder.device, _natural(folder.model), folder.model_id, folder.step, folder.path


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts by the values of the numbers in a name."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def _match(folder: ModelFolder, by_graph: dict[str, RuleFile], by_number: dict[str, list[str]]) -> BatchJob | Unmatched:
    if folder.model in by_graph:
        return BatchJob(folder, by_graph[folder.model])
    number = _graph_number(folder.model)
    names = by_number.get(number, []) if number is not None else []
    if not names:
        return Unmatched(folder, f"no rule file has a graph named {folder.model}, or one with its number")
    if len(names) > 1:
        return Unmatched(folder, f"several graphs could be {folder.model}: {', '.join(names)}")
    note = f"the rules are those of {names[0]}, the dumps those of {folder.model}: they were made at different times"
    return BatchJob(folder, by_graph[names[0]], note)


def _graph_number(name: str) -> str | None:
    """The second of exactly two numbers in a name (the first is the time); `None` for other names."""
    numbers = _DIGITS.findall(name)
    return numbers[1].lstrip("0") or "0" if len(numbers) == 2 else None
