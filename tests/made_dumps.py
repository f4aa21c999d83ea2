"""Short functions that write both sides of an offline comparison, and read the result."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from command_line import Outcome, run
from dump_files import TIME, add, tensor
from measure.plain_formulas import plain_metrics
from opdiff.sample.container import EncodedDump, EncodedTensor, standard_dump
from opdiff.sample.names import DumpName, golden_name

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from opdiff.core.codes import AnyArray

Json = dict[str, Any]

DOCUMENTED = (
    "CosineSimilarity", "MaxAbsoluteError", "AccumulatedRelativeError", "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence", "StandardDeviation", "MeanAbsoluteError", "RootMeanSquareError", "MaxRelativeError",
    "MeanRelativeError",
)  # fmt: skip
_FIELDS = (
    "cosine", "max_absolute_error", "accumulated_relative_error", "relative_euclidean_distance", "kl_divergence", "",
    "mean_absolute_error", "root_mean_square_error", "max_relative_error", "mean_relative_error",
)  # fmt: skip


def numbers(*shape: int, seed: int = 0) -> AnyArray:
    """Return random non-zero numbers that float16 and wider types represent exactly."""
    random = np.random.default_rng(seed)
    made: AnyArray = (random.integers(1, 200, shape) * random.choice([-1, 1], shape) / 64).astype(np.float32)
    return made


def perturbed(values: AnyArray, seed: int = 99) -> AnyArray:
    """Return the numbers with errors of up to 1 %."""
    errors = np.random.default_rng(seed).uniform(-0.01, 0.01, values.shape)
    made: AnyArray = (values * (1 + errors)).astype(np.float32)
    return made


def expected(target: AnyArray, golden: AnyArray) -> dict[str, float]:
    """Return the documented metrics by their formulas, without that of mean and deviation."""
    found = plain_metrics(target, golden)
    return {name: found[field] for name, field in zip(DOCUMENTED, _FIELDS, strict=True) if field}


def describe(
    origin: str = "",
    index: int | None = None,
    *,
    layout: str = "",
    shape: tuple[int, ...] = (),
    dtype: str = "DT_FLOAT",
) -> Json:
    """Return the description of an output in a rule file."""
    attributes = {
        "_datadump_origin_name": {"s": origin} if origin else None,
        "_datadump_origin_output_index": None if index is None else {"i": index},
        "_datadump_origin_format": {"s": layout} if layout else None,
        "origin_shape": {"list": {"i": list(shape)}} if shape else None,
    }
    return {"dtype": dtype, "attr": _listed(attributes)}


def rule(
    name: str,
    op_type: str = "Op",
    *,
    originals: tuple[str, ...] | None = None,
    inputs: tuple[str, ...] = (),
    outputs: tuple[Json, ...] = (),
    number: int | None = None,
    part: bool = False,
    l1: str = "",
) -> Json:
    """Return an operator of a rule file; `originals` is empty for inserted operators, `None` for unchanged ones."""
    names = {"list": {"s": list(originals)} if originals else {}}
    attributes = {
        "_datadump_original_op_names": None if originals is None else names,
        "_datadump_is_multiop": {"b": True} if part else None,
        "_L1_fusion_sub_graph_no": {"s": l1} if l1 else None,
    }
    made: Json = {"name": name, "type": op_type, "attr": _listed(attributes)}
    made |= {"input": list(inputs)} if inputs else {}
    made |= {"output_desc": list(outputs)} if outputs else {}
    return made if number is None else made | {"id": number}


def _listed(attributes: Json) -> list[Json]:
    return [{"key": key, "value": value} for key, value in attributes.items() if value is not None]


def rule_file(*operators: Json, graph: str = "net", **graphs: tuple[Json, ...]) -> Json:
    """Return a rule file with one graph, and others by keyword; operators without an id get the next one."""
    count = 0
    made = []
    for name, members in {graph: operators, **graphs}.items():
        numbered = [{"id": count + position, **member} for position, member in enumerate(members)]
        count += len(members)
        made.append({"name": name, "op": numbered})
    return {"name": "model", "graph": made}


@dataclass(frozen=True)
class Result:
    """A result file: its header, and its rows by title. The second column of a title has the suffix `#2`."""

    path: Path
    header: list[str]
    rows: list[dict[str, str]]

    def row(self, tensor_index: str) -> dict[str, str]:
        """Return the only row of a tensor."""
        (found,) = [row for row in self.rows if row["TensorIndex"] == tensor_index]
        return found

    def of(self, operator: str) -> dict[str, str]:
        """Return the only row of an operator."""
        (found,) = [row for row in self.rows if row["NPUDump"] == operator]
        return found

    @property
    def pairs(self) -> list[str]:
        """Return every row in short: operators, originals, tensor, and its counterpart (`?` for none)."""
        return [
            f"{row['NPUDump']} | {row['GroundTruth']} | {row['TensorIndex']} = {row['GoldenTensor'] or '?'}"
            for row in self.rows
        ]


def read_result(path: Path) -> Result:
    """Read a result file; check that every row has as many cells as the header."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    seen: Counter[str] = Counter()
    titles = []
    for name in header:
        seen[name] += 1
        titles.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return Result(path, titles, [dict(zip(titles, line, strict=True)) for line in lines])


