"""Tokens of graph mode, read and paired some at a time, in this process or on a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dump import GraphKind, GraphOp, Unit
from opdiff.core.reasons import Reason, because
from opdiff.core.remote.urls import is_remote
from opdiff.pair.graph.token import pair_token
from opdiff.read.graph.token_files import read_token
from opdiff.run import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opdiff.core.comparison import Pair
    from opdiff.core.dump import TokenDump
    from opdiff.core.graph import TextGraph
    from opdiff.read.directory import Folder
    from opdiff.workflows.compare.graph_units import RankGraph
    from opdiff.workflows.compare.options import CompareOptions

# Tokens of a job, which has the text of its graph besides.
_TOKENS_PER_JOB = 8
# Files from which on starting processes costs less than it gains.
_MIN_PARALLEL_FILES = 40_000


class TokenSide(Struct, frozen=True):
    """Folders of one token on one side, and their writer."""

    folders: tuple[Folder, ...]
    kind: GraphKind


class TokenJob(Struct, frozen=True):
    """Some tokens of one graph of one rank: the target, and the golden side if it has the token."""

    text: TextGraph
    tokens: tuple[tuple[Unit, TokenSide, TokenSide | None], ...]

    @property
    def sides(self) -> Iterator[TokenSide]:
        """The sides of the tokens, in order."""
        for _, target, golden in self.tokens:
            yield target
            if golden is not None:
                yield golden


class TokenPairs(Struct, frozen=True):
    """Pairs of one token, the operators of the target that no earlier token of its job has, by name, and notes."""

    unit: Unit
    pairs: tuple[Pair, ...]
    operators: Mapping[str, GraphOp]
    notes: tuple[Reason, ...]


def token_jobs(unit: RankGraph, golden_kind: GraphKind, token: int | None) -> list[TokenJob]:
    """Return the jobs of one graph of one rank; of one token if it is given."""
    golden = unit.golden.tokens if unit.golden is not None else {}
    tokens = [
        (
            Unit(unit.rank, number, unit.graph),
            TokenSide(folders, GraphKind.GE),
            TokenSide(golden[number], golden_kind) if number in golden else None,
        )
        for number, folders in unit.target.tokens.items()
        if token in (None, number)
    ]
    parts = (tokens[start : start + _TOKENS_PER_JOB] for start in range(0, len(tokens), _TOKENS_PER_JOB))
    return [TokenJob(unit.text, tuple(part)) for part in parts]


def choose_workers(jobs: Sequence[TokenJob], options: CompareOptions) -> int:
    """Return the number of processes that read and pair; 1 for this one, which suffices for few files."""
    paths = (options.target, options.golden)
    if options.in_process or any(map(is_remote, paths)):
        return 1
    count = sum(len(folder.entries) for job in jobs for side in job.sides for folder in side.folders)
    return min(options.workers or usable_cores(), len(jobs)) if count >= _MIN_PARALLEL_FILES else 1


def read_side(side: TokenSide) -> TokenDump:
    """Read the operators of one token on one side."""
    return read_token(side.folders, side.kind)


def pair_job(job: TokenJob) -> list[TokenPairs]:
    """Read and pair the tokens of a job."""
    return pair_job_by(job, read_side)


def pair_job_by(job: TokenJob, read: Callable[[TokenSide], TokenDump]) -> list[TokenPairs]:
    """Pair the tokens of a job; `read` is called for its sides in order."""
    known: set[str] = set()
    found: list[TokenPairs] = []
    for unit, target, golden in job.tokens:
        pairs = _pair(job.text, unit, read(target), None if golden is None else read(golden))
        # Most tokens have the same operators, which take as long to be sent as their pairs.
        new = {name: op for name, op in pairs.operators.items() if name not in known}
        known |= new.keys()
        found.append(replace(pairs, operators=new))
    return found


def _pair(text: TextGraph, unit: Unit, target: TokenDump, golden: TokenDump | None) -> TokenPairs:
    pairs = pair_token(unit, target, golden, text)
    notes = [] if golden is not None else [because("compare.token_of_target_only", token=unit.token)]
    skipped = [*target.skipped, *(golden.skipped if golden else ())]
    if skipped:
        path, why, count = skipped[0].path, skipped[0].reason, len(skipped)
        notes.append(because("compare.token_files_left_out", token=unit.token, count=count, path=path, why=why))
    return TokenPairs(unit, tuple(pairs), target.operators, tuple(notes))
