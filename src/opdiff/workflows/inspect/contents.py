"""Contents of a directory of dumps: headers, folder by folder, then facts about the data, tensor by tensor.

tree ──read_tree──► FolderRecord, … ──with_facts──► the same with TensorFacts, … ──► checks

Both steps are done by this process or on the workers of a cluster, which have the files.
"""

from __future__ import annotations

from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.dump import SkippedPath
from opdiff.core.errors import DumpError, OpdiffError
from opdiff.core.source import MAX_RANK, FileRange
from opdiff.core.tensor import Slot, TensorKey
from opdiff.read import read_operator
from opdiff.read.directory import is_debug, is_statistics, scan
from opdiff.read.filename import DumpName
from opdiff.read.folder import read_folder
from opdiff.read.overflow import read_overflow
from opdiff.read.reduced import read_reduced
from opdiff.read.statistics import read_statistics
from opdiff.workflows.cluster import is_unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.read.directory import Entry, Folder, Tree
    from opdiff.read.folder import Operator
    from opdiff.run.cluster import Cluster

    Progress = Callable[[int, int], None]
    FolderJob = tuple[int, Folder]

# Bytes that are compared at the beginning, middle and end of tensors that share an address.
_SAMPLE_BYTES = 4096
_DIGEST_BYTES = 16
# Reading a header takes about as long as looking at this many bytes, a small tensor as long as the second.
_HEADER_WEIGHT_BYTES = 1 << 18
_MIN_WEIGHT_BYTES = 1 << 14


class Depth(IntEnum):
    """Data that is read: headers only, parts of tensors as needed, or all values."""

    HEADERS = 0
    SAMPLES = 1
    VALUES = 2


class TensorFacts(Struct, frozen=True):
    """Facts about the data of one tensor.

    Attributes:
        constant: the value of all elements; `None` if they differ or there is one.
        nans: number of NaN; like the following numbers, 0 unless all values are read.
        infs: number of infinities.
        count: number of elements.
        sample: digest of parts of the content, if another operator has a tensor at the same address.
        problem: why the data could not be read, if that was not known by the header.
    """

    constant: float | int | complex | None = None
    nans: int = 0
    infs: int = 0
    count: int = 0
    sample: bytes = b""
    problem: Reason | None = None


class FolderContents(Struct, frozen=True):
    """What the files of a folder contain.

    Attributes:
        operators: its operators.
        problems: files of operators that could not be read.
        other_problems: older dumps of operators, debug records and statistics that could not be read.
        without_overflow: debug records that report no overflow.
        reduced_dtypes: element types of the tensors of reduced files; empty strings if not recorded.
        nbytes: size of all files.
    """

    operators: tuple[Operator, ...] = ()
    problems: tuple[SkippedPath, ...] = ()
    other_problems: tuple[SkippedPath, ...] = ()
    without_overflow: tuple[str, ...] = ()
    reduced_dtypes: tuple[str, ...] = ()
    nbytes: int = 0


class FolderRecord(Struct, frozen=True):
    """A folder with its contents, and the facts about the data of its tensors, in their order, if data was read."""

    folder: Folder
    contents: FolderContents
    facts: tuple[TensorFacts, ...] = ()

    def tensors(self) -> Iterator[tuple[TensorKey, Tensor]]:
        """Yield every tensor with its key."""
        for operator in self.contents.operators:
            for slot in Slot:
                for index, tensor in enumerate(operator.dump.tensors(slot)):
                    yield tensor_key(operator, slot, index), tensor


class DumpTree(Struct, frozen=True):
    """A directory tree and its contents."""

    tree: Tree
    records: tuple[FolderRecord, ...]


def tensor_key(operator: Operator, slot: Slot, index: int) -> TensorKey:
    """Return the key of a tensor; the name of a file with a single tensor contains the key."""
    parsed = operator.files[-1].parsed
    if isinstance(parsed, DumpName):
        return TensorKey(operator.name, slot, index)
    return TensorKey(operator.name, getattr(parsed, "slot", Slot.OUTPUT), parsed.index)


def is_sliced(operator: Operator) -> bool:
    """Return whether an operator was dumped in slices."""
    return any(isinstance(entry.parsed, DumpName) and entry.parsed.is_slice for entry in operator.files)


