"""Rules and descriptions of the dump: all that a replay needs except tensor data and the original model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.pair.groups import group_operators
from opdiff.read.rules import read_rules
from opdiff.read.rules.parameters import read_parameters
from opdiff.workflows.golden.compiled_model import read_compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opdiff.core.dump import Dump
    from opdiff.core.tensor import Shape
    from opdiff.pair.groups import GroupedModel
    from opdiff.read.rules.parameters import Parameter
    from opdiff.workflows.replay.options import ReplayOptions


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


def read_replay_inputs(options: ReplayOptions, read_target: Callable[[], Dump]) -> ReplayInputs:
    """Read the rules, then the dump.

    Raises:
        InputError: a file cannot be used.
    """
    rules = group_operators(read_rules(options.rules))
    target = read_target()
    by_type = not options.model or target.quantized
    return ReplayInputs(
        options.rules,
        rules,
        target,
        read_compiled(options.rules).shapes if options.model else {},
        read_parameters(options.rules) if by_type else {},
    )
