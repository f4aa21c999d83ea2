"""Assignment of rule files to the dumps of a training run."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.filesystem import natural_key
from opdiff.core.reasons import because, first_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.graph import RuleFile
    from opdiff.core.reasons import Reason

_DIGITS = re.compile(r"[0-9]+")


class ModelFolder(Struct, frozen=True):
    """The dumps of one step: `{device}/{model}/{model_id}/{step}`."""

    path: str
    device: int
    model: str
    model_id: int
    step: int


class BatchJob(Struct, frozen=True):
    """A folder to compare with its rules; `note` is a reason to doubt that the rules belong to the folder."""

    folder: ModelFolder
    rules: RuleFile
    note: Reason | None = None


class Unmatched(Struct, frozen=True):
    """A folder without rules, and the reason."""

    folder: ModelFolder
    reason: Reason


class MatchedFolders(Struct, frozen=True):
    """Folders with rules and folders without, in the order of devices, models and steps."""

    jobs: tuple[BatchJob, ...]
    unmatched: tuple[Unmatched, ...]


def match_rules(
    rule_files: Sequence[RuleFile], folders: Sequence[ModelFolder], *, only: RuleFile | None = None
) -> MatchedFolders:
    """Find the rules of each folder by the name of the model, else by its graph number.

    `only` is the one rule file that was given by name. A single model has it if no graph fits.
    """
    by_graph = {graph.name: rules for rules in rule_files for graph in rules.graphs if graph.name}
    by_number: dict[str, list[str]] = defaultdict(list)
    for name in by_graph:
        if (number := _graph_number(name)) is not None:
            by_number[number].append(name)
    found = [_match(folder, by_graph, by_number) for folder in sorted(folders, key=_order)]
    if only and not any(isinstance(item, BatchJob) for item in found) and len({item.model for item in folders}) == 1:
        found = [_by_choice(item.folder, only) for item in found]
    return MatchedFolders(
        tuple(item for item in found if isinstance(item, BatchJob)),
        tuple(item for item in found if isinstance(item, Unmatched)),
    )


def _by_choice(folder: ModelFolder, rules: RuleFile) -> BatchJob:
    graphs = first_of([graph.name for graph in rules.graphs])
    return BatchJob(folder, rules, because("pair.rules_by_choice", model=folder.model, graphs=graphs))


def _order(folder: ModelFolder) -> tuple[object, ...]:
    return folder.device, natural_key(folder.model), folder.model_id, folder.step, folder.path


def _match(folder: ModelFolder, by_graph: dict[str, RuleFile], by_number: dict[str, list[str]]) -> BatchJob | Unmatched:
    if folder.model in by_graph:
        return BatchJob(folder, by_graph[folder.model])
    number = _graph_number(folder.model)
    names = by_number.get(number, []) if number is not None else []
    if not names:
        return Unmatched(folder, because("pair.no_graph_of_model", model=folder.model))
    if len(names) > 1:
        return Unmatched(folder, because("pair.several_graphs_of_model", model=folder.model, graphs=tuple(names)))
    note = because("pair.rules_of_another_time", graph=names[0], model=folder.model)
    return BatchJob(folder, by_graph[names[0]], note)


def _graph_number(name: str) -> str | None:
    """Return the second of exactly two numbers in a name (the first is the time); `None` for other names."""
    numbers = _DIGITS.findall(name)
    return numbers[1].lstrip("0") or "0" if len(numbers) == 2 else None
