"""Trials: a scene, one mutation or disturbance of it, a command, and the checks of its outcome."""

from __future__ import annotations

import os
import random
import shutil
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from attack.forked import MAX_CPU_S, MAX_RESIDENT_NBYTES, Disturbance, Outcome, import_commands, run_forked
from attack.mutations import BYTE_MUTATIONS, FILE_MUTATIONS, JSON_MUTATIONS
from attack.results import broken_files, changed_rows, lost_files, rows_of, stamps_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from attack.mutations import Mutation
    from attack.results import Rows

_DOCUMENTED_CODES = frozenset({0, 1, 2, 3})
_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_CODES_AFTER_SIGNAL = _DOCUMENTED_CODES | {130, 143, *(-number for number in _ENDING_SIGNALS)}
_MAX_DELAY_S = 0.4


class Command(NamedTuple):
    """A command of a scene; `targets` are patterns of the files that are mutated before it."""

    arguments: tuple[str, ...]
    targets: tuple[str, ...]
    has_rows: bool = False


class Scene(NamedTuple):
    """A folder of inputs, the commands that are run on it, and the rows of an undisturbed comparison."""

    name: str
    folder: Path
    commands: tuple[Command, ...]
    rows: Rows


class Finding(NamedTuple):
    """A violated rule, and how to repeat the trial."""

    seed: int
    what: str
    problem: str


_OFFLINE_SIDES = ("{root}/npu", "{root}/golden", "--rules", "{root}/rules/network.json")
_OFFLINE = (
    Command(("compare", *_OFFLINE_SIDES, "-o", "{out}"), ("npu/*", "golden/*"), has_rows=True),
    Command(("compare", *_OFFLINE_SIDES, "-o", "{out}", "--json", "{out}/answer.json"), ("rules/*",)),
    Command(("compare", "{root}/npu", "{root}/golden", "-o", "{out}"), ("npu/*", "golden/*")),
    Command(("op", "context/pool:output:0", *_OFFLINE_SIDES), ("npu/*context_pool*", "golden/*context_pool*")),
    Command(("inspect", "{root}/npu", "--stats"), ("npu/*",)),
    Command(("convert", "{root}/npu", "-out", "{out}/converted"), ("npu/*",)),
    Command(("overflow", "{root}/npu"), ("npu/*",)),
    Command(("report", "{root}/saved.json", "-o", "{out}/report.html", "--junit"), ("saved.json",)),
    Command(("judge", "{root}/saved.json"), ("saved.json",)),
    Command(("diff", "{root}/saved.json", "{root}/other.json"), ("saved.json", "other.json")),
)
_GRAPH_SIDES = ("--mode", "torchair", "{root}/ge", "{root}/fx")
_GRAPH = (
    Command(("compare", *_GRAPH_SIDES, "-o", "{out}"), ("ge/**/*", "fx/**/*"), has_rows=True),
    Command(("reduce", "{root}/ge", "--settle", "0"), ("ge/**/*",)),
    Command(("inspect", "{root}/ge"), ("ge/**/*",)),
    Command(("report", "{root}/saved.json", "-o", "{out}/report.html"), ("saved.json",)),
)


def make_scenes(folder: Path) -> tuple[Scene, ...]:
    """Write the sample of both modes and compare it undisturbed."""
    import_commands()
    return (
        _make_scene(folder / "offline", ("demo", str(folder / "offline")), _OFFLINE),
        _make_scene(folder / "graph", ("demo", str(folder / "graph"), "--torchair"), _GRAPH),
    )


def _make_scene(folder: Path, demo: Sequence[str], commands: tuple[Command, ...]) -> Scene:
    made = run_forked(demo, folder.parent)
    if made.code:
        raise RuntimeError(made.err)
    (saved,) = (folder / "result").glob("result_*.json")
    for name in ("saved.json", "other.json"):
        shutil.copyfile(saved, folder / name)
    shutil.rmtree(folder / "result")
    scene = Scene(folder.name, folder, commands, {})
    with_rows = next(command for command in commands if command.has_rows)
    out = folder.parent / f"{folder.name}_out"
    out.mkdir()
    outcome = run_forked(_arguments(with_rows, folder, out), folder.parent)
    if outcome.code:
        raise RuntimeError(outcome.err)
    return scene._replace(rows=rows_of(out))


