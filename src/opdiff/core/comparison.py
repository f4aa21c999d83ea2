"""Values of a comparison: rows of results, and the comparison that reports show.

    Pairing | Unpaired ──align, measure──► Row ──judge──► Judgement ──► Comparison

Rows of pairs that were not measured are made here, and the command that shows more about a finding. Values are small,
frozen and picklable. Tensors cannot be read from a `Comparison`, only from the `Pairing` before it.
"""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003  msgspec reads it
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from opdiff.core.dump import DumpKind, Unit
from opdiff.core.error_facts import ErrorFacts, Profile
from opdiff.core.judgement import Finding, Judgement
from opdiff.core.metrics import DocumentedMetrics, ExtraMetrics, Metrics, TensorStats
from opdiff.core.pairing import OpLabel, Pairing
from opdiff.core.pictures import TensorPicture
from opdiff.core.reasons import Reason, Status, because, statuses_of
from opdiff.core.replay import Replay
from opdiff.core.tensor import Shape, Slot, TensorKey

if TYPE_CHECKING:
    from opdiff.core.dump import SideTensor
    from opdiff.core.pairing import PairingResult, Unpaired


class Mode(StrEnum):
    """Mode of a comparison, which decides how the two sides are found and paired."""

    OFFLINE = "offline"
    GRAPH = "graph"


class DataMode(StrEnum):
    """Data that is compared; `AUTO` is `REAL` if both sides have tensor data, otherwise `STATISTICS`.

    The names are those of the documented option: `REAL` is tensor data, and `MD5` compares checksums (CRC-32).
    """

    AUTO = "auto"
    REAL = "real"
    STATISTICS = "statistics"
    MD5 = "md5"


class SideInfo(Struct, frozen=True, gc=False, array_like=True):
    """One side of a row.

    Attributes:
        path: the file, and the location in it.
        dtype: the element type; empty if unknown.
        shape: the logical shape; `None` if unknown.
        op_type: the type of its operator; empty if unknown.
        address: the device address; 0 if the dump records none, `None` without data.
        stats: statistics of the tensor, where they were read or measured.
    """

    path: str = ""
    dtype: str = ""
    shape: Shape | None = None
    op_type: str = ""
    address: int | None = None
    stats: TensorStats | None = None


class Row(Struct, frozen=True, gc=False, array_like=True):
    """One row of every report: a tensor, or an operator as a whole.

    Attributes:
        label: the operator.
        key: the target's tensor; `None` for a whole operator.
        golden_key: the golden tensor; `None` if there is none.
        target: the target's side; `None` if there is none.
        golden: the golden side; `None` if there is none.
        shape: the shape in which they were compared, or the target's stored shape; `None` without a tensor.
        data_mode: the data that was compared; never `AUTO`.
        metrics: the metrics; `None` if nothing was measured. Those of a row with a reason are doubtful.
        documented: the documented metrics of graph mode.
        extra: the metrics of the additional columns of graph mode.
        steps: conversions of both tensors to one layout.
        custom: metrics of plug-ins and user scripts: name, value, message.
        overflow: whether the target saturated; `None` if its type cannot, or nothing was measured.
        notes: reservations about the metrics.
        reason: why the tensors could not be compared, or why the comparison is doubtful; `None` if they were.
        evidence: why the two tensors belong together.
        confidence: confidence of the pairing; `None` without a pair.
        unit: rank, token and graph; `None` offline.
        timestamp: dump time of the operator in graph mode.
        stack: source-code stack of the operator in graph mode.
        golden_only: whether this is a golden operator without a target operator; graph mode only.
        is_own_input: whether the golden side is an input of the same operator, as in `Pairing`.
    """

    label: OpLabel
    key: TensorKey | None = None
    golden_key: TensorKey | None = None
    target: SideInfo | None = None
    golden: SideInfo | None = None
    shape: Shape | None = None
    data_mode: DataMode = field(default=DataMode.REAL, name="by")
    metrics: Metrics | None = None
    documented: DocumentedMetrics | None = None
    extra: ExtraMetrics | None = None
    steps: tuple[Reason, ...] = ()
    custom: tuple[tuple[str, str, str], ...] = ()
    overflow: bool | None = None
    notes: tuple[Reason, ...] = ()
    reason: Reason | None = None
    evidence: Reason | None = None
    confidence: float | None = None
    unit: Unit | None = None
    timestamp: int = 0
    stack: str = ""
    golden_only: bool = False
    is_own_input: bool = False

    @property
    def is_compared(self) -> bool:
        """Whether the two sides were compared, and nothing contradicts it."""
        return self.reason is None

    @property
    def status(self) -> Status:
        """Why the tensors were not compared, in a word: the most decisive status in the reason."""
        if self.reason is None:
            return Status.COMPARED
        found = statuses_of(self.reason)
        return next(status for status in Status if status in found)

    @property
    def is_output(self) -> bool:
        """Whether the tensor is an output."""
        return self.key is not None and self.key.slot is Slot.OUTPUT

    @property
    def target_dtype(self) -> str:
        """The target's element type; empty if unknown."""
        return self.target.dtype if self.target else ""

    @property
    def golden_dtype(self) -> str:
        """The golden element type; empty if unknown."""
        return self.golden.dtype if self.golden else ""

    @property
    def target_path(self) -> str:
        """The target's file; empty if there is none."""
        return self.target.path if self.target else ""

    @property
    def golden_path(self) -> str:
        """The golden file; empty if there is none."""
        return self.golden.path if self.golden else ""

    @property
    def target_stats(self) -> TensorStats | None:
        """The target's statistics."""
        return self.target.stats if self.target else None

    @property
    def golden_stats(self) -> TensorStats | None:
        """The golden statistics."""
        return self.golden.stats if self.golden else None

    @property
    def target_address(self) -> int | None:
        """The target's device address."""
        return self.target.address if self.target else None

    @property
    def golden_address(self) -> int | None:
        """The golden device address."""
        return self.golden.address if self.golden else None


