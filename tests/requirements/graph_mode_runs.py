"""Dumps of graph mode for the tests of requirements, the commands that compare them, and an independent reader."""

from __future__ import annotations

import csv
import shlex
import shutil
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from command_line import Outcome
from dump_files import npy_file
from dumpdata_proto import DumpData
from opdiff.cli import main
from opdiff.sample.graph_mode import ge_dump, write_graph_sample
from opdiff.sample.graph_text import TextNode, graph_text
from opdiff.sample.names import DumpName, fx_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.codes import AnyArray

    Row = dict[str, str]
    # Lowest and highest value of each input and of each output.
    Extremes = list[list[list[float]]]

TYPES = {1: np.float32, 2: np.float16, 7: np.int32}
STAMP, TIME = 20_240_130_064_151_000_000, 1_706_596_911_000_000
NAN = float("nan")
# Target and golden data of operators with one output.
PAIRS = {
    "Equal": ([1, 2, 3], [1, 2, 3]),
    "BelowLimit": ([1009, 2000], [1000, 2000]),
    "AtLimit": ([101, 2], [100, 2]),
    "LowCosine": ([1, 2], [2, 1]),
    "AtShares": ([1001, 1000.5, 1004, 1005], [1000, 1000, 1000, 1000]),
    "GoldenZero": ([1, 2], [0, 2]),
    "NotANumber": ([NAN, 2], [1, 2]),
    "Scalar": ([3], [3]),
    "OtherCount": ([1, 2, 3], [1, 2]),
    "WithinRange": ([-2, 1.0005], [-2, 1]),
    "OutOfRange": ([-2, 1.2], [-2, 1]),
    "NearZero": ([-5, 0.001], [-5, 0]),
}


@dataclass(frozen=True)
class Run:
    """A finished command: what it printed, and the folder with its results."""

    outcome: Outcome
    folder: Path

    @property
    def path(self) -> Path:
        """The table."""
        (path,) = self.folder.glob("*.csv")
        return path

    @property
    def rows(self) -> list[Row]:
        """The lines of the table."""
        with self.path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def of(self, operator: str, tensor: str = "output.0", token: int = 0) -> Row:
        """Return the only row of a tensor."""
        (row,) = [
            each for each in self.rows if (each["API Name"], each["token_id"]) == (f"{operator}.{tensor}", str(token))
        ]
        return row

    @property
    def compared(self) -> list[Row]:
        """The lines with both sides."""
        return [row for row in self.rows if row["my_data_path"] and row["golden_data_path"]]


def msprobe(command: str, folder: Path, **variables: object) -> Run:
    """Run a command line in a folder, in this process."""
    for name, value in variables.items():
        command = command.replace(f"${{{name}}}", str(value))
    program, *words = shlex.split(command)
    assert program == "msprobe"
    out, err = StringIO(), StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return Run(Outcome(code, out.getvalue(), err.getvalue()), folder)


def load(location: str) -> AnyArray:
    """Return the tensor at a place in the table, read independently of the tool."""
    if location.endswith(".npy"):
        array: AnyArray = np.load(location)
        return array
    path, slot, index = location.rsplit(",", 2)
    raw = Path(path).read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = DumpData.FromString(raw[8:start])
    found: dict[tuple[str, int], AnyArray] = {}
    for side, tensors in (("inputs", header.input), ("outputs", header.output)):
        for number, tensor in enumerate(tensors):
            values = np.frombuffer(raw[start : start + tensor.size], TYPES[tensor.data_type]).reshape(tensor.shape.dim)
            if values.ndim == 4:  # FRACTAL_NZ: (c1, n1, n0, c0)
                rows, columns = tensor.original_shape.dim
                values = values.transpose(1, 2, 0, 3).reshape(values.shape[1] * values.shape[2], -1)[:rows, :columns]
            found[side, number] = values
            start += tensor.size
    return found[slot, int(index)]


