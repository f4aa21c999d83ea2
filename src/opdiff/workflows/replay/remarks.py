"""Remarks about a replayed operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.reasons import because
from opdiff.core.replay import ReplayVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.reasons import Reason
    from opdiff.core.replay import Replay, ReplayedOutput


def remarks_of(item: Replay) -> Iterator[Reason]:
    """Yield why an operator cannot be replayed, or what is wrong with its output."""
    if item.reason is not None:
        yield item.reason
    if item.cause is not None:
        yield item.cause.evidence
        if item.cause.runner_up is not None:
            yield because("replay.runner_up", cause=item.cause.runner_up)
    if item.verdict is ReplayVerdict.GUILTY:
        yield from _about(item.outputs[0])


def _about(output: ReplayedOutput) -> Iterator[Reason]:
    if output.unequal > output.unequal_limit:
        yield because("replay.unequal", share=output.unequal)
    elif output.error <= output.limit:
        yield because("replay.few_elements", peak=output.peak, allowed=output.peak_limit)
    yield because("replay.worst", index=output.worst, target=output.worst_target, replayed=output.worst_replayed)
