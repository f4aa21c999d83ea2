"""Signs that an operator was compiled otherwise than its graph text says.

The text of graph mode is older than the passes of the graph engine, which fuse operators and keep the name of one. An
operator that disagrees with its text proves nothing unless its neighbours were dumped, and hold the data of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opdiff.align.pairs import align_codes
from opdiff.core import codes as elements
from opdiff.core.errors import OpdiffError
from opdiff.core.graph import parse_input
from opdiff.core.reasons import because
from opdiff.core.tensor import Declared, file_safe_name
from opdiff.pair.groups import NOT_RUN_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opdiff.core.graph import RuleOp
    from opdiff.core.reasons import Reason
    from opdiff.core.tensor import Tensor
    from opdiff.pair.dump_index import DumpIndex

# Types that change the shape only; they do not run, and are often not dumped.
_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "ExpandDims", "Identity", "Flatten", "FlattenV2"})
_MAX_VIEWS = 16
# Distance of two tensors that one cast to another float type may cause.
_MAX_CAST_ERROR = 1e-2


def why_compiled_otherwise(
    operator: RuleOp, operators: Mapping[str, RuleOp], readers: Mapping[str, Sequence[RuleOp]], dump: DumpIndex
) -> Reason | None:
    """Return why an operator may compute something else than its text says; `None` if nothing indicates it.

    Args:
        operator: the operator of the text.
        operators: operators of the text by their names in files.
        readers: operators that read the outputs of each operator.
        dump: the dump of the unit.
    """
    for index, entry in enumerate(operator.inputs):
        problem = _input_problem(operator, index, entry, operators, dump)
        if problem is not None:
            return problem
    behind = list(_readers_of(operator, readers))
    if behind and not any(dump.find(reader.name) for reader in behind):
        return because("replay.reader_missing", operator=behind[0].name)
    return None


def _input_problem(
    operator: RuleOp, index: int, entry: str, operators: Mapping[str, RuleOp], dump: DumpIndex
) -> Reason | None:
    """Return why the producer of an input may be compiled into the operator, or replaced."""
    parsed = parse_input(entry)
    for _ in range(_MAX_VIEWS):
        producer = operators.get(file_safe_name(parsed[0])) if parsed is not None else None
        if producer is None or parsed is None or producer.op_type in NOT_RUN_TYPES:
            return None
        dumped = dump.find(producer.name)
        if dumped is None and producer.op_type in _VIEWS and producer.inputs:
            parsed = parse_input(producer.inputs[0])
            continue
        if dumped is None:
            return because("replay.producer_missing", operator=producer.name)
        own = dump.find(operator.name)
        given, made = own.inputs.get(index) if own is not None else None, dumped.outputs.get(parsed[1])
        if given is None or made is None or _is_same(given, made):
            return None
        return because("replay.input_differs", index=index, operator=producer.name)
    return None


def _readers_of(operator: RuleOp, readers: Mapping[str, Sequence[RuleOp]]) -> Iterator[RuleOp]:
    """Yield the operators that read an operator, directly or through views, and run on the device."""
    pending, seen = [operator], {operator.name}
    while pending:
        for reader in readers.get(file_safe_name(pending.pop().name), ()):
            if reader.name in seen or reader.op_type in NOT_RUN_TYPES:
                continue
            seen.add(reader.name)
            if reader.op_type in _VIEWS:
                pending.append(reader)
            yield reader


def _is_same(given: Tensor, made: Tensor) -> bool:
    """Return whether two tensors have the same elements in the same order, but for a cast."""
    try:
        pair = align_codes((given.spec, made.spec), (given.codes(), made.codes()), Declared())
        first = elements.decode(pair.target, given.spec.dtype).astype(np.float64)
        second = elements.decode(pair.golden, made.spec.dtype).astype(np.float64)
    except OpdiffError:
        return False
    first, second = (np.nan_to_num(array.ravel()) for array in (first, second))
    if first.size != second.size:
        return False
    return bool(np.linalg.norm(first - second) <= _MAX_CAST_ERROR * np.linalg.norm(second))
