"""Small networks, lowered from FX to GE as by TorchAir, with both dumps and the true pairs.

A `Network` is built like FX: `placeholder`, then `call("addmm", bias, x, weight)`. Every call computes the FX result,
lowers the node to GE operators, and computes these with different rounding errors. The true pairs are known from the
lowering.

Behaviour that matters for pairing: views are materialized where they are read and have no name; a node without effect
adds its name to the tensor of an earlier one; several results have names only if all are tensors; numbers become
constants.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fx_kernels import FX
from lowering import MOVING, GeOp, GeTensor, Lowering
from opdiff.sample.golden import npy_file
from opdiff.sample.graph_mode import ge_dump
from opdiff.sample.names import DumpName, fx_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opdiff.core.codes import AnyArray

TIME = 1_760_685_131_000_000
FX_TIME = 20_251_017_071_211_000_000
_GE_TYPES = {
    "float32": "DT_FLOAT", "float16": "DT_FLOAT16", "int64": "DT_INT64", "int32": "DT_INT32", "bool": "DT_BOOL",
    "uint8": "DT_UINT8",
}  # fmt: skip
_OVERLOADS = {
    "add": "Tensor", "clamp": "Tensor", "div": "Tensor", "eq": "Scalar", "gt": "Tensor", "index": "Tensor",
    "lerp": "Tensor", "max": "dim", "mean": "dim", "mul": "Tensor", "pow": "Tensor_Scalar", "rsub": "Scalar",
    "scatter": "src", "select": "int", "slice": "Tensor", "split": "Tensor", "sub": "Tensor", "sum": "dim_IntList",
    "transpose": "int", "unbind": "int", "where": "self",
}  # fmt: skip
_VIEWS = frozenset({"t", "view", "permute", "transpose"})


@dataclass(eq=False)
class FxTensor:
    """An FX tensor: its values, and its GE tensor; a pending view is described by the order of its elements."""

    array: AnyArray
    ge: GeTensor
    order: AnyArray | None = None
    made: GeTensor | None = None


class Network:
    """A network that is executed while it is built."""

    def __init__(self, seed: int = 0, *, graph: int = 1, dtype: str = "float32", noise: float = 2e-7) -> None:
        self.random = np.random.default_rng(seed)
        self.noise = noise
        self.graph = graph
        self.dtype = dtype
        self.operators: list[GeOp] = []
        self.files: list[tuple[str, str, str, tuple[int, ...], AnyArray, FxTensor | None]] = []
        self._counts: Counter[str] = Counter()
        self._placeholders = 0

    # Building

    def placeholder(self, *shape: int, dtype: str = "", value: Any = None) -> FxTensor:
        """Add a graph input."""
        kind = dtype or self.dtype
        array = np.asarray(self.random.standard_normal(shape) if value is None else value).astype(kind)
        op = GeOp(f"arg{self._placeholders}_1", "Data", [], {"index": self._placeholders})
        self._placeholders += 1
        self.operators.append(op)
        op.outputs.append(GeTensor(op, 0, array))
        return FxTensor(array, op.outputs[0])

    def call(self, target: str, *args: Any, named: bool = True, **kwargs: Any) -> Any:
        """Add an FX node: execute it, lower it, and record its files."""
        node, overload = self._unique(target), _OVERLOADS.get(target, "default")
        result = FX[target](*[_arrays(arg) for arg in args], **{key: _arrays(arg) for key, arg in kwargs.items()})
        if target in _VIEWS:
            assert isinstance(args[0], FxTensor)
            made: Any = self._view(target, args[0], result, args[1:])
        else:
            made = self._lowered(target, f"{node}-aten.{target}.{overload}" if named else "", args, kwargs, result)
        self._write(node, f"aten.{target}.{overload}", args, made)
        return made

    def _unique(self, name: str) -> str:
        count = self._counts[f"fx {name}"]
        self._counts[f"fx {name}"] += 1
        return f"{name}_{count}" if count else name

    def _view(self, target: str, source: FxTensor, result: AnyArray, args: tuple[Any, ...]) -> FxTensor:
        order = source.order
        if order is None:
            order = np.arange(source.ge.array.size).reshape(source.ge.array.shape)
        made = FX[target](order, *args)
        assert np.shares_memory(made, order) or not made.size, "a view that FX would refuse"
        return FxTensor(result, source.ge, made)

    def _lowered(self, target: str, name: str, args: Any, kwargs: Any, result: Any) -> Any:
        lowered = [self._made(arg) for arg in args]
        more = {key: self._made(arg) for key, arg in kwargs.items()}
        outputs = Lowering(self).lower(target, lowered, more, result)
        listed = outputs if isinstance(outputs, list) else [outputs]
        if name:
            for index, output in enumerate(listed):
                output.fx = f"{name}.OUTPUT.{index}"
        results = result if isinstance(result, (list, tuple)) else [result]
        made = [FxTensor(array, output) for array, output in zip(results, listed, strict=True)]
        return made if isinstance(result, (list, tuple)) else made[0]

    def _made(self, arg: Any) -> Any:
        """Return an argument for a converter; pending views are materialized."""
        if isinstance(arg, (list, tuple)):
            return [self._made(item) for item in arg]
        if not isinstance(arg, FxTensor):
            return arg
        if arg.made is None:
            arg.made = arg.ge if arg.order is None else Lowering(self).materialized(arg.ge, arg.order)
        return arg.made

    def _write(self, node: str, target: str, args: Any, made: Any) -> None:
        for index, arg in enumerate(args):
            if isinstance(arg, (list, tuple)) and arg and isinstance(arg[0], FxTensor):
                for element, item in enumerate(arg):
                    self.files.append((node, target, "INPUT", (index, element), item.array, item))
            else:
                tensor = arg if isinstance(arg, FxTensor) else None
                array = tensor.array if tensor is not None else np.array(arg)
                self.files.append((node, target, "INPUT", (index,), array, tensor))
        for index, item in enumerate(made if isinstance(made, list) else [made]):
            self.files.append((node, target, "OUTPUT", (index,), item.array, item))

    # Operators of the graph engine

    def op(self, op_type: str, inputs: dict[str, Any], *results: AnyArray, described: bool = True, **attributes: Any
           ) -> GeOp:  # fmt: skip
        """Add an operator; numbers among its inputs become constants."""
        fed = [(name, value if value is None else self.constant(value)) for name, value in inputs.items()]
        op = GeOp(self._ge_name(op_type), op_type, fed, attributes)
        op.input_fx = ["" if value is None else value.fx for _, value in fed]
        for index, result in enumerate(results):
            array = np.asarray(result)
            if array.dtype.kind == "f" and op_type not in MOVING:
                noise = 1 + self.noise * self.random.standard_normal(array.shape)
                array = (array * noise).astype(array.dtype)
            op.outputs.append(GeTensor(op, index, array, described=described))
        self.operators.append(op)
        return op

    def constant(self, value: Any) -> GeTensor:
        """Return a tensor unchanged, other values as a constant."""
        if isinstance(value, GeTensor):
            return value
        array = np.asarray(value)
        op = GeOp(self._ge_name("Const"), "Const", [], {})
        op.outputs.append(GeTensor(op, 0, array))
        self.operators.append(op)
        return op.outputs[0]

    def _ge_name(self, op_type: str) -> str:
        count = self._counts[op_type]
        self._counts[op_type] += 1
        return f"{op_type}_{count}" if count else op_type

    # Files

    def write(self, root: Path, *, rank: int = 0, token: int = 0) -> None:
        """Write both dumps of one token."""
        ge = root / "msprobe_ge_dump"
        leaf = (
            ge / f"worldsize1_global_rank{rank}" / "20251017071211" / "0" / f"graph_{self.graph}_0" / "1" / str(token)
        )
        leaf.mkdir(parents=True)
        for stage in ("original", "optimized"):
            name = f"dynamo_{stage}_graph_{self.graph}_rank_{rank}_pid_4711_ts_{FX_TIME}.txt"
            (ge / name).write_text("\n".join(self.text()) + "\n")
        for number, op in enumerate(self.dumped()):
            name = str(DumpName(op.op_type, op.name, number + 1, 6, TIME + 1137 * number))
            inputs = [array for _, array, _ in op.dumped_inputs()]
            (leaf / name).write_bytes(ge_dump(inputs, [output.array for output in op.outputs]))
        fx = root / "msprobe_fx_dump" / f"worldsize1_global_rank{rank}" / f"graph_{self.graph}" / str(token)
        fx.mkdir(parents=True)
        stamps: dict[str, int] = {}
        for node, target, slot, indices, array, _ in self.files:
            stamp = stamps.setdefault(node, FX_TIME + 1137 * len(stamps))
            (fx / fx_name(node, target, slot, indices, stamp)).write_bytes(_npy(array))

    def dumped(self) -> list[GeOp]:
        """Yield the operators that are dumped: all but inputs and constants."""
        return [op for op in self.operators if op.op_type not in {"Data", "Const"}]

    def text(self) -> Iterator[str]:
        """Return the graph text."""
        yield f'name: "graph_{self.graph}"'
        for op in self.operators:
            yield "op {"
            yield from (f"  {line}" for line in _op_text(op))
            yield "}"

    # Truth

    def truth(self) -> dict[str, tuple[set[str], set[str]]]:
        """Return for each dumped tensor its FX files, and other FX files with the same values in the same order."""
        holders: dict[str, set[str]] = defaultdict(set)
        equal: dict[tuple[int, bytes], set[str]] = defaultdict(set)
        for node, _, slot, indices, array, tensor in self.files:
            name = f"{node}.{slot}.{'.'.join(map(str, indices))}"
            if array.dtype.kind in "OU":
                continue
            equal[_content(array)].add(name)
            became = None if tensor is None else tensor.made or (tensor.ge if tensor.order is None else None)
            if became is not None and not became.is_stand_in:
                holders[became.edge].add(name)
        found = {}
        for op in self.dumped():
            made = [(output, output.array, False) for output in op.outputs]
            for slot, tensors in (("input", op.dumped_inputs()), ("output", made)):
                for index, (ours, array, is_updated) in enumerate(tensors):
                    near = {name for key, names in equal.items() if _is_close(array, key) for name in names}
                    found[f"{op.name}:{slot}:{index}"] = (set() if is_updated else holders[ours.edge], near)
        return found


def _content(array: AnyArray) -> tuple[int, bytes]:
    return array.size, np.ascontiguousarray(array).astype(np.float64).tobytes()


def _is_close(target: AnyArray, key: tuple[int, bytes]) -> bool:
    if target.size != key[0]:
        return False
    golden = np.frombuffer(key[1], np.float64)
    scale = np.abs(golden).max(initial=0.0)
    return bool(
        np.allclose(target.astype(np.float64).reshape(-1), golden, rtol=1e-3, atol=1e-3 * scale, equal_nan=True)
    )


def _npy(array: AnyArray) -> bytes:
    if array.dtype.kind in "OU":
        import io

        file = io.BytesIO()
        np.save(file, array, allow_pickle=True)
        return file.getvalue()
    return npy_file(array)


def _arrays(arg: Any) -> Any:
    if isinstance(arg, (list, tuple)):
        return [_arrays(item) for item in arg]
    return arg.array if isinstance(arg, FxTensor) else arg


# Text


def _op_text(op: GeOp) -> Iterator[str]:
    yield from (f'name: "{op.name}"', f'type: "{op.op_type}"')
    yield from (f'input: "{value.edge if value is not None else ""}"' for _, value in op.inputs)
    if op.op_type == "Const":
        array = op.outputs[0].array
        octal = "".join(f"\\{byte:03o}" for byte in array.tobytes())
        shape = "".join(f" dim: {extent}" for extent in array.shape)
        tensor = f'desc {{ dtype: {_GE_TYPES[str(array.dtype)]} shape {{{shape} }} layout: "ND" }} data: "{octal}"'
        yield f'attr {{ key: "value" value {{ t {{ {tensor} }} }} }}'
    for key, value in op.attributes.items():
        numbers = " ".join(f"i: {number}" for number in (value if isinstance(value, (list, tuple)) else [value]))
        written = f"list {{ {numbers} }}" if isinstance(value, (list, tuple)) else numbers
        yield f'attr {{ key: "{key}" value {{ {written} }} }}'
    for (name, value), fx in zip(op.inputs, op.input_fx, strict=True):
        yield from _descriptor("input_desc", name, value, fx)
    for output in op.outputs:
        yield from _descriptor("output_desc", op.output_name, output, output.fx)


def _descriptor(kind: str, name: str, tensor: GeTensor | None, fx: str) -> Iterator[str]:
    yield f"{kind} {{"
    yield f'  name: "{name}"'
    if tensor is None:
        yield '  attr { key: "_is_unfed_optional" value { i: 1 } }'
    elif tensor.described:
        yield f"  dtype: {_GE_TYPES[str(tensor.array.dtype)]}"
        if tensor.op.op_type in {"Data", "Const"}:
            yield f"  shape {{{''.join(f' dim: {extent}' for extent in tensor.array.shape)} }}"
    if fx:
        yield f'  attr {{ key: "_fx_tensor_name" value {{ s: "{fx}" }} }}'
    yield "}"
