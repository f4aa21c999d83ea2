"""Trials: a command, one fault while it runs, and the checks of its outcome."""

from __future__ import annotations

import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attack.forked import import_commands, run_forked
from attack.networks import write_graph_network, write_network
from attack.results import broken_files
from onnx_models import model, node, value, write
from opdiff.read.reduced import read_reduced
from system_faults.calls import Fault, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from attack.forked import Outcome

_REDUCED_ENDING = "_min_max.npz"
_DOCUMENTED_CODES = frozenset({0, 1, 2, 3})


class Command(NamedTuple):
    """A command, the folder of its inputs, and its arguments."""

    name: str
    scene: str
    arguments: tuple[str, ...]


COMMANDS = (
    Command(
        "compare",
        "offline",
        ("compare", "{root}/target", "{root}/golden", "--rules", "{root}/rules.json", "-o", "{out}", "--xlsx"),
    ),
    Command(
        "compare in graph mode", "graph", ("compare", "--mode", "torchair", "{root}/ge", "{root}/fx", "-o", "{out}")
    ),
    Command("convert", "offline", ("convert", "{root}/target", "-out", "{out}/arrays", "-j", "1")),
    Command("reduce", "graph", ("reduce", "{root}/ge", "--settle", "0")),
    Command("golden", "model", ("golden", "{root}/model.onnx", "--random", "1", "-o", "{out}/golden")),
    Command("report", "offline", ("report", "{root}/saved.json", "-o", "{out}/report.html", "--xlsx", "--junit")),
)


class Finding(NamedTuple):
    """A violated rule, the command and the fault."""

    command: str
    fault: str
    problem: str

    def __str__(self) -> str:
        return f"{self.command}, {self.fault}: {self.problem}"


class Bench:
    """Folders of inputs, and a folder in which commands run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._work = folder / "work"
        import_commands()
        write_network(folder / "offline")
        write_graph_network(folder / "graph")
        # One operator is wrong in each, so that comparisons examine elements and locate a fault.
        for wrong in (*folder.glob("offline/golden/matmul.*"), *folder.glob("graph/fx/**/mul-*.OUTPUT.*")):
            np.save(wrong, np.load(wrong) * np.float16(1.5))
        for command in COMMANDS[:2]:
            root, out = folder / command.scene, folder / "out"
            self._run_undisturbed(*(argument.format(root=root, out=out) for argument in command.arguments))
            (saved,) = out.glob("result_*.json")
            saved.rename(root / "saved.json")
            shutil.rmtree(out)
        (folder / "model").mkdir()
        nodes = [node("Relu", "x", "a", "first"), node("Add", "a x", "y", "second")]
        write(folder / "model" / "model.onnx", model(nodes, [value("x")], [value("y")]))

    def iter_faults(
        self, command: Command, kind: Kind, numbers: Iterable[int], *, lasting: bool = False
    ) -> Iterator[Finding | None]:
        """Yield what the fault of each number showed, until the command ends undisturbed."""
        for number in numbers:
            root, out = self._prepare(command)
            before = _contents(root)
            fault = Fault(kind, number, self._work / "data", lasting=lasting)
            arguments = [argument.format(root=root, out=out) for argument in command.arguments]
            outcome = run_forked(arguments, self._work, prepare=fault.arm)
            if not fault.has_struck():
                if outcome.code:
                    raise RuntimeError(outcome.err)
                return
            # The interpreter and its libraries crash where some allocations are refused, which leaves no half files.
            problem = "" if kind is Kind.ALLOC and not outcome.hung else _problem(outcome)
            problem = problem or _file_problem(before, root, out)
            if not problem and command.name == "reduce":
                # The next run puts back what was taken, and reduces the rest.
                self._run_undisturbed(*arguments)
                problem = _file_problem(before, root, out)
            yield Finding(command.name, str(fault), problem) if problem else None

    def _prepare(self, command: Command) -> tuple[Path, Path]:
        shutil.rmtree(self._work, ignore_errors=True)
        root, out = self._work / "data" / "in", self._work / "data" / "out"
        shutil.copytree(self._folder / command.scene, root)
        out.mkdir()
        return root, out

    def _run_undisturbed(self, *arguments: str) -> None:
        self._work.mkdir(exist_ok=True)
        outcome = run_forked(arguments, self._work)
        if outcome.code:
            raise RuntimeError(outcome.err)


def _contents(root: Path) -> dict[str, str]:
    """Return the paths of files, and the hashes of their contents."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): sha256(path.read_bytes()).hexdigest() for path in files}


def _problem(outcome: Outcome) -> str:
    if "Traceback" in outcome.err:
        return outcome.err[-3000:]
    if outcome.hung or outcome.code not in _DOCUMENTED_CODES:
        return f"exit code {outcome.code}{' after it hung' if outcome.hung else ''}: {outcome.err[-500:]}"
    if outcome.code and not (outcome.out + outcome.err).strip():
        return f"exit code {outcome.code} without a sentence"
    return ""


def _file_problem(before: dict[str, str], root: Path, out: Path) -> str:
    folders = (path for path in (out, root, *out.rglob("*")) if path.is_dir())
    half = [name for folder in folders for name in broken_files(folder)]
    half += [path.name for path in out.rglob("*.np[yz]") if not path.name.startswith(".") and not _is_loadable(path)]
    if half:
        return f"half files: {', '.join(half)}"
    kept = set(_contents(root).values())
    lost = [path for path, content in before.items() if content not in kept and not _is_reduced(root / path)]
    if lost:
        return f"lost files: {', '.join(lost)}"
    return ""


def _is_loadable(path: Path) -> bool:
    try:
        found = np.load(path, allow_pickle=False)
        # Members of an archive are read when they are asked for.
        return all(member.nbytes >= 0 for member in found.values()) if path.suffix == ".npz" else True
    except (OSError, ValueError):
        return False


def _is_reduced(path: Path) -> bool:
    """Return whether a file has a whole reduced form in its place."""
    reduced = path.with_name(f"{path.name}{_REDUCED_ENDING}")
    if not reduced.exists():
        return False
    read_reduced(str(reduced), reduced.name)
    return True