def shared_addresses(record: FolderRecord) -> dict[int, list[tuple[int, TensorKey]]]:
    """Return the addresses of tensors of several operators, with the positions and keys of these tensors."""
    by_address: dict[int, list[tuple[int, TensorKey]]] = {}
    for position, (key, tensor) in enumerate(record.tensors()):
        if tensor.spec.address is not None and isinstance(tensor.source, FileRange):
            by_address.setdefault(tensor.spec.address, []).append((position, key))
    return {address: found for address, found in by_address.items() if len({key.op for _, key in found}) > 1}


def read_tree(path: str, progress: Progress, cluster: Cluster | None = None) -> DumpTree:
    """Read the headers of a directory tree. `progress` is called with the files read and the total.

    Raises:
        InputError: the directory cannot be read.
    """
    tree = scan(path)
    total = sum(len(folder.entries) for folder in tree.folders)
    found: dict[int, FolderContents] = {}
    jobs = list(enumerate(tree.folders))
    done = 0
    for (number, folder), contents in _read_all(jobs, cluster):
        found[number] = contents
        done += len(folder.entries)
        progress(done, total)
    return DumpTree(tree, tuple(FolderRecord(folder, found[number]) for number, folder in jobs))


def _read_all(jobs: Sequence[FolderJob], cluster: Cluster | None) -> Iterable[tuple[FolderJob, FolderContents]]:
    if cluster is None:
        return ((job, read_contents(job)) for job in jobs)
    from opdiff.run.cluster import BatchWork
    from opdiff.run.worker_task import Each

    work = BatchWork(
        Each(read_contents),
        lambda job, reason: FolderContents(problems=(SkippedPath(job[1].path, reason),)),
        lambda job: len(job[1].entries) * _HEADER_WEIGHT_BYTES,
        is_unread=lambda contents: not contents.operators and any(is_unread(each.reason) for each in contents.problems),
    )
    return cluster.run(work, jobs)


def with_facts(dumps: DumpTree, depth: Depth, progress: Progress, cluster: Cluster | None = None) -> DumpTree:
    """Return the tree with facts about the data. `progress` is called with the bytes that are done, and all bytes."""
    if depth is Depth.HEADERS:
        return dumps
    jobs = [job for number, record in enumerate(dumps.records) for job in _tensor_jobs(number, record, depth)]
    found: dict[tuple[int, int], TensorFacts] = {}
    total, done = sum(job.weight for job in jobs), 0
    for job, known in _look_at_all(jobs, cluster):
        found[job.record, job.position] = known
        done += job.weight
        progress(done, total)
    facts = [
        tuple(found[number, position] for position, _ in enumerate(record.tensors()))
        for number, record in enumerate(dumps.records)
    ]
    records = zip(dumps.records, facts, strict=True)
    return replace(dumps, records=tuple(replace(record, facts=own) for record, own in records))


class TensorJob(Struct, frozen=True):
    """A tensor whose data is looked at.

    Attributes:
        record: number of its folder.
        position: its position in the folder.
        tensor: the tensor.
        depth: which data is read.
        is_shared: whether another operator has a tensor at the same address.
    """

    record: int
    position: int
    tensor: Tensor
    depth: Depth
    is_shared: bool

    @property
    def weight(self) -> int:
        """Bytes that take about as long."""
        return max(self.tensor.source.nbytes, _MIN_WEIGHT_BYTES)


def _tensor_jobs(number: int, record: FolderRecord, depth: Depth) -> Iterator[TensorJob]:
    shared = {position for sharers in shared_addresses(record).values() for position, _ in sharers}
    for position, (_, tensor) in enumerate(record.tensors()):
        yield TensorJob(number, position, tensor, depth, position in shared)


def _look_at_all(jobs: Sequence[TensorJob], cluster: Cluster | None) -> Iterable[tuple[TensorJob, TensorFacts]]:
    if cluster is None:
        return ((job, look_at(job)) for job in jobs)
    from opdiff.run.cluster import BatchWork
    from opdiff.run.worker_task import Each

    work = BatchWork(
        Each(look_at),
        lambda _job, reason: TensorFacts(problem=reason),
        lambda job: job.weight,
        is_unread=lambda facts: facts.problem is not None,
    )
    return cluster.run(work, jobs)


