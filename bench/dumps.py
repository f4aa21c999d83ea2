"""Write a preset (target dumps, golden arrays and the rule file), and describe and pair its tensors.

Tensors of one kind hold the same numbers: they are made once, and those of a large batch are written image by image.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from opdiff.core import dtypes
from opdiff.core.dtypes import Kind
from opdiff.core.pairing import Pairing
from opdiff.sample.container import EncodedDump, EncodedTensor, encode_tensor, iter_standard
from opdiff.sample.names import DumpName, golden_name
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import pair_only

if TYPE_CHECKING:
    from bench.presets import Operator, Preset
    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape

TIME = 1_700_000_000_000_000
# Larger tensors are written in parts along their first axis, if the parts are contiguous in the layout.
_LARGE = 1 << 26
_IN_PARTS = {"NC1HWC0", "FRACTAL_NZ", "ND"}
_TYPE_NAMES = {dtypes.FLOAT32: "DT_FLOAT", dtypes.BFLOAT16: "DT_BF16"}
# Most attributes in rule files of compilers are not needed for a comparison.
_FILLER = tuple(
    {"key": f"_{subject}_{aspect}", "value": {"s": f"{subject}/{aspect}"} if number % 2 else {"i": number}}
    for subject in ("kernel", "memory", "stream", "tiling")
    for number, aspect in enumerate(("id", "library", "size", "policy", "offset", "engine", "priority", "scope"))
)  # fmt: skip


def write(preset: Preset, folder: str) -> None:
    """Write the folders `target` and `golden` and the file `rules.json`, and flush them to disk."""
    for name in ("target", "golden"):
        os.makedirs(os.path.join(folder, name))
    rules = []
    for number, operator in enumerate(preset.operators):
        name = f"block{number // 10}_{operator.type.lower()}{number}"
        rules.append(_write_operator(folder, name, number, operator))
    with open(os.path.join(folder, "rules.json"), "w", encoding="utf-8") as file:
        json.dump({"name": preset.name, "graph": [{"name": preset.name, "op": rules}]}, file)
    # Dirty pages cannot be dropped from the cache.
    os.sync()


def write_preset(preset: Preset, root: str) -> CompareOptions:
    """Write the dumps of a preset, and return the options that compare them."""
    folder = os.path.join(root, preset.name)
    write(preset, folder)
    target, golden, rules = (os.path.join(folder, name) for name in ("target", "golden", "rules.json"))
    return CompareOptions(target=target, golden=golden, fusion_rules=rules)


def read_pairs(options: CompareOptions) -> list[Pairing]:
    """Describe and pair two dumps."""
    (pairs,) = pair_only(options, every_operator=False)
    if isinstance(pairs, ComparisonProblem):
        raise SystemExit(f"{pairs.path}: {pairs.reason}")
    return [pair for pair in pairs if isinstance(pair, Pairing)]


def _write_operator(folder: str, name: str, number: int, operator: Operator) -> dict[str, Any]:
    """Write both sides and return their entry of the rule file."""
    golden, part, parts = _tensors(operator)
    # The zeros are never touched: only their number is used.
    shape = ((part.shape or ())[0] * parts, *(part.shape or ())[1:])
    whole = EncodedTensor(
        part.dtype, shape, part.layout, bytes(len(part.payload) * parts), operator.shape,
        address=20_618_000_384_000 + number * 512,
    )  # fmt: skip
    header = next(iter_standard(EncodedDump(outputs=(whole,), op_name=name, dump_time=TIME + number)))
    dump_name = str(DumpName(operator.type, name, number + 1, 3, TIME + number))
    with open(os.path.join(folder, "target", dump_name), "wb") as file:
        file.writelines((header, *(part.payload,) * parts))
    with open(os.path.join(folder, "golden", golden_name(name, 0, TIME)), "wb") as file:
        about = {"descr": golden.dtype.str, "fortran_order": False, "shape": operator.shape}
        np.lib.format.write_array_header_1_0(file, about)
        file.writelines(golden.data for _ in range(parts))
    return _rule(name, number, operator, shape)


@lru_cache(maxsize=64)
def _tensors(operator: Operator) -> tuple[AnyArray, EncodedTensor, int]:
    """Return one part of the golden array, the same part of the target, and the number of parts."""
    can_part = operator.layout in _IN_PARTS and (operator.layout != "FRACTAL_NZ" or len(operator.shape) > 2)
    parts = gcd(operator.shape[0], 16) if can_part and operator.golden_nbytes > _LARGE else 1
    shape = (operator.shape[0] // parts, *operator.shape[1:])
    numbers, noise = _numbers(prod(shape))
    golden = numbers.reshape(shape)
    golden = np.maximum(golden, 0) if operator.relu else golden
    target = golden * (1 + 1e-3 * noise.reshape(shape))
    target, golden = _as_type(target, operator.dtype), _as_type(golden, operator.golden)
    if operator.dtype.kind is operator.golden.kind is Kind.INTEGER:
        target = np.where(noise.reshape(shape) > 2, golden ^ 1, golden)
    return np.ascontiguousarray(golden), encode_tensor(target, operator.dtype, operator.layout), parts


def _as_type(numbers: AnyArray, dtype: DType) -> AnyArray:
    """Round numbers to the type; types without NumPy equivalent are left to the encoder."""
    if dtype.kind is Kind.BOOL:
        return np.asarray(numbers > 0)
    if dtype.kind is Kind.INTEGER:
        limits = np.iinfo(dtype.storage)
        low, high = max(limits.min, -1000), min(limits.max, 1000)
        return np.asarray(np.rint(numbers * 20).clip(low, high), dtype.storage)
    return numbers.astype(dtype.storage) if dtype.is_native else numbers


def _numbers(count: int) -> tuple[AnyArray, AnyArray]:
    """Return normal numbers, and noise."""
    numbers, noise = _pool()
    if count <= numbers.size:
        return numbers[:count], noise[:count]
    return np.resize(numbers, count), np.resize(noise, count)


@lru_cache(maxsize=1)
def _pool() -> tuple[AnyArray, AnyArray]:
    source = np.random.default_rng(1)
    numbers, noise = source.standard_normal((2, 1 << 22), dtype=np.float32)
    return numbers, noise


def _rule(name: str, number: int, operator: Operator, shape: Shape) -> dict[str, Any]:
    """Return the entry of the rule file for an operator."""
    order = {4: "NCHW", 5: "NCDHW"}.get(len(operator.shape), "ND")
    origin = {
        "_datadump_origin_name": {"s": name},
        "_datadump_origin_output_index": {"i": 0},
        "_datadump_origin_format": {"s": order},
        "origin_format": {"s": order},
        "origin_shape": {"list": {"i": list(operator.shape)}},
    }
    output = {
        "dtype": _TYPE_NAMES.get(operator.dtype, f"DT_{operator.dtype.name.upper()}"),
        "layout": operator.layout,
        "shape": {"dim": list(shape)},
        "attr": _attributes(origin),
    }
    originals = _attributes({"_datadump_original_op_names": {"list": {"s": [name]}}})
    return {
        "name": name, "type": operator.type, "id": number, "attr": [*_FILLER, *originals], "output_desc": [output],
    }  # fmt: skip


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]
