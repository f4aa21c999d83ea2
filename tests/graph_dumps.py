"""Short functions that write both sides of a comparison in graph mode, and read the result."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from command_line import Outcome, run
from dump_files import npy_file
from opdiff.sample.container import EncodedDump, EncodedTensor, standard_dump
from opdiff.sample.graph_mode import ge_dump
from opdiff.sample.graph_text import TextNode, graph_text
from opdiff.sample.names import DumpName, fx_name

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from opdiff.core.codes import AnyArray

STAMP = 20_240_130_064_151_000_000
TIME = 1_706_596_911_000_000


@dataclass(frozen=True)
class Table:
    """A result file."""

    path: Path
    header: list[str]
    rows: list[dict[str, str]]

    def of(self, api: str, token: int = 0) -> dict[str, str]:
        """Return the only row of an operator or a tensor."""
        (found,) = [row for row in self.rows if row["API Name"] == api and row["token_id"] == str(token)]
        return found

    @property
    def results(self) -> dict[str, str]:
        """Return PASS or FAIL by name."""
        return {row["API Name"]: row["Result"] for row in self.rows if row["API Name"] != "N/A"}


def read_table(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    return Table(path, header, [dict(zip(header, line, strict=True)) for line in lines])


def floats(values: Any) -> AnyArray:
    """Return numbers as float32."""
    return np.array(values, np.float32)


def saved(array: Any) -> bytes:
    """Return a NumPy file; objects are pickled, as FX does for arguments other than tensors."""
    return npy_file(array)


class GraphCase:
    """A comparison in its own folder."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.capsys = capsys
        self.target = root / "ge" / "msprobe_ge_dump"
        self.fx = root / "fx" / "msprobe_fx_dump"
        self.off = root / "off" / "msprobe_ge_dump"
        self.out = root / "out"
        self._made = 0

    def text(self, *nodes: TextNode, rank: int = 0, graph: int = 1, stage: str = "original", root: Path | None = None,
             pid: int = 1, stamp: int = STAMP) -> Path:  # fmt: skip
        """Write a graph text."""
        folder = root or self.target
        name = f"dynamo_{stage}_graph_{graph}_rank_{rank}_pid_{pid}_ts_{stamp}.txt"
        return self.add(folder / name, graph_text(f"graph_{graph}", nodes).encode())

    def ge(self, name: str, inputs: tuple[Any, ...] = (), outputs: tuple[Any, ...] = (), *, op_type: str = "Add",
           folder: str = "worldsize1_global_rank0/20240130064151/0/graph_1_0/1/0", root: Path | None = None,
           time: int = 0) -> Path:  # fmt: skip
        """Write a GE dump of arrays or encoded tensors."""
        self._made += 1
        if any(isinstance(item, EncodedTensor) for item in (*inputs, *outputs)):
            content = standard_dump(EncodedDump(inputs, outputs))
        else:
            content = ge_dump([np.asarray(item) for item in inputs], [np.asarray(item) for item in outputs])
        path = (root or self.target) / folder / str(DumpName(op_type, name, self._made, 6, time or TIME + self._made))
        return self.add(path, content)

    def node(self, fx: str, inputs: tuple[Any, ...] = (), outputs: tuple[Any, ...] = (), *,
             folder: str = "worldsize1_global_rank0/graph_1/0", root: Path | None = None) -> None:  # fmt: skip
        """Write the files of an FX node, named `node-target`."""
        self._made += 1
        name, _, target = fx.partition("-")
        for slot, items in (("INPUT", inputs), ("OUTPUT", outputs)):
            for index, item in enumerate(items):
                parts = enumerate(item) if isinstance(item, list) else [(None, item)]
                for part, array in parts:
                    indices = (index,) if part is None else (index, part)
                    file = fx_name(name, target, slot, indices, STAMP + self._made)
                    self.add((root or self.fx) / folder / file, saved(array))

    def one(self, target: AnyArray, golden: AnyArray) -> None:
        """Write one operator `Add` with one output on both sides."""
        self.text(TextNode("Add", "Add", output_fx=("add-aten.add.Tensor.OUTPUT.0",)))
        self.ge("Add", (), (target,))
        self.node("add-aten.add.Tensor", (), (golden,))

    def add(self, path: Path, content: bytes) -> Path:
        """Write a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def run(self, *options: object, golden: Path | None = None, target: Path | None = None) -> Outcome:
        """Run the documented command."""
        return run(
            self.capsys, "compare", "--target_path", target or self.target, "--golden_path", golden or self.fx,
            "--output_path", self.out, "--mode", "torchair", *options,
        )  # fmt: skip

    def tables(self, *options: object, code: int = 0, **more: Any) -> list[Table]:
        """Run the command, check its exit code, and read its tables."""
        before = set(self.out.glob("*.csv"))
        outcome = self.run(*options, **more)
        assert outcome.code == code, outcome
        return [read_table(path) for path in sorted(set(self.out.glob("*.csv")) - before)]

    def table(self, *options: object, code: int = 0, **more: Any) -> Table:
        """Run the command and return its only table."""
        (found,) = self.tables(*options, code=code, **more)
        return found

    def refused(self, *options: object, code: int = 3, **more: Any) -> str:
        """Run the command; check its exit code, that there is one line of error and no result; return the line."""
        outcome = self.run(*options, **more)
        assert outcome.code == code, outcome
        assert not list(self.out.glob("*.csv"))
        assert len(outcome.err.splitlines()) == 1, outcome
        return outcome.err