STORED_AS_ARRAYS = (Row, OpLabel, SideInfo, TensorStats, Metrics, DocumentedMetrics, ExtraMetrics)
"""Types of rows and their parts, which are encoded without the names of their fields: half of the bytes."""


def side_info(tensor: SideTensor, op_type: str = "", measured: TensorStats | None = None) -> SideInfo:
    """Return what is known about a tensor by its description, or by its description and what was measured."""
    path = tensor.path + tensor.location
    if tensor.tensor is not None:
        spec = tensor.tensor.spec
        if measured is not None:
            return SideInfo(path, measured.dtype, measured.shape, op_type, spec.address or 0, measured)
        return SideInfo(path, spec.dtype.name, spec.origin_shape or spec.shape, op_type, spec.address or 0)
    if tensor.stats is not None:
        return SideInfo(path, tensor.stats.dtype, tensor.stats.shape, op_type, stats=tensor.stats)
    return SideInfo(path, op_type=op_type)


def paired_row(pairing: Pairing, data_mode: DataMode = DataMode.REAL, reason: Reason | None = None) -> Row:
    """Return the row of a pairing that was not measured, and the reason."""
    return Row(
        pairing.label,
        pairing.key,
        pairing.golden_key,
        side_info(pairing.target, pairing.label.op_type),
        side_info(pairing.golden, pairing.golden_type),
        _shape(pairing.target),
        data_mode,
        reason=reason,
        evidence=pairing.evidence,
        confidence=pairing.confidence,
        unit=pairing.unit,
        timestamp=pairing.timestamp,
        stack=pairing.stack,
        is_own_input=pairing.is_own_input,
    )


def unpaired_row(unpaired: Unpaired, data_mode: DataMode = DataMode.REAL) -> Row:
    """Return the row of a tensor or an operator without a partner."""
    op_type, tensor = unpaired.label.op_type, unpaired.target
    info = SideInfo(unpaired.path, op_type=op_type) if unpaired.path else None
    if tensor is not None:
        info = side_info(tensor, op_type)
    return Row(
        unpaired.label,
        unpaired.key,
        target=None if unpaired.golden_only else info,
        golden=info if unpaired.golden_only else None,
        shape=_shape(tensor) if tensor is not None else None,
        data_mode=data_mode,
        reason=unpaired.reason,
        unit=unpaired.unit,
        timestamp=unpaired.timestamp,
        stack=unpaired.stack,
        golden_only=unpaired.golden_only,
    )


def listed_row(pair: PairingResult) -> Row:
    """Return the row of a pair that is only to be listed."""
    return paired_row(pair) if isinstance(pair, Pairing) else unpaired_row(pair)


def _shape(tensor: SideTensor) -> Shape | None:
    if tensor.tensor is not None:
        return tensor.tensor.spec.shape
    return tensor.stats.shape if tensor.stats else None


class GraphNode(Struct, frozen=True, gc=False):
    """An operator of the target's network and its producers.

    Attributes:
        name: its name, as in the rows.
        op_type: its type.
        inputs: `producer:output` for each input; an empty string if the producer is unknown.
        originals: the operators of the original model that it was compiled from.
        passes: the fusion passes of the graph that created it.
        buffer_passes: the passes that fused operators through the unified buffer into it.
        is_guess: whether its producers were inferred from device addresses or execution order, without a rule file.
    """

    name: str
    op_type: str
    inputs: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    buffer_passes: tuple[str, ...] = ()
    is_guess: bool = False


