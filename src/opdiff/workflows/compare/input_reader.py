"""Reading of dumps and rule files: here, once for comparisons that share them, or on a cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.pairing import Pairing
from opdiff.core.remote.urls import is_remote
from opdiff.read.dump import read_dump, read_folder_dump
from opdiff.read.rules import read_rules
from opdiff.run import map_jobs
from opdiff.workflows.cluster import is_unread

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.read.directory import Folder
    from opdiff.read.graph.tree import GraphTree
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.compare.graph_tokens import TokenJob, TokenPairs, TokenRows
    from opdiff.workflows.compare.measuring import Measuring


class InputReader:
    """Reads dumps and rule files."""

    def rules(self, path: str) -> RuleFile:
        """Return a rule file, as `read_rules` does."""
        return read_rules(path)

    def dump(self, path: str, *, with_rules: bool) -> Dump:
        """Return a dump, as `read_dump` does."""
        return read_dump(path, with_rules=with_rules)

    def golden(self, path: str, names: Collection[str], *, with_rules: bool) -> Dump:
        """Return golden data, as `read_golden` does; arrays under looser names depend on `names`."""
        try:
            return self.dump(path, with_rules=with_rules)
        except InputError:
            from opdiff.read.golden_arrays import read_golden

            return read_golden(path, names, with_rules=with_rules)

    def graph_trees(self, paths: Iterable[str], workers: int) -> Iterator[GraphTree]:
        """Yield the ranks, graphs and tokens of dumps of graph mode; long dumps are listed by so many processes."""
        from opdiff.read.graph.tree import read_graph_tree

        for path in paths:
            yield read_graph_tree(path, partial(map_jobs, workers=1 if is_remote(path) else workers))

    def folder_dumps(self, folders: Iterable[Folder]) -> Iterator[Dump | InputError]:
        """Yield the dumps in folders of a training run, or why they cannot be read."""
        return map(read_step, folders)

    def pair_tokens(self, jobs: Sequence[TokenJob], workers: int) -> Iterator[list[TokenPairs]]:
        """Yield the pairs of tokens of graph mode, in order, read by so many processes."""
        from opdiff.workflows.compare.graph_tokens import pair_job, pair_jobs

        if workers == 1:
            return pair_jobs(jobs)
        from opdiff.run.processes import map_processes

        return map_processes(pair_job, jobs, workers)

    def measure_tokens(
        self, jobs: Sequence[TokenJob], workers: int, measuring: Measuring, rows_path: str
    ) -> Generator[TokenRows, None, None]:
        """Yield the rows of tokens of graph mode, in order, read, measured and stored by so many processes."""
        from opdiff.run.processes import map_processes
        from opdiff.workflows.compare.graph_tokens import TokenWork, measure_tokens

        return map_processes(measure_tokens, [TokenWork(job, measuring, rows_path) for job in jobs], workers)


class SharedReader(InputReader):
    """Reads dumps and rule files, and remembers them by their paths; the files must not change meanwhile."""

    def __init__(self) -> None:
        self._dumps: dict[tuple[str, bool], Dump] = {}
        self._rules: dict[str, RuleFile] = {}

    def rules(self, path: str) -> RuleFile:
        """Return a rule file, as `read_rules` does."""
        if path not in self._rules:
            self._rules[path] = super().rules(path)
        return self._rules[path]

    def dump(self, path: str, *, with_rules: bool) -> Dump:
        """Return a dump, as `read_dump` does."""
        key = path, with_rules
        if key not in self._dumps:
            self._dumps[key] = super().dump(path, with_rules=with_rules)
        return self._dumps[key]


class ClusterReader(InputReader):
    """Reads steps and tokens on the workers of a cluster.

    What a worker cannot open is read by this process, so that results do not depend on which worker was free.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def folder_dumps(self, folders: Iterable[Folder]) -> Iterator[Dump | InputError]:
        """Yield the dumps in folders of a training run, or why they cannot be read."""
        folders = list(folders)
        for folder, dump in zip(folders, self._cluster.map(read_step, folders), strict=True):
            yield read_step(folder) if _is_unread_dump(dump) else dump

    def pair_tokens(self, jobs: Sequence[TokenJob], workers: int) -> Iterator[list[TokenPairs]]:
        """Yield the pairs of tokens of graph mode, in order."""
        del workers
        from opdiff.workflows.compare.graph_tokens import pair_job

        for job, found in zip(jobs, self._cluster.map(pair_job, jobs), strict=True):
            yield pair_job(job) if any(map(_is_unread_token, found)) else found


def _is_unread_dump(dump: Dump | InputError) -> bool:
    """Return whether a worker could not open a file of a dump."""
    if isinstance(dump, InputError):
        return is_unread(dump.reason)
    return any(is_unread(operator.problem) for operator in dump.operators.values())


def _is_unread_token(token: TokenPairs) -> bool:
    """Return whether a worker could not open a file of a token."""
    return any(is_unread(problem) for pair in token.pairs for problem in _problems(pair))


def _problems(pair: PairingResult) -> tuple[Reason | None, ...]:
    return (pair.target.problem, pair.golden.problem) if isinstance(pair, Pairing) else (pair.reason,)


def read_step(folder: Folder) -> Dump | InputError:
    """Return the dump in a folder of a training run, or why the dump cannot be read."""
    try:
        return read_folder_dump(folder, with_rules=True)
    except InputError as error:
        return error
