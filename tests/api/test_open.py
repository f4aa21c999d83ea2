"""`opdiff.open`, and the tensors behind the rows of a comparison: numbers, layouts, names and errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import opdiff
from opdiff.cli import main
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from opdiff.sample import Sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return write_sample(str(tmp_path_factory.mktemp("sample") / "s"))


def test_a_tensor(sample: Sample) -> None:
    tensor = opdiff.open(sample.target)["context/pool"].outputs[0]
    golden = opdiff.open(sample.golden)["context/pool"].outputs[0]
    assert (tensor.shape, tensor.dtype, tensor.layout) == ((1, 1, 8, 8, 16), "float16", "NC1HWC0")
    assert repr(tensor) == "<Tensor context_pool:output:0 float16 (1, 1, 8, 8, 16) NC1HWC0>"
    stored = tensor.numpy()
    assert stored.shape == tensor.shape
    assert stored.dtype == np.float16
    assert np.array_equal(tensor.to("NCHW"), stored[:, 0].transpose(0, 3, 1, 2))
    assert tensor.to("NHWC").shape == (1, 8, 8, 16)
    assert golden.to("NCHW").shape == (1, 16, 8, 8)
    with pytest.raises(opdiff.OpdiffError, match="NCWH"):
        tensor.to("NCWH")


def test_a_tensor_is_an_array(sample: Sample) -> None:
    tensor = opdiff.open(sample.target)["context/pool"].outputs[0]
    assert np.array_equal(np.asarray(tensor), tensor.numpy())
    assert np.asarray(tensor, np.float64).dtype == np.float64
    assert np.array(tensor).flags.writeable
    assert tensor.__array__(np.float32, copy=True).dtype == np.float32
    assert np.abs(tensor).max() > 0


def test_a_dump_is_a_mapping(sample: Sample) -> None:
    dump = opdiff.open(Path(sample.target))
    assert len(dump) == len(list(dump)) == 60
    assert "context/pool" in dump
    assert "context_pool" in dump
    assert "nothing" not in dump
    assert next(iter(dump)) in dump
    assert repr(dump).endswith("/npu: 60 operators>")
    operator = dump["context/pool"]
    assert repr(operator) == "<Operator context_pool (MaxPoolV3), inputs: 1, outputs: 1>"
    for wrong in ("contxt/pool", "contxt_pool"):
        with pytest.raises(KeyError, match=f"{wrong}; did you mean context_pool?"):
            dump[wrong]
    with pytest.raises(KeyError, match="'zzzzzz'"):
        dump["zzzzzz"]


def test_single_files(sample: Sample, tmp_path: Path) -> None:
    dump = opdiff.open(sample.target)
    path = Path(dump["context/pool"].path)
    (operator,) = opdiff.open(path).values()
    assert np.array_equal(operator.outputs[0].numpy(), dump["context/pool"].outputs[0].numpy())
    assert (operator.name, operator.op_type) == ("context_pool", "MaxPoolV3")
    golden = Path(opdiff.open(sample.golden)["context/pool"].outputs[0].path)
    (array,) = opdiff.open(golden).values()
    assert array.outputs[0].numpy().shape == (1, 16, 8, 8)
    np.save(tmp_path / "x.npy", np.arange(6).reshape(2, 3))
    assert opdiff.open(tmp_path / "x.npy")["x"].outputs[0].numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    np.savez(tmp_path / "nets.npz", conv=np.zeros(2), relu=np.ones(3))
    assert opdiff.open(tmp_path / "nets.npz")["relu"].outputs[0].numpy().tolist() == [1, 1, 1]


def test_arrays_under_other_names(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    np.save(tmp_path / "net" / "conv.npy", np.ones(3))
    assert opdiff.open(tmp_path)["net/conv"].outputs[0].numpy().tolist() == [1, 1, 1]


def test_a_position_is_an_index(tmp_path: Path) -> None:
    np.save(tmp_path / "conv1.1.1700000000000000.npy", np.ones(3))
    outputs = opdiff.open(tmp_path)["conv1"].outputs
    assert [tensor.key.index for tensor in outputs] == [0, 1]
    assert outputs[1].numpy().tolist() == [1, 1, 1]
    with pytest.raises(opdiff.InputError, match="this tensor was not dumped"):
        outputs[0].numpy()


def test_reduced_files_have_statistics(tmp_path: Path) -> None:
    made = write_graph_sample(str(tmp_path / "s"))
    assert main(["reduce", made.target, "-q"]) == 0
    tensor = opdiff.open(made.target, rank=0, token=1)["MatMul"].outputs[0]
    assert tensor.stats is not None
    assert (tensor.shape, tensor.dtype, tensor.layout) == ((6, 24), "float16", "")
    assert repr(tensor) == "<Tensor MatMul:output:0 float16 (6, 24) no data>"
    with pytest.raises(opdiff.InputError, match="MatMul:output:0 was dumped as statistics, without data"):
        tensor.numpy()
    assert opdiff.open(tensor.path)["MatMul"].outputs[0].stats == tensor.stats


def test_statistics_files(tmp_path: Path) -> None:
    text = "Input/Output,Index,Data Type,Shape,Max Value,Min Value\nOutput,1,float16,2x3,4.0,-1.0\n"
    (tmp_path / "Conv2D.conv1.1.2.1700000000000000.csv").write_text(text)
    outputs = opdiff.open(tmp_path)["conv1"].outputs
    assert (outputs[1].shape, outputs[1].stats and outputs[1].stats.maximum) == ((2, 3), 4.0)
    assert outputs[0].shape is None


def test_tokens_of_graph_mode(tmp_path: Path) -> None:
    made = write_graph_sample(str(tmp_path / "s"))
    for root, name in ((made.target, "MatMul"), (made.golden, "mm-aten.mm.default")):
        with pytest.raises(opdiff.UsageError, match=r"several tokens \(rank 0, token 0, graph 1; .* choose one with"):
            opdiff.open(root)
        with pytest.raises(opdiff.UsageError, match="has no token with this `rank`, `token` and `graph`; there are"):
            opdiff.open(root, rank=7)
        dump = opdiff.open(root, rank=0, token=1)
        assert str(dump.unit) == "rank 0, token 1, graph 1"
        assert dump[name].outputs[0].numpy().shape == (6, 24)
        folder = Path(dump[name].path).parent
        assert opdiff.open(folder)[name].outputs[0].path == dump[name].outputs[0].path


@pytest.mark.parametrize("content", [b"", b"nothing that is a dump"])
def test_what_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "Conv2D.conv1.1.2.1700000000000000"
    path.write_bytes(content)
    with pytest.raises(opdiff.InputError, match="conv1"):
        opdiff.open(path)
    tensor = opdiff.open(tmp_path)["conv1"]
    assert tensor.problem is not None
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(opdiff.InputError, match=wrong.name):
            opdiff.open(wrong)


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    np.save(tmp_path / "conv1.0.1700000000000000.npy", np.ones(10_000))
    tensor = opdiff.open(tmp_path)["conv1"].outputs[0]
    (tmp_path / "conv1.0.1700000000000000.npy").unlink()
    with pytest.raises(opdiff.OpdiffError, match=r"conv1\.0.*cannot be opened"):
        tensor.numpy()


def test_tensors_behind_offline_rows(sample: Sample, tmp_path: Path) -> None:
    made = opdiff.compare(sample.target, sample.golden, rules=sample.rules)
    made.save(tmp_path / "r.json")
    for comparison in (made, opdiff.Comparison.load(tmp_path / "r.json")):
        checked = 0
        for row in comparison:
            if row.metrics is None or row.golden is None or row.metrics.worst_index is None:
                continue
            golden = np.asarray(row.golden)
            if golden.size == row.metrics.count:
                assert golden.reshape(-1)[row.metrics.worst_index] == row.metrics.worst_golden
                checked += 1
        assert checked > 50
        (row,) = comparison["context/pool:output:0"]
        assert row.target is not None
        assert row.golden is not None
        assert row.target.tensor.layout == "NC1HWC0"
        assert row.target.to("NCHW").shape == row.golden.numpy().shape == (1, 16, 8, 8)


def test_tensors_behind_rows_of_graph_mode(tmp_path: Path) -> None:
    made = write_graph_sample(str(tmp_path / "s"))
    checked = 0
    for row in opdiff.compare(made.target, made.golden):
        if row.metrics is None or row.target is None or row.golden is None or row.metrics.worst_index is None:
            continue
        for side, worst in ((row.target, row.metrics.worst_target), (row.golden, row.metrics.worst_golden)):
            assert side.numpy().reshape(-1)[row.metrics.worst_index] == worst
        checked += 1
    assert checked > 20


def test_rows_of_whole_operators(tmp_path: Path) -> None:
    made = write_graph_sample(str(tmp_path / "s"))
    for path in list(Path(made.target).rglob("Relu.*")):
        path.unlink()
    rows = [row for row in opdiff.compare(made.target, made.golden, rank=0, token=0) if row.golden_only]
    assert rows
    assert rows[0].golden is not None
    assert "find" not in repr(rows[0])
    with pytest.raises(opdiff.InputError, match="this row is about a whole operator"):
        rows[0].golden.numpy()


def test_rows_without_files(sample: Sample, tmp_path: Path) -> None:
    shutil.copytree(sample.golden, tmp_path / "golden")
    made = opdiff.compare(sample.target, tmp_path / "golden", rules=sample.rules)
    (row,) = made["context/pool:output:0"]
    assert row.golden is not None
    Path(row.golden.path).unlink()
    with pytest.raises(opdiff.InputError, match="the tensor context/pool:output:0 of this row cannot be found"):
        row.golden.numpy()
    shutil.rmtree(tmp_path / "golden")
    assert row.target is not None
    assert row.target.numpy().size
    made.save(tmp_path / "r.json")
    (row,) = opdiff.Comparison.load(tmp_path / "r.json")["context/pool:output:0"]
    assert row.golden is not None
    with pytest.raises(opdiff.InputError, match="no such directory"):
        row.golden.numpy()