def sides(row: Row) -> tuple[AnyArray, AnyArray]:
    """Return both tensors of a row as flat float64 arrays."""
    target, golden = (load(row[f"{side}_data_path"]).astype(np.float64).ravel() for side in ("my", "golden"))
    return target, golden


def write_pairs(root: Path) -> None:
    """Write dumps of GE and FX with the operators of `PAIRS`, and `Alone`, which FX does not have."""
    names = [*PAIRS, "Alone"]
    nodes = [TextNode(name, "Add", output_fx=(f"{name.lower()}-aten.add.OUTPUT.0",)) for name in names]
    ge, fx = root / "msprobe_ge_dump", root / "msprobe_fx_dump" / "worldsize1_global_rank0" / "graph_1" / "0"
    folder = ge / "worldsize1_global_rank0" / "20240130064151" / "0" / "graph_1_0" / "1" / "0"
    folder.mkdir(parents=True)
    fx.mkdir(parents=True)
    modules = """attr { key: "nn_module_stack" value { s: "{'L': ('net.fc', 'torch.nn.Linear')}" } }"""
    text = graph_text("graph_1", nodes).replace('name: "Equal"', f'name: "Equal" {modules}')
    (ge / f"dynamo_original_graph_1_rank_0_pid_1_ts_{STAMP}.txt").write_text(text)
    for number, name in enumerate(names):
        target, golden = (np.array(values, np.float32) for values in PAIRS.get(name, ([1], [1])))
        (folder / str(DumpName("Add", name, number, 0, TIME + number))).write_bytes(ge_dump((), (target,)))
        if name in PAIRS:
            path = fx / fx_name(name.lower(), "aten.add", "OUTPUT", (0,), STAMP + number)
            path.write_bytes(npy_file(golden))


def write_layout(root: Path, version: str) -> Path:
    """Write a dump of two tokens as a version of the extension does, and return the dump path."""
    sample = write_graph_sample(str(root), ranks=1, version=version)
    dump = root / "dump"
    dump.mkdir()
    shutil.move(sample.target, dump)
    if version != "old":
        shutil.move(root / "fx" / "msprobe_fx_dump", dump)
    return dump


def second_run(root: Path) -> None:
    """Add the files of a second run, later by a second, to a dump."""
    for path in [*root.rglob("*")]:
        if path.is_file():
            folder = str(path.parent).replace("/20240130064151/", "/20240130064152/").replace("gm_2024", "gm_2025")
            name = path.name.replace("202401300641510", "202401300641520").replace(".1706596911", ".1706596912")
            to = Path(folder, name.replace("pid_4711", "pid_4712"))
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)


@dataclass(frozen=True)
class Converted:
    """Dumps that the documented script converted.

    Attributes:
        root: the folder of all dumps.
        extremes: the files before, by their paths below the root.
        printed: what the script printed.
    """

    root: Path
    extremes: dict[str, Extremes]
    printed: list[str]

    @property
    def files(self) -> dict[str, Path]:
        """The files that are there now, by their paths below the root."""
        return {str(path.relative_to(self.root)): path for path in self.root.rglob("*") if path.is_file()}


def extremes_of(path: Path) -> Extremes:
    """Return lowest and highest values of inputs and outputs; of an array, as the only output."""
    if path.suffix == ".npy":
        values = np.load(path)
        return [[], [[float(values.min()), float(values.max())]]]
    header = DumpData.FromString(path.read_bytes()[8:][: int.from_bytes(path.read_bytes()[:8], "little")])
    counts = {"inputs": len(header.input), "outputs": len(header.output)}
    return [
        [
            [float(values.min()), float(values.max())]
            for values in (load(f"{path},{slot},{number}") for number in range(count))
        ]
        for slot, count in counts.items()
    ]


def converted_names(converted: Converted, part: str) -> Iterator[tuple[str, Extremes]]:
    for name, extremes in converted.extremes.items():
        if part in name and not name.endswith("_min_max.npy"):
            yield name, extremes