def tables(folder: Path) -> dict[str, bytes]:
    """Return the tables of a folder by their names without times."""
    return {re.sub(r"[0-9]{14,}", "", path.name): path.read_bytes() for path in folder.glob("*.csv")}


def assert_measured(row: dict[str, str], target: AnyArray, golden: AnyArray) -> None:
    """Check that the documented metrics of a row are those of two arrays."""
    for name, value in expected(target, golden).items():
        np.testing.assert_allclose(float(row[name]), value, rtol=1e-5, atol=1e-9, err_msg=name)


class Case:
    """A comparison in its own folder."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.capsys = capsys
        self.target = root / "target"
        self.golden = root / "golden"
        self.out = root / "out"
        self._made = 0

    def npu(
        self,
        name: str,
        *outputs: EncodedTensor | AnyArray,
        inputs: tuple[EncodedTensor | AnyArray, ...] = (),
        op_type: str = "Op",
        time: int = 0,
        folder: Path | None = None,
    ) -> Path:
        """Write a dump of the target, or to another folder; arrays become float32. Timestamps increase."""
        self._made += 1
        time = time or TIME + self._made
        dump = EncodedDump(_tensors(inputs), _tensors(outputs), op_name=name, dump_time=time)
        path = DumpName(op_type, name, self._made, 3, time)
        return self.add(folder or self.target, str(path), standard_dump(dump))

    def npu_golden(self, name: str, *outputs: EncodedTensor | AnyArray, **more: Any) -> Path:
        """Write a dump of the golden side."""
        return self.npu(name, *outputs, folder=self.golden, **more)

    def npy(self, name: str, *outputs: AnyArray, time: int = TIME, folder: Path | None = None) -> None:
        """Write the golden files of an operator, one for each output."""
        folder = folder or self.golden
        folder.mkdir(parents=True, exist_ok=True)
        for index, output in enumerate(outputs):
            np.save(folder / golden_name(name, index, time), output)

    def add(self, folder: Path, name: str, content: bytes) -> Path:
        """Write a file."""
        add(folder, name, content)
        return folder / name

    def rules(self, *operators: Json, file: str = "network.json", **more: Any) -> Path:
        """Write a rule file."""
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rule_file(*operators, **more)))
        return path

    def one(self, target: EncodedTensor | AnyArray, golden: AnyArray, **description: Any) -> Path:
        """Write one operator `a` on both sides, and its rule file."""
        self.npu("a", target)
        self.npy("a", golden)
        return self.rules(rule("a", outputs=(describe("a", 0, **description),)))

    def run(self, *options: object) -> Outcome:
        """Run the documented command."""
        return run(
            self.capsys, "compare", "-m", "offline_data", "-tp", self.target, "-gp", self.golden, "-o", self.out,
            *options,
        )  # fmt: skip

    def results(self, pattern: str = "*result_*.csv") -> list[Path]:
        """Return the result files."""
        return sorted(self.out.glob(pattern))

    def compared(self, *options: object, code: int = 0) -> Result:
        """Run the command; check its exit code and that it writes one more result; return the result."""
        before = set(self.results())
        outcome = self.run(*options)
        assert outcome.code == code, outcome
        (path,) = set(self.results()) - before
        return read_result(path)

    def refused(self, *options: object, code: int = 3) -> str:
        """Run the command; check its exit code, that there is one line of error and no result; return the line."""
        outcome = self.run(*options)
        assert outcome.code == code, outcome
        assert outcome.err.startswith("opdiff: "), outcome
        assert len(outcome.err.splitlines()) == 1, outcome
        assert not self.leftovers()
        return outcome.err

    def leftovers(self) -> list[Path]:
        """Return all names in the result folder."""
        return sorted(self.out.iterdir()) if self.out.is_dir() else []


def _tensors(items: tuple[EncodedTensor | AnyArray, ...]) -> tuple[EncodedTensor, ...]:
    return tuple(item if isinstance(item, EncodedTensor) else tensor(item) for item in items)
