"""Where errors are born: every operator's outputs beside its inputs, from the first to the last.

Inputs good, output bad: born here. Inputs bad, output about as bad: inherited. Bad although no operator adds more than
noise: accumulated. An operator that cannot be compared passes on what it is given, and is named beside the next one.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.judgement import Birth, Level, Verdict
from opdiff.core.reasons import because
from opdiff.judge.error_model import Flow, trait_of
from opdiff.judge.levels import counted, is_counted, of_places, opinion_of
from opdiff.judge.limits import Limits, coarser
from opdiff.judge.noise import Budget, State, budget_of, coarsest, floor_of, inherited, is_quantized
from opdiff.judge.tensor_facts import size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.metrics import Metrics
    from opdiff.judge.error_model import Trait
    from opdiff.judge.levels import Opinion
    from opdiff.judge.limits import Limit
    from opdiff.judge.network import Edge, Network, Operator
    from opdiff.judge.tensor_facts import Size

    # What comes in at an operator, and the part of its error that is its own.
    Passed = tuple[tuple[State, ...], float]

# Operators of which the noise of a run is learnt, at least.
_ENOUGH = 8
# How many times the usual noise of a run may be, and how much that may be above what is expected.
_ABOVE_USUAL = 2.5
_NOISIEST = 4.0
# An input may differ from what its producer wrote by this much.
_SAME = 1.25
_NO_BUDGET = Budget(0.0, 0.0, 0.0)
# Members that every row is compared with: to look one up in its class takes longer than to compare.
_NONE, _BORN, _PICK = Birth.NONE, Birth.BORN, Flow.PICK


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
    """Verdicts of all rows, the errors that were born, in the order of execution, and what passed on what.

    Attributes:
        verdicts: one for each row.
        born: where errors were born.
        passed: for each operator what came in, and the part of its error that is its own.
        noise: how much noisier this run is than expected.
    """

    verdicts: tuple[Verdict, ...]
    born: tuple[Born, ...]
    passed: dict[str, Passed]
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
        self._worst: dict[str, State] = {}
        self._verdicts: list[Verdict | None] = [None] * len(rows)
        self._born: list[Born] = []
        self._passed: dict[str, Passed] = {}
        self._ratios: list[float] = []
        self._usual = 0.0
        self._known_limits: dict[tuple[str, str], Limit] = {}

    def run(self) -> Located:
        for operator in self._network.operators.values():
            self._judge(operator)
        verdicts = tuple(
            [verdict or self._unknown(row) for verdict, row in zip(self._verdicts, self._rows, strict=True)]
        )
        return Located(verdicts, tuple(self._born), self._passed, self._noise)

    def usual_noise(self) -> float:
        """What operators add, in units of what they are expected to add, allowing for the spread."""
        if len(self._ratios) < _ENOUGH:
            return 1.0
        return _ABOVE_USUAL * sorted(self._ratios)[len(self._ratios) // 2]

    def _unknown(self, row: Row) -> Verdict:
        """A row of which nothing is known but its numbers."""
        metrics = row.metrics
        if metrics is None:
            return Verdict(Level.NOT_COMPARABLE, row.reason or because("judge.not_measured"))
        size = size_of(metrics)
        if size is None:
            return Verdict(Level.NOT_COMPARABLE, because("judge.no_elements"))
        noise = self._limit(coarser(row.target_dtype, row.golden_dtype), row).noise
        return Verdict(*self._opinion(row, metrics, size, noise, 16 * noise * size.rms))

    def _limit(self, dtype: str, row: Row) -> Limit:
        op_type = row.label.op_type
        if self._limits.names:
            return self._limits.of(dtype, op_type, row.key.op if row.key else row.label.target)
        limit = self._known_limits.get((dtype, op_type))
        if limit is None:
            limit = self._known_limits[dtype, op_type] = self._limits.of(dtype, op_type, "")
        return limit

    def _opinion(self, row: Row, metrics: Metrics, size: Size, allowed: float, peak: float) -> Opinion:
        limit = self._limit(coarser(row.target_dtype, row.golden_dtype), row)
        return counted(metrics, limit) if is_counted(row) else opinion_of(metrics, size, limit, allowed, peak)

    # Inputs

    def _judge(self, operator: Operator) -> None:
        states = self._inputs(operator)
        picks = operator.trait.flow is _PICK
        compared = False
        for index, number in operator.outputs.items():
            row = self._rows[number]
            size = size_of(row.metrics) if row.metrics is not None else None
            if size is None:
                continue
            compared = True
            if not picks or not is_counted(row):
                self._output(operator, index, number, size, states)
        if picks:
            self._places(operator, states)
        if not compared:
            self._pass_on(operator, states)

    def _inputs(self, operator: Operator) -> tuple[State, ...]:
        """What is known about the errors that come in, and the operators that they come from."""
        states = []
        for edge in operator.edges:
            state = self._find_state(edge)
            if edge.row is not None:
                state = self._input(operator, edge.row, edge, state)
            if state is not None:
                source = edge.producer[0] if edge.producer else ""
                states.append(state if state.source == source else state._replace(source=source))
        return tuple(states)

    def _find_state(self, edge: Edge) -> State | None:
        producer = edge.producer
        if producer is None:
            return None
        return self._states.get(producer) or self._worst.get(producer[0])

    def _input(self, operator: Operator, number: int, edge: Edge, before: State | None) -> State | None:
        """What is known about an input that was dumped itself, beside what its producer wrote."""
        metrics = self._rows[number].metrics
        size = size_of(metrics) if metrics is not None else None
        if metrics is None or size is None:
            return before
        if before is None or before.through:
            return self._first_seen(operator, number, metrics, size, before)
        if size.error <= _SAME * before.error + 1e-12 and not size.special > before.special:
            self._repeat(number, edge.producer or ("", 0))
            return before
        return self._changed(operator, number, metrics, size, before)

    def _first_seen(self, operator: Operator, number: int, metrics: Metrics, size: Size, before: State | None) -> State:
        """An input whose producer has no numbers: it is judged by itself, or by what the producer was given."""
        row = self._rows[number]
        floor = self._limit(coarser(row.target_dtype, row.golden_dtype), row).noise * self._noise
        if not self._network.is_told:
            # It may come from any operator before, and has then as much noise as that.
            floor = max(floor, 2 * self._usual)
        if before:
            budget = budget_of(trait_of(""), (before,), floor, size, metrics.count)
        else:
            budget = Budget(floor, floor, 16 * floor * size.rms)
        level, rule = self._opinion(row, metrics, size, budget.allowed, budget.peak)
        is_bad, origin = level.is_bad, _NONE
        if is_bad:
            origin = Birth.INHERITED if before and before.is_bad else _BORN
        if origin is _BORN:
            states = (before,) if before else ()
            self._born.append(Born(operator, number, size, budget, states, is_input=True))
        self._verdicts[number] = Verdict(level, rule, origin, _over(size.error, budget.allowed))
        return self._state(metrics, size, budget.clean if is_bad else None)

    def _repeat(self, number: int, producer: tuple[str, int]) -> None:
        """An input that is what its producer wrote."""
        operator = self._network.operators.get(producer[0])
        source = operator.outputs.get(producer[1]) if operator else None
        verdict = None if source is None else self._verdicts[source]
        if verdict is not None:
            is_born = verdict.origin is _BORN
            self._verdicts[number] = verdict._replace(origin=Birth.INHERITED) if is_born else verdict

    def _changed(self, operator: Operator, number: int, metrics: Metrics, size: Size, before: State) -> State:
        """An input that is worse than what its producer wrote: something happened to it in between."""
        row = self._rows[number]
        noise = self._limit(coarser(row.target_dtype, row.golden_dtype), row).noise
        allowed = 2 * before.error + noise * self._noise
        peak = 4 * before.peak + 16 * allowed * size.rms
        level, rule = self._opinion(row, metrics, size, allowed, peak)
        is_bad, origin = level.is_bad, _NONE
        if is_bad:
            is_born = size.error > allowed or size.peak > peak or size.special > before.special
            origin = _BORN if is_born else Birth.INHERITED
        if origin is _BORN:
            budget = Budget(noise, allowed, peak, before.error)
            self._born.append(Born(operator, number, size, budget, (before,), is_input=True))
        self._verdicts[number] = Verdict(level, rule, origin, _over(size.error, allowed))
        return self._state(metrics, size, before.clean if is_bad else None)

    # Outputs

    def _output(self, operator: Operator, index: int, number: int, size: Size, states: tuple[State, ...]) -> None:
        row, name = self._rows[number], operator.node.name
        metrics = row.metrics
        if metrics is None:
            return
        dtype = coarser(row.target_dtype, row.golden_dtype)
        limit = self._limit(dtype, row)
        coarse = coarsest(operator, self._rows, dtype)
        noise = limit.noise if coarse == dtype else self._limit(coarse, row).noise
        quantized = is_quantized(operator, self._rows, states)
        floor = floor_of(operator, self._rows, states, noise, quantized=quantized) * self._noise
        budget = budget_of(operator.trait, states, floor, size, metrics.count)
        if dtype == "integer":
            level, rule = counted(metrics, limit)
        else:
            if quantized:
                limit = limit._replace(distance=max(limit.distance, self._limit("integer", row).distance))
            level, rule = opinion_of(metrics, size, limit, budget.allowed, budget.peak)
            self._learn(size, budget)
        is_bad, own, origin = level.is_bad, 0.0, _NONE
        if is_bad:
            origin = _origin(row, size, operator.trait, budget, states)
        if origin is _BORN:
            self._born.append(Born(operator, number, size, budget, states))
            own = 1.0 if size.special or not size.error else 1 - min(budget.expected / size.error, 1.0) ** 2
        self._verdicts[number] = Verdict(level, rule, origin, _over(size.error, budget.allowed))
        state = self._state(metrics, size, budget.clean if is_bad else None, name)
        if origin is Birth.ACCUMULATED:
            state = state._replace(is_bad=False)
        self._states[name, index] = state
        worst = self._worst.get(name)
        if worst is None or worst.error < state.error:
            self._worst[name] = state
            self._passed[name] = states, own

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
            limit = self._limit("integer", row)
            is_clean = not any(state.is_bad for state in states)
            level, rule = of_places(row.metrics, limit, values_agree=agree, inputs_agree=is_clean)
            origin = _NONE
            if level.is_bad:
                origin = _BORN if is_clean and agree is not False else Birth.INHERITED
            if origin is _BORN and level is Level.WRONG:
                self._born.append(Born(operator, number, size, _NO_BUDGET, states))
            self._verdicts[number] = Verdict(level, rule, origin)
            state = self._state(row.metrics, size, 0.0 if level.is_bad else None, operator.name)
            self._states[operator.name, index] = state
            self._worst.setdefault(operator.name, state)

    def _pass_on(self, operator: Operator, states: tuple[State, ...]) -> None:
        """What operators without numbers of their own let through."""
        if operator.trait.flow is Flow.NONE or not states:
            return
        worst = max(states, key=lambda state: (state.special, state.error))
        quantized = is_quantized(operator, self._rows, states)
        through = tuple(dict.fromkeys((*(name for state in states for name in state.through), operator.name)))
        self._worst[operator.name] = worst._replace(through=through, quantized=quantized)
        self._passed[operator.name] = states, 0.0

    def _state(self, metrics: Metrics, size: Size, clean: float | None, source: str = "") -> State:
        """The state of a tensor that is bad, of which `clean` is noise; without it, all of its error is noise."""
        low, high = metrics.golden_min, metrics.golden_max
        width = 0.0 if low is None or high is None else float(high - low)
        error = size.error if size.error < inf else 1e6
        noise = error if clean is None else clean
        self._usual = max(self._usual, noise)
        is_bad = clean is not None
        return State(error, noise, size.rms, size.std, size.peak, width, metrics.count, is_bad, size.special, source)


def _origin(row: Row, size: Size, trait: Trait, budget: Budget, states: tuple[State, ...]) -> Birth:
    """Where the error of a bad output comes from."""
    if any(state.special for state in states):
        return Birth.INHERITED
    if size.special:
        return Birth.BORN
    is_rough = any(state.is_bad for state in states)
    if is_counted(row) or row.metrics is None:
        return Birth.INHERITED if is_rough else Birth.BORN
    error, peak = inherited(trait, states, budget, size, row.metrics.count)
    peak += 10 * budget.floor * abs(row.metrics.worst_golden or 0)
    if size.error > error or size.peak > peak:
        return Birth.BORN
    return Birth.INHERITED if is_rough else Birth.ACCUMULATED


def _over(error: float, allowed: float) -> float | None:
    return error / allowed if allowed else None
