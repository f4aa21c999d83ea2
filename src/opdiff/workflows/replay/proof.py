"""Suspects of a comparison, computed again within a time limit, and the judgement that follows."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import Level
from opdiff.core.reasons import because
from opdiff.core.replay import ReplayVerdict
from opdiff.judge.error_model import Propagation, error_model_of
from opdiff.judge.tensor_errors import error_magnitude
from opdiff.workflows.compare.rejudging import judge_replays

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opdiff.core.comparison import Comparison
    from opdiff.core.judgement import Judgement
    from opdiff.core.metrics import Metrics
    from opdiff.core.replay import Replay
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.replay.golden_values import GoldenValues
    from opdiff.workflows.replay.options import ReplayOptions

    ReplayProgress = Callable[[int, int, float], None]
    Replayed = tuple[list[Replay], bool]


# Smaller relative errors are usual in sound networks of 16-bit floats.
_MIN_HIDING_ERROR = 0.005
# If there are no suspects, this many times as many operators are replayed.
_OPERATORS_PER_MISSING_SUSPECT = 2


class ProofOptions(Struct, frozen=True):
    """Extent of a proof.

    Attributes:
        replay: model, dump and rules; its operators are not used.
        golden: golden values that confirm a computation by types.
        count: maximum number of suspects, or of twice as many operators if there are no suspects; `None` for all
            operators.
        seconds: maximum time.
        cluster: workers that compute; `None` for this process.
    """

    replay: ReplayOptions
    golden: GoldenValues | None
    count: int | None
    seconds: float
    cluster: Cluster | None = None


def prove(comparison: Comparison, options: ProofOptions, on_progress: ReplayProgress) -> Comparison:
    """Return a comparison with its suspects replayed, and its judgement corrected.

    If none of the suspects is guilty, operators with bad outputs follow in the order of execution. If there are no
    suspects, the operators with the largest errors are replayed; without a model, only operators whose errors are large
    enough to hide a fault. `on_progress` takes the number of replayed operators, the number of operators to replay, and
    the seconds that are left.
    """
    return with_replays(comparison, options, partial(_replay_suspects, comparison, options, on_progress))


def with_replays(comparison: Comparison, options: ProofOptions, replay: Callable[[], Replayed]) -> Comparison:
    """Return a comparison judged again by the replayed operators; a problem, or a lack of time, is a note."""
    try:
        replays, is_complete = replay()
    except (InputError, UsageError) as error:
        return replace(comparison, notes=(*comparison.notes, because("replay.impossible", problem=error.reason)))
    if not is_complete:
        note = because("replay.out_of_time", seconds=options.seconds, count=len(replays))
        comparison = replace(comparison, notes=(*comparison.notes, note))
    return judge_replays(replace(comparison, replays=tuple(replays))) if replays else comparison


def _replay_suspects(comparison: Comparison, options: ProofOptions, on_progress: ReplayProgress) -> Replayed:
    """Return the replayed operators, and whether the time was enough."""
    deadline = time.monotonic() + options.seconds
    if options.count is None:
        return _run(options, (), deadline, on_progress)
    suspects = suspects_of(comparison.judgement)[: options.count]
    if not suspects:
        min_error = 0.0 if options.replay.model else _MIN_HIDING_ERROR
        likeliest = _operators_with_noise(comparison, min_error)[: _OPERATORS_PER_MISSING_SUSPECT * options.count]
        return _run(options, likeliest, deadline, on_progress) if likeliest else ([], True)
    found, is_complete = _run(options, suspects, deadline, on_progress)
    if not is_complete or any(item.verdict is ReplayVerdict.GUILTY for item in found):
        return found, is_complete
    others = [name for name in _operators_with_errors(comparison) if name not in suspects][: options.count]
    more, is_complete = _run(options, others, deadline, on_progress) if others else ([], True)
    return [*found, *more], is_complete


def _run(options: ProofOptions, operators: Sequence[str], deadline: float, on_progress: ReplayProgress) -> Replayed:
    from opdiff.workflows.replay.pipeline import replay

    def progress(done: int, total: int) -> None:
        on_progress(done, total, max(deadline - time.monotonic(), 0.0))

    found = []
    wanted = replace(options.replay, operators=tuple(operators))
    for item in replay(wanted, progress, options.cluster, options.golden):
        found.append(item)
        if time.monotonic() > deadline:
            return found, False
    return found, True


def suspects_of(judgement: Judgement) -> tuple[str, ...]:
    """Return the operators of findings, the worst first, and uncompared operators right before them."""
    found = [name for finding in judgement.findings for name in (finding.operator, *finding.before)]
    return tuple(dict.fromkeys((*found, *judgement.candidates)))


def _operators_with_errors(comparison: Comparison) -> tuple[str, ...]:
    """Return the operators with bad outputs, in the order of the rows."""
    pairs = zip(comparison.rows, comparison.judgement.verdicts, strict=True)
    return tuple(
        dict.fromkeys(
            row.key.op for row, verdict in pairs if row.key is not None and row.is_output and verdict.level.is_bad
        )
    )


def _operators_with_noise(comparison: Comparison, min_error: float) -> tuple[str, ...]:
    """Return the operators whose outputs have errors above `min_error` that noise may explain.

    The operator with the largest excess and the operator with the largest error come by turns. Operators that only move
    data are left out: they have the errors of others.
    """
    pairs = zip(comparison.rows, comparison.judgement.verdicts, strict=True)
    noisy = [
        (verdict.excess or 0.0, error, row.key.op)
        for row, verdict in pairs
        if row.key is not None and row.is_output and verdict.level is Level.NOISE
        if error_model_of(row.label.op_type).propagation is not Propagation.MOVE
        if (error := _error_of(row.metrics)) > min_error
    ]
    by_excess = sorted(noisy, key=lambda item: item[0], reverse=True)
    by_error = sorted(noisy, key=lambda item: item[1], reverse=True)
    return tuple(dict.fromkeys(name for turn in zip(by_excess, by_error, strict=True) for *_, name in turn))


def _error_of(metrics: Metrics | None) -> float:
    """Return the relative error of a tensor; 0 if it is unknown."""
    magnitude = error_magnitude(metrics)
    return 0.0 if magnitude is None else magnitude.error