# By this process or on a worker


def read_contents(job: FolderJob) -> FolderContents:
    """Read the headers in a folder."""
    _, folder = job
    operators, problems = read_folder(folder)
    seen = {problem.path for problem in problems}
    seen |= {entry.path for op in operators for entry in (op.files if is_sliced(op) else op.files[-1:])}
    others = [(entry.path, _why_unreadable(entry)) for entry in folder.entries if entry.path not in seen]
    return FolderContents(
        operators,
        problems,
        tuple(SkippedPath(path, reason) for path, reason in others if reason is not None),
        tuple(entry.path for entry in folder.entries if is_debug(entry) and not _reports_overflow(entry)),
        tuple(dtype for entry in folder.entries if entry.parsed.reduced for dtype in _reduced_dtypes(entry)),
        sum(entry.nbytes for entry in folder.entries),
    )


def _why_unreadable(entry: Entry) -> Reason | None:
    try:
        if is_statistics(entry):
            read_statistics(entry.path)
        elif is_debug(entry):
            read_overflow(read_operator(entry.path, entry.name))
        else:
            read_operator(entry.path, entry.name)
    except DumpError as error:
        return error.brief
    return None


def _reports_overflow(entry: Entry) -> bool:
    """Return whether a debug file has a record of an overflow; assumed for unreadable files."""
    try:
        return any(record.overflowed for record in read_overflow(read_operator(entry.path, entry.name)))
    except OpdiffError:
        return True


def _reduced_dtypes(entry: Entry) -> list[str]:
    """Return the element types in a reduced file; none if the file is damaged, which a check reports."""
    try:
        return [known.dtype for stats in read_reduced(entry.path, entry.name).values() for known in stats]
    except DumpError:
        return []


def look_at(job: TensorJob) -> TensorFacts:
    """Return facts about the data of a tensor; what its header already shows to be wrong is left to other checks."""
    spec = job.tensor.spec
    sample = _sample(job.tensor) if job.is_shared else b""
    if len(spec.shape) > MAX_RANK or (spec.count < 2 and job.depth is not Depth.VALUES):
        return TensorFacts(sample=sample)
    try:
        codes = job.tensor.codes()
    except OpdiffError as error:
        return TensorFacts(sample=sample, problem=error.brief if is_unread(error.brief) else None)
    found = _count_not_finite(job.tensor, codes) if job.depth is Depth.VALUES else TensorFacts()
    return replace(found, constant=_constant(job.tensor, codes), sample=sample)


def _constant(tensor: Tensor, codes: AnyArray) -> float | int | complex | None:
    from opdiff.measure.tensor_stats import constant_value

    try:
        return constant_value(codes, tensor.spec.dtype) if tensor.spec.count > 1 else None
    except OpdiffError:
        # An element type that cannot be decoded, which a check reports.
        return None


def _count_not_finite(tensor: Tensor, codes: AnyArray) -> TensorFacts:
    from opdiff.measure.tensor_stats import finite_stats

    try:
        found = finite_stats(codes, tensor.spec.dtype)
    except OpdiffError:
        # As above; complex tensors have no statistics.
        return TensorFacts()
    return TensorFacts(nans=found.nans, infs=found.infs, count=found.count)


def _sample(tensor: Tensor) -> bytes:
    """Return a digest of the size and of parts of the content; tensors with different digests are different."""
    source = tensor.source
    if not isinstance(source, FileRange):
        return b""
    digest = blake2b(str(source.nbytes).encode(), digest_size=_DIGEST_BYTES)
    middle, last = max((source.nbytes - _SAMPLE_BYTES) // 2, 0), max(source.nbytes - _SAMPLE_BYTES, 0)
    try:
        for start in sorted({0, middle, last}):
            part = FileRange(source.path, source.offset + start, min(_SAMPLE_BYTES, source.nbytes - start))
            digest.update(bytes(part.raw()))
    except OpdiffError:
        return b""
    return digest.digest()
