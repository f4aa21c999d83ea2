"""How much of a network was compared, how well its outputs agree, and whether rules and dumps belong together."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.comparison import DataMode
from opdiff.core.judgement import Agreement, Coverage, Level, ModelOutputs
from opdiff.core.reasons import Status, because
from opdiff.core.tensor import Slot
from opdiff.judge.error_model import Propagation
from opdiff.judge.tensor_errors import error_magnitude

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.judgement import Verdict
    from opdiff.core.reasons import Reason
    from opdiff.judge.network import Network

# Inputs, outputs and constants of a graph; they compute nothing and are not dumped.
_GRAPH_ENDPOINT_TYPES = frozenset({"Const", "Constant", "ConstPlaceHolder", "Data", "NetOutput", "RefData", "Variable"})
# Relative error of outputs that agree, however small the budget of the last operator is: 1 - cosine is 1e-6.
_MATCHING_ERROR = 1.5e-3
# Larger errors of outputs are visible, even if noise explains them.
_MAX_NOISE_OF_OUTPUTS = 0.05
# Share of the dumped operators that rules of the same model contain, at least.
_MIN_KNOWN_SHARE = 0.5
# Sentences about rules of another model, by the status of operators that they do not contain.
_MISFITS = {
    Status.NOT_IN_RULES: "judge.rules_do_not_fit",
    Status.NOT_IN_QUANT_RULES: "judge.quantization_does_not_fit",
}
_MAX_NAMES = 3
_BEST_FIRST = (Agreement.MATCH, Agreement.UNKNOWN, Agreement.SLIGHT, Agreement.SIGNIFICANT)


def coverage_of(rows: Sequence[Row], network: Network) -> Coverage:
    """Return how much of a network was compared."""
    operators: dict[str, None] = {}
    compared: set[str] = set()
    ways = [row.data_mode for row in rows if row.reason is None]
    for row in rows:
        key = row.key
        name = key.op if key else target_name(row)
        if row.golden_only or name == "*" or row.label.op_type in _GRAPH_ENDPOINT_TYPES:
            continue
        if row.status is Status.NOT_EXPECTED:
            continue
        operators[name] = None
        if row.reason is None and key and key.slot is Slot.OUTPUT:
            compared.add(name)
    uncompared = [name for name in operators if name not in compared]
    seen = _seen_operators(rows, network) if uncompared else set()
    return Coverage(
        len(operators),
        len(compared),
        ways.count(DataMode.REAL),
        ways.count(DataMode.STATISTICS),
        ways.count(DataMode.MD5),
        tuple(name for name in uncompared if name not in seen),
    )


def target_name(row: Row) -> str:
    """Return the operator of a row about a whole operator; one that vanished from the target has its golden name."""
    is_missing = row.label.target == "*" and row.status is Status.NOT_DUMPED
    return row.label.golden if is_missing else row.label.target


def merge_coverage(parts: Sequence[Coverage]) -> Coverage:
    """Return the coverage of several units of graph mode together."""
    return Coverage(
        sum(part.operators for part in parts),
        sum(part.compared for part in parts),
        sum(part.data for part in parts),
        sum(part.statistics for part in parts),
        sum(part.checksums for part in parts),
        tuple(dict.fromkeys(name for part in parts for name in part.unseen)),
    )


def _seen_operators(rows: Sequence[Row], network: Network) -> set[str]:
    """Return the operators of which a tensor, or a tensor computed from their outputs, was compared."""
    seen: set[str] = set()
    for name, operator in reversed(network.operators.items()):
        outputs = [*operator.outputs.values(), *[edge.row for edge in operator.edges if edge.row is not None]]
        if name in seen or any(rows[row_index].is_compared for row_index in outputs):
            seen.add(name)
            seen.update(edge.producer[0] for edge in operator.edges if edge.producer)
    return seen


def model_outputs(
    rows: Sequence[Row], verdicts: Sequence[Verdict], network: Network, noise: float = 1.0
) -> ModelOutputs:
    """Return how well the outputs of the model agree; unknown if the network is not known.

    In a run with more noise than usual, outputs with the same error match less.
    """
    largest = _MAX_NOISE_OF_OUTPUTS / max(noise, 1.0)
    found: list[ModelOutputs] = []
    missing: list[str] = []
    for name in network.outputs if network.has_edges else ():
        operator = network.operators[name]
        judged = [(rows[row_index], verdicts[row_index]) for row_index in operator.outputs.values()]
        compared = [_output(*each, largest) for each in judged if each[1].level is not Level.NOT_COMPARABLE]
        found += compared
        if not compared and operator.error_model.propagation is not Propagation.NONE:
            missing.append(name)
    return worst_outputs(found, missing)


def worst_outputs(found: Iterable[ModelOutputs], missing: Iterable[str] = ()) -> ModelOutputs:
    """Return the worst of several outputs; outputs that were not compared make a good result uncertain."""
    known = [each for each in found if each.tensor]
    absent = tuple(dict.fromkeys((*(name for each in found for name in each.missing), *missing)))
    if not known:
        return ModelOutputs(missing=absent)
    worst = max(known, key=lambda each: (_BEST_FIRST.index(each.agreement), each.error or 0.0))
    is_good = worst.agreement is Agreement.MATCH
    return replace(worst, agreement=Agreement.UNKNOWN if is_good and absent else worst.agreement, missing=absent)


def _output(row: Row, verdict: Verdict, max_noise: float) -> ModelOutputs:
    magnitude = error_magnitude(row.metrics)
    error = None if magnitude is None else inf if magnitude.has_special_mismatch else magnitude.error
    is_close = error is not None and error <= _MATCHING_ERROR
    if row.data_mode is DataMode.MD5:
        # Two checksums are equal or not, whatever the size of the error.
        agreement = Agreement.UNKNOWN
    elif verdict.level is Level.WRONG:
        agreement = Agreement.SIGNIFICANT
    elif row.data_mode is DataMode.STATISTICS and not verdict.level.is_bad:
        agreement = Agreement.UNKNOWN
    elif is_close or (not verdict.level.is_bad and (error or 0.0) <= max_noise):
        agreement = Agreement.MATCH
    else:
        agreement = Agreement.SLIGHT
    return ModelOutputs(agreement, str(row.key), row.metrics.cosine if row.metrics else None, error)


def misfit_of(rows: Sequence[Row]) -> Reason | None:
    """Return why rules and dump are not of the same model: most dumped operators are unknown to the rules."""
    unknown: dict[str, str] = {}
    absent: dict[str, None] = {}
    dumped: set[str] = set()
    for row in rows:
        name = row.key.op if row.key else row.label.target
        status = row.status
        sentence = _MISFITS.get(status)
        if sentence is not None:
            unknown[name] = sentence
        elif row.key is not None:
            dumped.add(name)
        elif status in (Status.NOT_DUMPED, Status.NOT_EXPECTED):
            absent[name] = None
    total = len(dumped) + len(unknown)
    if not unknown or len(dumped) >= _MIN_KNOWN_SHARE * total:
        return None
    return because(
        next(iter(unknown.values())),
        unknown=len(unknown),
        total=total,
        examples=tuple(unknown)[:_MAX_NAMES],
        absent=len(absent),
        absent_examples=tuple(absent)[:_MAX_NAMES],
    )
