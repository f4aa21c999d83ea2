"""Rows of a token without its data: where its tensors are and which ones are pairs.

Tokens of one graph mostly have the same operators and shapes. A token with the structure of an earlier one, and with
the same answers to the questions that decided about the earlier one, has the same plan.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from opdiff.core.pairing import OpLabel, Pairing, Unpaired
from opdiff.core.tensor import NOTHING_DECLARED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opdiff.core.dump import GraphOp, SideTensor, TokenDump, Unit
    from opdiff.core.pairing import PairingResult
    from opdiff.core.reasons import Reason
    from opdiff.pair.graph.facts import Facts, Place, Question

# Index tensors may be equal by chance in some tokens and not in others, so a graph may have several plans.
_MAX_KEPT = 4


class PlannedRow(Struct, frozen=True, gc=False):
    """A row of every token that has the plan.

    Attributes:
        operator: the operator, of the target unless `is_golden_only`.
        reason: the evidence for the pair, or why there is none.
        place: its tensor; `None` for the whole operator.
        partner: the tensor that it must equal; `None` if it has no partner.
        confidence: how sure the pair is.
        stack: the operator's stack in the source code.
        is_golden_only: whether the operator is a golden one without a partner.
    """

    operator: str
    reason: Reason
    place: Place | None = None
    partner: Place | None = None
    confidence: float = 1.0
    stack: str = ""
    is_golden_only: bool = False


class _Plan(NamedTuple):
    structure: object
    asked: dict[Question, Any]
    rows: tuple[PlannedRow, ...]


class Plans:
    """The latest plans of one graph."""

    def __init__(self) -> None:
        self._known: deque[_Plan] = deque(maxlen=_MAX_KEPT)

    def find(self, facts: Facts, make: Callable[[], tuple[PlannedRow, ...]]) -> tuple[PlannedRow, ...]:
        """Return the rows of a token: those of an earlier token if they must be equal, else those from `make`."""
        structure = facts.structure
        for plan in self._known:
            if plan.structure == structure and facts.gives(plan.asked):
                return plan.rows
        # Questions about plans of other tokens are no part of this one.
        facts.asked.clear()
        rows = make()
        self._known.appendleft(_Plan(structure, facts.asked, rows))
        return rows


def fill(
    rows: tuple[PlannedRow, ...], unit: Unit, target: TokenDump, golden: TokenDump, facts: Facts
) -> Iterator[PairingResult]:
    """Yield the rows of a token by its plan."""
    for row in rows:
        op = (golden if row.is_golden_only else target).operators[row.operator]
        tensor = facts.tensors[row.place] if row.place is not None else None
        if tensor is None or row.partner is None:
            yield unpaired(unit, op, row.reason, row.stack, tensor, golden_only=row.is_golden_only)
            continue
        partner = (target if row.partner.is_target else golden).operators[row.partner.owner]
        yield Pairing(
            OpLabel(0, 0, op.op_type, op.name, partner.name),
            tensor,
            facts.tensors[row.partner],
            NOTHING_DECLARED,
            row.reason,
            row.confidence,
            unit,
            partner.op_type,
            op.timestamp,
            row.stack,
            row.partner.is_target,
        )


def unpaired(
    unit: Unit,
    op: GraphOp,
    reason: Reason,
    stack: str = "",
    tensor: SideTensor | None = None,
    *,
    golden_only: bool = False,
) -> Unpaired:
    """Return the row of a tensor without partner, or of an operator that was not compared."""
    tensors = (*op.inputs, *op.outputs) if tensor is None else (tensor,)
    return Unpaired(
        OpLabel(0, 0, op.op_type, op.name, op.name if golden_only else "*"),
        tensor.key if tensor is not None else None,
        tensor,
        reason,
        unit,
        op.path,
        op.timestamp,
        stack,
        golden_only,
        has_data=not any(each.stats is not None for each in tensors),
    )
