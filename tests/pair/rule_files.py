"""Builders of small rule files and dumps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from opdiff.core import dtypes
from opdiff.core.dump import Dump, DumpedOp, DumpKind
from opdiff.core.graph import OutputDesc, RuleFile, RuleGraph, RuleOp
from opdiff.core.pairing import Pairing, Unpaired
from opdiff.core.source import FileRange
from opdiff.core.tensor import Tensor, TensorSpec
from opdiff.pair import PairOptions, Rules, pair, resolve

if TYPE_CHECKING:
    from opdiff.core.pairing import ManualPair
    from opdiff.pair.selection import Selection

    Row = Pairing | Unpaired


def tensor(mark: int = 0) -> Tensor:
    """Return a tensor that is never loaded; `mark` distinguishes it from others."""
    return Tensor(TensorSpec(dtypes.FLOAT32, (mark + 1,), "ND"), FileRange("nowhere", mark, 4))


def out(origin: str = "", index: int | None = 0, **fields: Any) -> OutputDesc:
    """Return the description of an output; `op` sets its position."""
    return OutputDesc(0, origin_name=origin, origin_index=index, **fields)


def op(name: str, op_type: str = "Op", **fields: Any) -> RuleOp:
    """Return an operator; without originals it is its own original."""
    fields.setdefault("has_originals", "originals" in fields)
    fields.setdefault("originals", (name,))
    outputs = fields.pop("outputs", ())
    placed = tuple(structs.replace(output, position=position) for position, output in enumerate(outputs))
    return RuleOp(name, op_type, outputs=placed, **fields)


def rules(*operators: RuleOp, **more: tuple[RuleOp, ...]) -> RuleFile:
    """Return a rule file with the graph `net`, and sub-graphs by keyword."""
    graphs = {"net": operators, **more}
    return RuleFile(
        "rules.json",
        tuple(
            RuleGraph(name, tuple(structs.replace(item, graph_name=name) for item in items))
            for name, items in graphs.items()
        ),
    )


def dumped(name: str, inputs: int = 0, outputs: int = 1, **fields: Any) -> DumpedOp:
    """Return a dumped operator with that many inputs and outputs."""
    fields = {"op_type": "Op", "timestamp": 0, "path": f"{name}.file", **fields}
    return DumpedOp(
        name,
        inputs={number: tensor(number) for number in range(inputs)},
        outputs={number: tensor(number) for number in range(outputs)},
        **fields,
    )


def npu(*operators: DumpedOp, quantized: bool = False) -> Dump:
    return Dump("npu", DumpKind.NPU, quantized, {operator.name: operator for operator in operators})


def npy(*operators: DumpedOp | str, quantized: bool = False) -> Dump:
    made = [dumped(item, op_type="") if isinstance(item, str) else item for item in operators]
    return Dump("npy", DumpKind.ARRAYS, quantized, {operator.name: operator for operator in made})


def summarize(row: Row) -> str:
    """Return group, names, tensor and golden tensor of a row (`?` for none)."""
    golden = str(row.golden_key) if isinstance(row, Pairing) else "?"
    return f"{row.label.index} {row.label.target} {row.label.golden} {row.key or '-'} = {golden}"


def reasons(rows: tuple[Row, ...]) -> dict[str, str]:
    """Return the reasons of unpaired rows, by tensor or operator."""
    return {str(row.key or row.label.target): str(row.reason) for row in rows if isinstance(row, Unpaired)}


def paired(
    target: Dump,
    golden: Dump,
    given: Rules | RuleFile | None = None,
    selection: Selection | None = None,
    manual: tuple[ManualPair, ...] = (),
) -> tuple[Row, ...]:
    """Return the rows of a comparison; a single rule file is the one with fusion."""
    all_rules = given if isinstance(given, Rules) else Rules(fusion=given)
    _, resolved = resolve(target, golden, all_rules)
    return pair(target, golden, resolved, PairOptions(selection, manual))
