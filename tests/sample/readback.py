"""The sample read back independently of the readers: with Google's protobuf, numpy and a few lines for each layout."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from math import prod
from struct import unpack_from
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpdata_proto import DumpData

AnyArray = npt.NDArray[Any]
Key = tuple[str, int]

_NUMPY = {1: "<f4", 2: "<f2", 7: "<i4"}
_NC1HWC0, _FRACTAL_Z, _FRACTAL_NZ = 3, 4, 29


@dataclass(frozen=True)
class Stored:
    """A tensor of a dump: its header entry, its bytes, its numbers in logical axes (`None` for grouped weights)."""

    header: Any
    raw: bytes
    array: AnyArray | None

    def facts(self) -> tuple[object, ...]:
        """Fields that must be equal for producer and consumer of a tensor."""
        header = self.header
        shapes = tuple(header.shape.dim), tuple(header.original_shape.dim)
        return header.data_type, header.format, *shapes, header.address, self.raw

    def numbers(self) -> AnyArray:
        assert self.array is not None
        return self.array


@dataclass(frozen=True)
class Dump:
    file: str
    message: Any
    inputs: tuple[Stored, ...]
    outputs: tuple[Stored, ...]


def parse_standard(content: bytes) -> tuple[Any, bytes]:
    """Return the header of a standard dump as read by Google's protobuf, and the data after it."""
    (length,) = unpack_from("<Q", content)
    return DumpData.FromString(content[8 : 8 + length]), content[8 + length :]


def read_dump(file: str, content: bytes) -> Dump:
    message, data = parse_standard(content)
    start, tensors = 0, []
    for header in (*message.input, *message.output):
        raw = data[start : start + header.size]
        tensors.append(Stored(header, raw, _logical(header, raw)))
        start += header.size
    assert start == len(data)
    count = len(message.input)
    return Dump(file, message, tuple(tensors[:count]), tuple(tensors[count:]))


def _logical(header: Any, raw: bytes) -> AnyArray | None:
    if header.data_type not in _NUMPY:
        return None
    stored = np.frombuffer(raw, _NUMPY[header.data_type]).reshape(tuple(header.shape.dim))
    logical_shape = tuple(header.original_shape.dim)
    if header.format == _NC1HWC0:
        n, c1, h, w, c0 = stored.shape
        return stored.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[:, : logical_shape[1]]
    if header.format == _FRACTAL_NZ:
        c1, r1, r0, c0 = stored.shape
        return stored.transpose(1, 2, 0, 3).reshape(r1 * r0, c1 * c0)[: logical_shape[0], : logical_shape[1]]
    if header.format == _FRACTAL_Z and header.sub_format > 1:
        return None
    if header.format == _FRACTAL_Z:
        n, c, h, w = logical_shape
        _, n1, n0, c0 = stored.shape
        tiles = stored.reshape(-1, h, w, n1 * n0, c0).transpose(3, 0, 4, 1, 2)
        return tiles.reshape(n1 * n0, -1, h, w)[:n, :c]
    return stored


class Readback:
    """All files of a sample, by names of the rule file."""

    def __init__(self, files: dict[str, bytes]) -> None:
        npu = {name.removeprefix("npu/"): raw for name, raw in files.items() if name.startswith("npu/")}
        everything = [read_dump(name, raw) for name, raw in npu.items()]
        self.dumps = {dump.message.op_name: dump for dump in everything if not dump.file.startswith("Opdebug.")}
        self.overflows = [dump for dump in everything if dump.file.startswith("Opdebug.")]
        self.golden: dict[Key, AnyArray] = {}
        for name, raw in files.items():
            if name.startswith("golden/"):
                op, index, _, _ = name.removeprefix("golden/").split(".")
                self.golden[op, int(index)] = np.load(BytesIO(raw))
        (graph,) = json.loads(files["rules/network.json"])["graph"]
        self.rules: dict[str, Any] = {op["name"]: op for op in graph["op"]}
        assert len(self.rules) == len(graph["op"])

    def attr(self, owner: dict[str, Any], key: str) -> Any:
        """Return the only value of an attribute; `None` if it is absent."""
        for attr in owner["attr"]:
            if attr["key"] == key:
                (value,) = (part for name, part in attr["value"].items() if name != "val_type")
                return value
        return None

    def originals(self, op: str) -> list[str]:
        names: list[str] = self.attr(self.rules[op], "_datadump_original_op_names").get("s", [])
        return names

    def origin(self, op: str, index: int) -> Key | None:
        """Return name and index of the golden file of an output, by the rules."""
        described = self.rules[op]["output_desc"][index]
        name = self.attr(described, "_datadump_origin_name")
        return name and (name.replace("/", "_"), self.attr(described, "_datadump_origin_output_index"))

    def inputs(self, op: str) -> list[Key]:
        ports = (entry.rsplit(":", 1) for entry in self.rules[op].get("input", []))
        return [(producer, int(index)) for producer, index in ports]

    def traced_origin(self, op: str, index: int) -> Key | None:
        """Return the same as `origin`, traced through operators inserted by the compiler."""
        while self.rules[op]["type"] in ("Cast", "TransData"):
            op, index = self.inputs(op)[0]
        return self.origin(op, index)

    def downstream(self, op: str) -> set[str]:
        """Return the dumped operators that depend on `op`."""
        found = {op}
        for name in self.dumps:  # in the order of execution
            if found & {producer for producer, _ in self.inputs(name)}:
                found.add(name)
        return found - {op}


def distance(target: AnyArray, golden: AnyArray) -> float:
    """Return the relative Euclidean distance of the finite elements."""
    assert prod(target.shape) == prod(golden.shape)
    left, right = target.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    known = np.isfinite(left)
    return float(np.linalg.norm((left - right)[known]) / np.linalg.norm(right[known]))
