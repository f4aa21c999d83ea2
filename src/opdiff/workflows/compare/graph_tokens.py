"""Tokens of graph mode, some at a time, in this process or on a worker: read and paired, or also measured.

TokenJob ────────pair_job─► TokenPairs, …    the pairs of each token, measured where all pairs are collected
TokenWork ─measure_tokens─► TokenRows        the rows of all tokens, stored in a file by the process that measured them
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import DataMode
from opdiff.core.dump import GraphKind, Unit
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import Reason, because
from opdiff.core.remote.urls import is_remote
from opdiff.core.row_store import EncodedRows, encode_rows, store_blocks
from opdiff.core.tensor import Slot
from opdiff.pair.graph.names import DumpedOperator
from opdiff.pair.graph.token import GraphPairing
from opdiff.read.graph.token_files import read_token
from opdiff.run import usable_cores
from opdiff.workflows.compare.job import data_mode
from opdiff.workflows.compare.measuring import MeasuredBlocks, align_and_measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from opdiff.core.dump import TokenDump
    from opdiff.core.graph import TextGraph
    from opdiff.core.pairing import PairingResult
    from opdiff.core.row_store import Block
    from opdiff.read.directory import Folder
    from opdiff.workflows.compare.graph_units import RankGraph
    from opdiff.workflows.compare.measuring import Measuring
    from opdiff.workflows.compare.options import CompareOptions

# Most tokens of a job, which has the text of its graph besides.
_MAX_TOKENS_PER_JOB = 8
# With this many jobs for each core, all cores end at about the same time.
_JOBS_PER_CORE = 8
# Graphs of a rank whose pairings are kept for the other ranks.
_MAX_GRAPHS = 4
# With at least this many files, processes save more time than their start takes.
_MIN_PARALLEL_FILES = 40_000
_SLOT_ORDER = {None: -1, Slot.INPUT: 0, Slot.OUTPUT: 1}


class TokenSide(Struct, frozen=True):
    """Folders of one token on one side, and their writer."""

    folders: tuple[Folder, ...]
    kind: GraphKind


class TokenJob(Struct, frozen=True):
    """Some tokens of one graph of one rank: the target, and the golden side if the golden side has the token."""

    text: TextGraph
    tokens: tuple[tuple[Unit, TokenSide, TokenSide | None], ...]

    @property
    def file_count(self) -> int:
        """Number of files on both sides."""
        return sum(len(folder.entries) for side in self.sides for folder in side.folders)

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
    pairs: tuple[PairingResult, ...]
    operators: Mapping[str, DumpedOperator]
    notes: tuple[Reason, ...]


class TokenWork(Struct, frozen=True):
    """A job whose tokens are also measured, how, and the path of the file that their rows are appended to."""

    job: TokenJob
    measuring: Measuring
    rows_path: str


class TokenRows(Struct, frozen=True):
    """Measured tokens of a job.

    Attributes:
        units: the tokens.
        rows: stored rows, numbered from 0 in the table of each `DataMode`.
        counts: number of rows in each table.
        operators: as in `TokenPairs`.
        notes: notes about the tokens.
        nbytes: measured data.
    """

    units: tuple[Unit, ...]
    rows: MeasuredBlocks
    counts: Mapping[DataMode, int]
    operators: Mapping[str, DumpedOperator]
    notes: tuple[Reason, ...]
    nbytes: int


def tokens_per_job(units: Iterable[RankGraph], workers: int) -> int:
    """Return how many tokens a job has, so that all workers have work until the end."""
    count = sum(len(unit.target.tokens) for unit in units)
    return max(1, min(count // (_JOBS_PER_CORE * workers), _MAX_TOKENS_PER_JOB))


def token_jobs(unit: RankGraph, golden_kind: GraphKind, token: int | None, max_tokens: int) -> list[TokenJob]:
    """Return the jobs of one graph of one rank, each of up to `max_tokens` tokens; of one token if a token is given."""
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
    parts = (tokens[start : start + max_tokens] for start in range(0, len(tokens), max_tokens))
    return [TokenJob(unit.text, tuple(part)) for part in parts]


def choose_workers(jobs: Sequence[TokenJob], options: CompareOptions) -> int:
    """Return the number of processes that read and pair; 1 for this process, which suffices for few files."""
    paths = (options.target, options.golden)
    if options.in_process or any(map(is_remote, paths)):
        return 1
    count = sum(job.file_count for job in jobs)
    return min(options.workers or usable_cores(), len(jobs)) if count >= _MIN_PARALLEL_FILES else 1


def pair_job(job: TokenJob) -> list[TokenPairs]:
    """Read and pair the tokens of a job."""
    return list(_iter_pairs(job, GraphPairing(job.text)))


def pair_jobs(jobs: Iterable[TokenJob]) -> Iterator[list[TokenPairs]]:
    """Read and pair the tokens of jobs; ranks mostly have the same graphs, whose tokens are paired alike."""
    recent: deque[GraphPairing] = deque(maxlen=_MAX_GRAPHS)
    for job in jobs:
        pairing = next((known for known in recent if known.graph == job.text), None)
        if pairing is None:
            pairing = GraphPairing(job.text)
            recent.append(pairing)
        yield list(_iter_pairs(job, pairing))


def _iter_pairs(job: TokenJob, pairing: GraphPairing) -> Iterator[TokenPairs]:
    known: set[str] = set()
    for unit, target_side, golden_side in job.tokens:
        target = read_token(target_side.folders, target_side.kind)
        golden = None if golden_side is None else read_token(golden_side.folders, golden_side.kind)
        pairs = pairing.pair(unit, target, golden)
        # Most tokens have the same operators.
        new = {name: DumpedOperator.of(op) for name, op in target.operators.items() if name not in known}
        known |= new.keys()
        yield TokenPairs(unit, pairs, new, _token_notes(unit, target, golden))


def measure_tokens(work: TokenWork) -> TokenRows:
    """Read, pair and measure the tokens of a job, one after the other, in this thread."""
    from opdiff.run.processes import until_stopped

    measuring = replace(work.measuring, workers=1, in_process=True)
    counts = dict.fromkeys(DataMode, 0)
    units: list[Unit] = []
    blocks: list[Block] = []
    defects: list[str] = []
    kept: list[PairingResult | None] = []
    operators: dict[str, DumpedOperator] = {}
    notes: list[Reason] = []
    nbytes = 0
    for token in until_stopped(_iter_pairs(work.job, GraphPairing(work.job.text))):
        pairs = in_row_order(token.pairs, measuring.data_mode, counts)
        measured = align_and_measure(pairs, measuring, lambda _done, _total: None)
        units.append(token.unit)
        blocks += store_blocks(encode_rows(measured.rows), work.rows_path)
        defects += measured.defects
        kept += measured.pairs
        operators |= token.operators
        notes += token.notes
        nbytes += sum(pair.nbytes for pair in pairs if isinstance(pair, Pairing))
    rows = MeasuredBlocks(EncodedRows(tuple(blocks)), tuple(defects), kept)
    return TokenRows(tuple(units), rows, counts, operators, tuple(notes), nbytes)


def in_row_order(
    pairs: Iterable[PairingResult], requested: DataMode, counts: dict[DataMode, int]
) -> tuple[PairingResult, ...]:
    """Return the pairs of a token in the order of their rows, numbered within their table, from `counts` on.

    Each `DataMode` has its own table.
    """
    numbered: list[PairingResult] = []
    for pair in sorted(pairs, key=_row_order):
        mode = data_mode(pair, requested)
        numbered.append(replace(pair, label=replace(pair.label, index=counts[mode])))
        counts[mode] += 1
    return tuple(numbered)


def _row_order(pair: PairingResult) -> tuple[bool, int, str, int, int]:
    """Sort the pairs of a token: unused golden operators last, then by time and operator, inputs before outputs."""
    is_golden = not isinstance(pair, Pairing) and pair.golden_only
    slot, index = (pair.key.slot, pair.key.index) if pair.key else (None, 0)
    return is_golden, pair.timestamp, pair.label.target, _SLOT_ORDER[slot], index


def _token_notes(unit: Unit, target: TokenDump, golden: TokenDump | None) -> tuple[Reason, ...]:
    notes = [] if golden is not None else [because("compare.token_of_target_only", token=unit.token)]
    skipped = [*target.skipped, *(golden.skipped if golden else ())]
    if skipped:
        path, why, count = skipped[0].path, skipped[0].reason, len(skipped)
        notes.append(because("compare.token_files_left_out", token=unit.token, count=count, path=path, why=why))
    return tuple(notes)