class ModelGraph(Struct, frozen=True):
    """Known part of the target's network.

    Attributes:
        nodes: in the order of execution.
        units: units of graph mode that have this network.
        against_original: whether the golden side was run from the original model, and was not compiled.
    """

    nodes: tuple[GraphNode, ...]
    units: tuple[Unit, ...] = ()
    against_original: bool = False


class Side(Struct, frozen=True):
    """One of the two dumps: its directory and its kind, the number of its operators, and the first of their names.

    In graph mode, whose operators are read token by token, number and names are not known.
    """

    path: str
    kind: DumpKind
    quantized: bool = False
    operators: int = 0
    names: tuple[str, ...] = ()


class ExtraInputs(Struct, frozen=True):
    """Paths that were given besides the two dumps; empty where none was given.

    Attributes:
        fusion_rules: rule file of the model with fusion on.
        fusion_off_rules: rule file of the model with fusion off.
        quant_rules: rule file that quantization wrote.
        pairs: file of manual pairings.
        custom: directory of user-defined conversions and metrics.
    """

    fusion_rules: str = ""
    fusion_off_rules: str = ""
    quant_rules: str = ""
    pairs: str = ""
    custom: str = ""


class Environment(Struct, frozen=True):
    """Versions, machine and time of a comparison; empty if an older version saved it."""

    opdiff: str = ""
    python: str = ""
    system: str = ""
    kernel: str = ""
    time: str = ""


class TableView(Struct, frozen=True):
    """Metrics and optional columns that the user requested for the table."""

    metrics: str = "all"
    sequence: bool = False
    overflow: bool = False


class Comparison(Struct, frozen=True):
    """Two dumps, compared and judged.

    Attributes:
        mode: offline or graph mode.
        target: the target's side.
        golden: the golden side.
        scenario: kinds of the two dumps and the rules used.
        rows: the rows in the order of the reports; many of them are read from a file when they are needed.
        judgement: verdicts in the order of the rows, and findings.
        view: metrics and columns of the table.
        graphs: networks of the target; offline at most one.
        environment: versions, machine and time.
        profiles: errors of the worst tensors along their axes.
        notes: remarks about the inputs.
        extra_inputs: rule files and other paths that were given besides the dumps.
        warnings: signs that inputs were mixed up; the advice begins with them.
        error_facts: facts about the tensors of findings, on which the evidence rests.
        replays: operators that were computed again from their dumped inputs.
        pictures: pictures of the worst tensors, the operators at fault first.
        differences: recorded differences between the environments of two NPU runs.
        fitting_command: command that repeats the comparison with the rule file that fits; empty if none was found.
    """

    mode: Mode
    target: Side
    golden: Side
    scenario: Reason
    rows: Sequence[Row]
    judgement: Judgement
    view: TableView = TableView()
    graphs: tuple[ModelGraph, ...] = ()
    environment: Environment = Environment()
    profiles: tuple[Profile, ...] = ()
    notes: tuple[Reason, ...] = ()
    extra_inputs: ExtraInputs = ExtraInputs()
    warnings: tuple[Reason, ...] = ()
    error_facts: tuple[ErrorFacts, ...] = ()
    replays: tuple[Replay, ...] = ()
    pictures: tuple[TensorPicture, ...] = ()
    differences: tuple[Reason, ...] = ()
    fitting_command: str = ""

    @property
    def warning_sentences(self) -> tuple[Reason, ...]:
        """The warnings as sentences of the advice."""
        return tuple(because("compare.warning", problem=each, command=each.fact("command")) for each in self.warnings)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of graph mode, in the order of the rows."""
        return tuple(dict.fromkeys(row.unit for row in self.rows if row.unit is not None))


def next_command(comparison: Comparison, finding: Finding) -> str:
    """Return the shell command that shows the details of a finding."""
    import shlex

    words = ["opdiff", "op", finding.tensor, comparison.target.path, comparison.golden.path]
    if comparison.mode is Mode.GRAPH:
        words += ["--mode", "torchair", *(_unit_options(finding.units[0]) if finding.units else ())]
    return shlex.join([*words, *_input_options(comparison.extra_inputs)])


def _unit_options(unit: Unit) -> list[str]:
    numbers = (("--rank", unit.rank), ("--token", unit.token), ("--graph", unit.graph))
    return [word for option, number in numbers if number is not None for word in (option, str(number))]


def _input_options(given: ExtraInputs) -> list[str]:
    options = "--rules", "--fusion-off-rules", "--quant-rules", "--pairs", "--custom"
    given_paths = zip(options, structs.astuple(given), strict=True)
    return [word for option, path in given_paths if path for word in (option, path)]