def run_trial(seed: int, scenes: Sequence[Scene], work: Path) -> Finding | None:
    """Run the trial of this seed; its files stay in `work` if it finds something."""
    rng = random.Random(seed)
    scene = rng.choice(scenes)
    command = rng.choice((scene.commands[0], *scene.commands))
    root, out = work / "in", work / "out"
    for path in (root, out):
        shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(scene.folder, root, symlinks=True)
    out.mkdir(parents=True)
    path = rng.choice(_files(root, command.targets))
    mutation = rng.choice(JSON_MUTATIONS if path.suffix == ".json" else FILE_MUTATIONS)
    kind = rng.random()
    disturbance: Disturbance | None = None
    touched = {path.name}
    if kind < 0.1:
        disturbance = Disturbance(rng.uniform(0, _MAX_DELAY_S), rng.choice(_ENDING_SIGNALS))
        what = f"{disturbance.action!r} after {disturbance.after_s:.3f} s"
    elif kind < 0.25:
        mutation = rng.choice(FILE_MUTATIONS if path.suffix != ".json" else BYTE_MUTATIONS)
        disturbance = Disturbance(rng.uniform(0, _MAX_DELAY_S), partial(_mutate, mutation, rng, path))
        what = f"{mutation.__name__} of {path.name} after {disturbance.after_s:.3f} s"
    else:
        touched |= _mutate(mutation, rng, path)
        what = f"{mutation.__name__} of {path.name}"
    arguments = _arguments(command, root, out)
    before = stamps_of(root)
    outcome = run_forked(arguments, work, disturbance)
    problem = _problem(outcome, scene, command, out, touched, disturbance)
    problem = problem or ", ".join(f"{name} was lost" for name in lost_files(before, root, touched))
    return Finding(seed, f"{' '.join(arguments)}: {what}", problem) if problem else None


def _files(root: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted(path for pattern in patterns for path in root.glob(pattern) if path.is_file())


def _arguments(command: Command, root: Path, out: Path) -> list[str]:
    return [argument.format(root=root, out=out) for argument in command.arguments]


def _mutate(mutation: Mutation, rng: random.Random, path: Path) -> set[str]:
    """Mutate a file, which may be gone, and return the names that it has afterwards."""
    with suppress(OSError, ValueError):
        made = mutation(rng, path)
        return {path.name} if made is None else {path.name, made.name}
    return {path.name}


def _problem(
    outcome: Outcome, scene: Scene, command: Command, out: Path, touched: set[str], disturbance: Disturbance | None
) -> str:
    """Return the first violated rule; an empty string if there is none."""
    is_signalled = disturbance is not None and isinstance(disturbance.action, signal.Signals)
    if outcome.hung or outcome.cpu_s >= MAX_CPU_S or outcome.resident_nbytes > MAX_RESIDENT_NBYTES:
        taken = f"{outcome.cpu_s:.0f} s of a processor, {outcome.resident_nbytes >> 20} MiB"
        return f"{taken}{', and hung' if outcome.hung else ''}"
    if "Traceback" in outcome.err:
        return outcome.err[-2000:]
    if outcome.code not in (_CODES_AFTER_SIGNAL if is_signalled else _DOCUMENTED_CODES):
        return f"exit code {outcome.code}: {outcome.err[-500:]}"
    broken = broken_files(out)
    if broken:
        return f"incomplete files: {', '.join(broken)}"
    if command.has_rows and not is_signalled:
        return changed_rows(scene.rows, rows_of(out), touched)
    return ""


def keep_files(work: Path, seed: int) -> str:
    """Move the files of a finding to a folder of their own."""
    kept = work.parent / f"finding_{seed}"
    shutil.rmtree(kept, ignore_errors=True)
    os.rename(work, kept)
    return str(kept)
