"""Replay of the operators of a dump, from the files to results.

with a model     model ──nodes, types──► subgraph of the operator ──┐
                 rules, dump ──values of its tensors────────────────┼──run──► own error ──► Replay
without a model  type, attributes ──builder──► one-operator model ──┘
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core import filesystem
from opdiff.core.dtypes import Kind
from opdiff.core.errors import OpdiffError, UsageError
from opdiff.core.reasons import Reason, because
from opdiff.core.replay import ReplayVerdict
from opdiff.core.tensor import file_safe_name
from opdiff.pair.dump_index import DumpIndex, NameIndex
from opdiff.pair.groups import group_operators
from opdiff.read.dump import read_dump
from opdiff.read.rules import read_rules
from opdiff.read.rules.parameters import read_parameters
from opdiff.workflows.golden.compiled_model import fitting_shapes, read_compiled
from opdiff.workflows.golden.options import GoldenOptions
from opdiff.workflows.golden.original import read_source
from opdiff.workflows.limits_file import find_limits
from opdiff.workflows.replay.arithmetic import SubgraphEncoder
from opdiff.workflows.replay.dumped_values import DumpedValues, DumpOnly
from opdiff.workflows.replay.encoded_model import EncodedModel
from opdiff.workflows.replay.operator_replay import ReplayContext, replay_operator
from opdiff.workflows.replay.original_types import find_types
from opdiff.workflows.replay.type_replay import TypeContext, replay_by_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.graph import RuleOp
    from opdiff.core.replay import Replay
    from opdiff.core.tensor import Shape
    from opdiff.judge.limits import Limits
    from opdiff.pair.groups import GroupedModel
    from opdiff.read.rules.parameters import Parameter
    from opdiff.run.cluster import Cluster
    from opdiff.workflows.replay.golden_values import GoldenValues
    from opdiff.workflows.replay.options import ReplayOptions

    Progress = Callable[[int, int], None]
    ReplayOne = Callable[[RuleOp, GoldenValues | None], Replay]

_TENSORFLOW_ENDING = ".pb"


def replay(
    options: ReplayOptions,
    progress: Progress,
    cluster: Cluster | None = None,
    golden: GoldenValues | None = None,
) -> Iterator[Replay]:
    """Replay operators in the order of execution, by this process or on the workers of a cluster.

    Without a model, golden values decide whether a computation is the right one.

    Raises:
        UsageError: the options contradict each other, an operator does not exist, or an engine is not installed.
        InputError: the model, the dump, the rule file or the cluster cannot be used.
    """
    if options.model.endswith(_TENSORFLOW_ENDING):
        raise UsageError(because("replay.tensorflow"))
    if cluster is not None:
        from opdiff.workflows.replay.on_workers import replay_on_workers

        yield from replay_on_workers(options, progress, cluster, golden)
        return
    inputs = read_replay_inputs(options)
    values, replay_one = open_replay(options, inputs, find_limits(options.limits))
    chosen = choose(inputs.rules, options.operators, values.is_run)
    for number, operator in enumerate(chosen):
        progress(number, len(chosen))
        yield replay_one(operator, golden)
    progress(len(chosen), len(chosen))


class ReplayInputs(Struct, frozen=True):
    """Rules and dump, without tensor data.

    Attributes:
        path: the rule file.
        rules: its operators.
        target: the dump.
        shapes: shapes of the inputs of the compiled model; empty without original model.
        parameters: attributes of operators by name; empty where no operator is computed by its type.
    """

    path: str
    rules: GroupedModel
    target: Dump
    shapes: Mapping[str, Shape]
    parameters: Mapping[str, Mapping[str, Parameter]]


def read_replay_inputs(options: ReplayOptions) -> ReplayInputs:
    """Read the rules, then the dump.

    Raises:
        InputError: a file cannot be used.
    """
    rules = group_operators(read_rules(options.rules))
    target = read_dump(options.target, with_rules=True)
    by_type = not options.model or target.quantized
    return ReplayInputs(
        options.rules,
        rules,
        target,
        read_compiled(options.rules).shapes if options.model else {},
        read_parameters(options.rules) if by_type else {},
    )


def open_replay(options: ReplayOptions, inputs: ReplayInputs, limits: Limits) -> tuple[DumpedValues, ReplayOne]:
    """Return the dumped values, and the function that replays an operator: by the model, else by type and attributes.

    Raises:
        UsageError: an engine is not installed.
        InputError: the model cannot be used.
    """
    if options.model:
        context = open_context(options, inputs, limits)
        target = context.values.target
        quantized = _open_type_context(options, inputs, target, limits) if target.dump.quantized else None
        return context.values, partial(_replay_by_model, context, quantized)
    by_type = _open_type_context(options, inputs, DumpIndex(inputs.target), limits)
    return by_type.values, partial(_replay_by_type, by_type)


def _open_type_context(options: ReplayOptions, inputs: ReplayInputs, target: DumpIndex, limits: Limits) -> TypeContext:
    """Return what a replay by types and attributes needs."""
    values = DumpOnly(inputs.rules, target, partial(read_earlier_step, target.dump.path))
    return TypeContext(inputs.path, inputs.rules, target, inputs.parameters, values, limits, threads=options.threads)


def _replay_by_type(context: TypeContext, operator: RuleOp, golden: GoldenValues | None) -> Replay:
    return replay_by_type(replace(context, golden=golden), operator)


def _replay_by_model(
    context: ReplayContext, quantized: TypeContext | None, operator: RuleOp, golden: GoldenValues | None
) -> Replay:
    """Replay an operator by the model; if the model lacks its quantized values, by type and attributes."""
    found = replay_operator(context, operator)
    is_unknown = found.verdict is ReplayVerdict.NOT_REPLAYABLE
    if quantized is None or not is_unknown or not _has_integers(quantized.target.find(operator.name)):
        return found
    by_type = _replay_by_type(quantized, operator, golden)
    return found if by_type.verdict is ReplayVerdict.NOT_REPLAYABLE else by_type


def _has_integers(dump: DumpedOp | None) -> bool:
    """Return whether the first input or the first output of an operator holds integers, as quantized values are."""
    tensors = (dump.inputs.get(0), dump.outputs.get(0)) if dump is not None else ()
    return any(tensor is not None and tensor.spec.dtype.kind is Kind.INTEGER for tensor in tensors)


def open_context(options: ReplayOptions, inputs: ReplayInputs, limits: Limits) -> ReplayContext:
    """Read the model.

    Raises:
        UsageError: an engine is not installed.
        InputError: the model cannot be used.
    """
    wanted = GoldenOptions(options.model, options.weights, shapes=options.shapes)
    model = read_source(wanted, inputs.shapes).original
    encoded = EncodedModel(model)
    types = find_types(encoded, {**fitting_shapes(inputs.shapes, model.inputs), **options.shapes}, options.threads)
    target = DumpIndex(inputs.target)
    values = DumpedValues(model, inputs.rules, target, partial(read_earlier_step, target.dump.path))
    return ReplayContext(SubgraphEncoder(encoded, types), values, limits, options.threads)


def read_earlier_step(folder: str) -> DumpIndex | None:
    """Read the dump of the step before the step of a folder `{model_id}/{step}`; `None` if there is none."""
    parent, name = os.path.split(folder.rstrip("/"))
    if not name.isdecimal():
        return None
    try:
        steps = [int(item.name) for item in filesystem.list_folder(parent) if item.name.isdecimal()]
        earlier = max((step for step in steps if step < int(name)), default=None)
        return None if earlier is None else DumpIndex(read_dump(os.path.join(parent, str(earlier)), with_rules=True))
    except (OpdiffError, OSError):
        return None


def choose(rules: GroupedModel, names: Sequence[str], is_run: Callable[[RuleOp], bool]) -> list[RuleOp]:
    """Return the named operators; if none is named, the operators that were dumped."""
    operators = rules.in_sequence()
    if not names:
        return [operator for operator in operators if is_run(operator)]
    wanted = {file_safe_name(name) for name in names}
    chosen = [operator for operator in operators if file_safe_name(operator.name) in wanted]
    found = {file_safe_name(operator.name) for operator in chosen}
    missing = next((name for name in names if file_safe_name(name) not in found), None)
    if missing is not None:
        raise UsageError(_no_operator(missing, [operator.name for operator in operators]))
    return chosen


def _no_operator(name: str, known: Iterable[str]) -> Reason:
    nearest = NameIndex(known).nearest(name)
    hint = because("core.did_you_mean", name=nearest) if nearest else None
    return because("replay.not_in_rules", name=name, hint=hint)
