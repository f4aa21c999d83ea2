"""Where errors are born: every operator's outputs beside its inputs, from the first to the last.

Inputs good, output bad: born here. Inputs bad, output about as bad: inherited. Bad although no operator adds more than
noise: accumulated. An operator that cannot be compared passes on what it is given, and is named beside the next one.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING

from opdiff.comparison import Birth, Level, Verdict
from opdiff.judge.facts import size_of
from opdiff.judge.limits import Limits, coarser
from opdiff.judge.noise import Budget, State, budget_of, coarsest, floor_of, is_quantized
from opdiff.judge.traits import Flow, trait_of
from opdiff.judge.verdict import counted, is_counted, not_comparable, of_places, opinion_of
from opdiff.values import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.judge.facts import Row, Size
    from opdiff.judge.limits import Limit
    from opdiff.judge.network import Edge, Network, Operator
    from opdiff.judge.verdict import Opinion

# Operators of which the noise of a run is learnt, at least.
_ENOUGH = 8
# How many times the usual noise of a run may be, and how much that may be above what is expected.
_ABOVE_USUAL = 2.5
_NOISIEST = 4.0
# An input may differ from what its producer wrote by this much.
_SAME = 1.25
_NO_BUDGET = Budget(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Born(NamedTuple):
    """An error that came into being at a tensor.

    Attributes:
        operator: whose it is.
        row: the number of the tensor's row.
        size: how far it is off.
        budget: what it may be off.
        states: what comes in.
        is_input: it is an input of the operator that nobody is known to have written, or that changed meanwhile.
    """

    operator: Operator
    row: int
    size: Size
    budget: Budget
    states: tuple[State, ...]
    is_input: bool = False


class Located(NamedTuple):
    """Verdicts of all rows, the errors that were born, in the order of execution, and what passes on what.

    Attributes:
        verdicts: one for each row.
        born: where errors were born.
        flows: for each operator, the operators before it and their parts of its error; what is missing is its own.
        noise: how much noisier this run is than expected.
    """

    verdicts: tuple[Verdict, ...]
    born: tuple[Born, ...]
    flows: dict[str, tuple[tuple[str, float], ...]]
    noise: float


def locate(rows: Sequence[Row], network: Network, limits: Limits) -> Located:
    """Judge every row of a network; a noisy run is judged a second time, by its own noise."""
    court = _Court(rows, network, limits, 1.0)
    located = court.run()
    usual = court.usual_noise()
    if usual <= 1.0:
        return located
    return _Court(rows, network, limits, min(usual, _NOISIEST)).run()


class _Court:
    """One pass over the network."""

    def __init__(self, rows: Sequence[Row], network: Network, limits: Limits, noise: float) -> None:
        self._rows = rows
        self._network = network
        self._limits = limits
        self._noise = noise
        self._states: dict[tuple[str, int], State] = {}
        self._verdicts: list[Verdict | None] = [None] * len(rows)
        self._born: list[Born] = []
        self._flows: dict[str, tuple[tuple[str, float], ...]] = {}
        self._ratios: list[float] = []
        self._usual = 0.0
        self._known_limits: dict[tuple[str, str], Limit] = {}

    def run(self) -> Located:
        for operator in self._network.operators.values():
            self._judge(operator)
        verdicts = tuple(
            [verdict or self._unknown(row) for verdict, row in zip(self._verdicts, self._rows, strict=True)]
        )
        return Located(verdicts, tuple(self._born), self._flows, self._noise)

    def usual_noise(self) -> float:
        """What operators add, in units of what they are expected to add, allowing for the spread."""
        if len(self._ratios) < _ENOUGH:
            return 1.0
        return _ABOVE_USUAL * sorted(self._ratios)[len(self._ratios) // 2]

    def _unknown(self, row: Row) -> Verdict:
        if row.metrics is None:
            return Verdict(*not_comparable(row))
        size = size_of(row.metrics)
        if size is None:
            return Verdict(Level.NOT_COMPARABLE, "the tensor has no elements")
        return Verdict(*self._alone(row, size))

    def _limit(self, dtype: str, row: Row) -> Limit:
        name = row.key.op if row.key else row.label.target
        if self._limits.names:
            return self._limits.of(dtype, row.label.op_type, name)
        key = dtype, row.label.op_type
        if key not in self._known_limits:
            self._known_limits[key] = self._limits.of(dtype, row.label.op_type, name)
        return self._known_limits[key]

    def _alone(self, row: Row, size: Size) -> Opinion:
        """A tensor of which nothing is known but its numbers."""
        metrics = row.metrics
        if metrics is None:
            return not_comparable(row)
        limit = self._limit(coarser(row.target_dtype, row.golden_dtype), row)
        if is_counted(row):
            return counted(metrics, limit)
        return opinion_of(metrics, size, limit, limit.noise, 16 * limit.noise * size.rms)

    # Inputs

    def _judge(self, operator: Operator) -> None:
        inputs = [(edge, self._input(operator, edge)) for edge in operator.edges]
        states = tuple([_from(edge, state) for edge, state in inputs if state is not None])
        compared = False
        for index, number in operator.outputs.items():
            row = self._rows[number]
            size = size_of(row.metrics) if row.metrics is not None else None
            if row.metrics is None or size is None:
                continue
            compared = True
            if trait_of(operator.node.op_type).flow is not Flow.PICK or not is_counted(row):
                self._output(operator, index, number, size, states)
        if trait_of(operator.node.op_type).flow is Flow.PICK:
            self._places(operator, states)
        if not compared:
            self._pass_on(operator, states)

    def _input(self, operator: Operator, edge: Edge) -> State | None:
        """What is known about the error that comes in at an input."""
        before = self._find_state(edge)
        row = None if edge.row is None else self._rows[edge.row]
        size = None if row is None or row.metrics is None else size_of(row.metrics)
        if edge.row is None or row is None or size is None:
            return before
        if before is None or before.through:
            return self._first_seen(operator, edge.row, size, before)
        producer = edge.producer or ("", 0)
        if size.error <= _SAME * before.error + 1e-12 and not size.special > before.special:
            self._repeat(edge.row, producer)
            return before
        return self._changed(operator, edge.row, size, before)

    def _find_state(self, edge: Edge) -> State | None:
        if edge.producer is None:
            return None
        return self._states.get(edge.producer) or self._states.get((edge.producer[0], -1))

    def _first_seen(self, operator: Operator, number: int, size: Size, before: State | None) -> State:
        """An input whose producer has no numbers: it is judged by itself, or by what the producer was given."""
        row = self._rows[number]
        metrics = row.metrics
        limit = self._limit(coarser(row.target_dtype, row.golden_dtype), row)
        floor = limit.noise * self._noise
        if not self._network.is_told:
            # It may come from any operator before, and has then as much noise as that.
            floor = max(floor, 2 * self._usual)
        if metrics is None:
            return State(size.error, min(size.error, floor))
        states = (before,) if before else ()
        trait = trait_of("" if before else "Cast")
        budget = (
            budget_of(trait, states, floor, size, metrics.count)
            if before
            else _NO_BUDGET._replace(floor=floor, allowed=floor, peak=16 * floor * size.rms, clean=floor / 2)
        )
        opinion = (
            counted(metrics, limit)
            if is_counted(row)
            else opinion_of(metrics, size, limit, budget.allowed, budget.peak)
        )
        is_born = opinion.level.is_bad and not (before and before.is_bad)
        if is_born:
            self._born.append(Born(operator, number, size, budget, states, is_input=True))
        origin = (Birth.BORN if is_born else Birth.INHERITED) if opinion.level.is_bad else Birth.NONE
        self._verdicts[number] = Verdict(*opinion, origin, _over(size.error, budget.allowed))
        return self._state(row, size, opinion, budget.clean)

    def _repeat(self, number: int, producer: tuple[str, int]) -> None:
        """An input that is what its producer wrote."""
        operator = self._network.operators.get(producer[0])
        source = operator.outputs.get(producer[1]) if operator else None
        verdict = None if source is None else self._verdicts[source]
        if verdict is None:
            return
        origin = Birth.INHERITED if verdict.origin is Birth.BORN else verdict.origin
        self._verdicts[number] = verdict._replace(origin=origin)

    def _changed(self, operator: Operator, number: int, size: Size, before: State) -> State:
        """An input that is worse than what its producer wrote: something happened to it in between."""
        row = self._rows[number]
        metrics = row.metrics
        limit = self._limit(coarser(row.target_dtype, row.golden_dtype), row)
        allowed = 2 * before.error + limit.noise * self._noise
        peak = 4 * before.peak + 16 * allowed * size.rms
        if metrics is None:
            return before
        opinion = counted(metrics, limit) if is_counted(row) else opinion_of(metrics, size, limit, allowed, peak)
        origin = Birth.NONE
        if opinion.level.is_bad:
            is_born = size.error > allowed or size.peak > peak or size.special > before.special
            origin = Birth.BORN if is_born else Birth.INHERITED
            if is_born:
                budget = _NO_BUDGET._replace(floor=limit.noise, allowed=allowed, peak=peak, expected=before.error)
                self._born.append(Born(operator, number, size, budget, (before,), is_input=True))
        self._verdicts[number] = Verdict(*opinion, origin, _over(size.error, allowed))
        return self._state(row, size, opinion, before.clean)

    # Outputs

    def _output(self, operator: Operator, index: int, number: int, size: Size, states: tuple[State, ...]) -> None:
        row = self._rows[number]
        metrics = row.metrics
        if metrics is None:
            return
        trait = trait_of(operator.node.op_type)
        limit = self._limit(coarser(row.target_dtype, row.golden_dtype), row)
        noise = self._limit(coarsest(operator, self._rows, row), row).noise
        quantized = is_quantized(operator, self._rows, states)
        floor = floor_of(operator, self._rows, states, noise, quantized=quantized) * self._noise
        budget = budget_of(trait, states, floor, size, metrics.count)
        if is_counted(row):
            opinion = counted(metrics, limit)
        else:
            if quantized:
                limit = limit._replace(distance=max(limit.distance, self._limit("integer", row).distance))
            opinion = opinion_of(metrics, size, limit, budget.allowed, budget.peak)
            self._learn(size, budget)
        origin = self._origin(opinion, row, size, budget, states)
        if origin is Birth.BORN:
            self._born.append(Born(operator, number, size, budget, states))
        self._verdicts[number] = Verdict(*opinion, origin, _over(size.error, budget.allowed))
        state = self._state(row, size, opinion, budget.clean, operator.name)
        if origin is Birth.ACCUMULATED:
            state = state._replace(is_bad=False)
        self._states[operator.name, index] = state
        worst = self._states.get((operator.name, -1))
        if worst is None or worst.error < state.error:
            self._states[operator.name, -1] = state
            self._flows[operator.name] = _parts(states, size, budget, is_born=origin is Birth.BORN)

    def _origin(self, opinion: Opinion, row: Row, size: Size, budget: Budget, states: tuple[State, ...]) -> Birth:
        if not opinion.level.is_bad:
            return Birth.NONE
        if any(state.special for state in states):
            return Birth.INHERITED
        if size.special:
            return Birth.BORN
        if is_counted(row):
            return Birth.INHERITED if any(state.is_bad for state in states) else Birth.BORN
        worst = abs(row.metrics.worst_golden or 0) if row.metrics else 0.0
        peak = 10 * budget.floor * worst
        if size.error > budget.inherited or size.peak > budget.inherited_peak + peak:
            return Birth.BORN
        return Birth.INHERITED if any(state.is_bad for state in states) else Birth.ACCUMULATED

    def _learn(self, size: Size, budget: Budget) -> None:
        if budget.floor and size.error < inf:
            added = sqrt(max(size.error**2 - budget.expected**2, 0.0))
            self._ratios.append(added / budget.floor)

    def _places(self, operator: Operator, states: tuple[State, ...]) -> None:
        """Indices, after the values of the same operator."""
        values = [
            verdict
            for number in operator.outputs.values()
            for verdict in [self._verdicts[number]]
            if verdict is not None and not is_counted(self._rows[number])
        ]
        agree = None if not values else not any(verdict.level.is_bad for verdict in values)
        for index, number in operator.outputs.items():
            row = self._rows[number]
            size = size_of(row.metrics) if row.metrics is not None and is_counted(row) else None
            if row.metrics is None or size is None:
                continue
            limit = self._limit(coarser(row.target_dtype, row.golden_dtype), row)
            is_clean = not any(state.is_bad for state in states)
            opinion = of_places(row.metrics, limit, values_agree=agree, inputs_agree=is_clean)
            origin = Birth.NONE
            if opinion.level.is_bad:
                origin = Birth.BORN if is_clean and agree is not False else Birth.INHERITED
            if origin is Birth.BORN and opinion.level is Level.WRONG:
                self._born.append(Born(operator, number, size, _NO_BUDGET, states))
            self._verdicts[number] = Verdict(*opinion, origin)
            self._states[operator.name, index] = self._state(row, size, opinion, 0.0, operator.name)
            self._states.setdefault((operator.name, -1), self._states[operator.name, index])

    def _pass_on(self, operator: Operator, states: tuple[State, ...]) -> None:
        """What operators without numbers of their own let through."""
        flow = trait_of(operator.node.op_type).flow
        if flow is Flow.NONE or not states:
            return
        worst = max(states, key=lambda state: (state.special, state.error))
        quantized = is_quantized(operator, self._rows, states)
        through = tuple(dict.fromkeys((*(name for state in states for name in state.through), operator.name)))
        self._states[operator.name, -1] = worst._replace(through=through, quantized=quantized)
        self._flows[operator.name] = _parts(states, None, _NO_BUDGET, is_born=False)

    def _state(self, row: Row, size: Size, opinion: Opinion, clean: float, source: str = "") -> State:
        metrics = row.metrics
        width = 0.0
        if metrics is not None and metrics.golden_max is not None and metrics.golden_min is not None:
            width = float(metrics.golden_max - metrics.golden_min)
        is_bad = opinion.level.is_bad
        error = size.error if size.error < inf else 1e6
        noise = clean if is_bad else error
        self._usual = max(self._usual, noise)
        count = metrics.count if metrics is not None else 0
        size_now = size.rms, size.std, size.peak
        return State(error, noise, *size_now, width, count, is_bad, size.special, source=source)


def _from(edge: Edge, state: State) -> State:
    """The state with the operator that it comes from."""
    source = edge.producer[0] if edge.producer else ""
    return state if state.source == source else state._replace(source=source)


def _over(error: float, allowed: float) -> float | None:
    return error / allowed if allowed else None


def _parts(
    states: Sequence[State], size: Size | None, budget: Budget, *, is_born: bool
) -> tuple[tuple[str, float], ...]:
    """Who before an operator has which part of its error; together 1, less what was born in it."""
    weights = [(1e6 if state.special else state.error * (state.rms or 1.0)) ** 2 for state in states]
    total = sum(weights)
    if not total:
        return ()
    own = 0.0
    if is_born and size is not None:
        own = 1.0 if size.special or not size.error else 1 - min(budget.expected / size.error, 1.0) ** 2
    parts = zip(states, weights, strict=True)
    return tuple((state.source, (1 - own) * weight / total) for state, weight in parts if state.source)
