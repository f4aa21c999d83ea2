"""Pairs of networks that are lowered the way TorchAir does it: never a wrong one, and hardly a missing one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from lowered_graphs import Network
from lowered_networks import HALF, NETWORKS, random_network
from opdiff.core.dump import GraphKind, Unit
from opdiff.core.pairing import Pairing
from opdiff.pair.graph.token import GraphPairing
from opdiff.read.filename import FxName, parse_name
from opdiff.read.graph.token_files import read_token
from opdiff.read.graph.tree import read_graph_tree
from opdiff.read.rules.graph_text import read_graph_text

if TYPE_CHECKING:
    from pathlib import Path

# Tensors that no FX file tells, by network: given by keyword, or results without names.
WITHOUT_EVIDENCE = {"unnamed": 4}


class Found(NamedTuple):
    """The golden file of a target tensor, and how sure that is."""

    golden: str
    confidence: float


def pairs(root: Path, *, rank: int = 0, graph: int = 0) -> dict[str, Found]:
    """The pairs of one token, by the target's tensor."""
    target, golden = read_graph_tree(str(root / "msprobe_ge_dump")), read_graph_tree(str(root / "msprobe_fx_dump"))
    text = next(text for text in target.texts if text.rank == rank and text.is_original and text.number == graph + 1)
    rows = GraphPairing(read_graph_text(text.path)).pair(
        Unit(rank, 0, graph),
        read_token(target.ranks[rank][graph].tokens[0], GraphKind.GE),
        read_token(golden.ranks[rank][graph].tokens[0], GraphKind.FX),
    )
    found = [row for row in rows if isinstance(row, Pairing) and row.target.path != row.golden.path]
    return {str(row.key): Found(fx_file(row.golden.path), row.confidence) for row in found}


def fx_file(path: str) -> str:
    """An FX file without target and time, as `addmm.INPUT.1`."""
    parsed = parse_name(path.rpartition("/")[2])
    assert isinstance(parsed, FxName)
    element = "" if parsed.element is None else f".{parsed.element}"
    return f"{parsed.op_name.partition('-')[0]}.{parsed.slot.upper()}.{parsed.index}{element}"


def written(tmp_path: Path, name: str, dtype: str = "float32") -> Network:
    network = Network(7, dtype=dtype)
    NETWORKS[name](network)
    network.write(tmp_path)
    return network


def made(tmp_path: Path, name: str, dtype: str = "float32") -> tuple[Network, dict[str, Found]]:
    return written(tmp_path, name, dtype), pairs(tmp_path)


def wrong_and_missed(network: Network, found: dict[str, Found]) -> tuple[list[str], list[str]]:
    wrong, missed = [], []
    for tensor, (same, like) in network.truth().items():
        partner = found.get(tensor)
        if partner is not None and partner.golden not in same | like:
            wrong.append(f"{tensor} is {same or 'nothing'}, not {partner.golden}")
        elif partner is None and same:
            missed.append(tensor)
    return wrong, missed


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in NETWORKS), *((name, "float16") for name in HALF)]
)
def test_every_tensor_of_fx_is_found_and_no_other(name: str, dtype: str, tmp_path: Path) -> None:
    wrong, missed = wrong_and_missed(*made(tmp_path, name, dtype))
    assert not wrong
    assert len(missed) == WITHOUT_EVIDENCE.get(name, 0), missed


@pytest.mark.parametrize("seed", range(12))
def test_networks_of_one_shape_have_no_wrong_pair(seed: int, tmp_path: Path) -> None:
    network = Network(seed, noise=0.0)
    random_network(network)
    network.write(tmp_path)
    wrong, missed = wrong_and_missed(network, pairs(tmp_path))
    assert not wrong
    assert not missed


def test_numbers_decide_last_and_are_not_trusted(tmp_path: Path) -> None:
    """Nothing but their numbers tells two inputs of an unknown operator apart."""
    _, found = made(tmp_path, "unlisted")
    assert found["Mix:input:0"] == Found("mix.INPUT.1", 0.6)
    assert found["Mix:input:1"] == Found("mix.INPUT.0", 0.6)
    assert found["Mix:output:0"].confidence == 1


@pytest.mark.parametrize("name", ["same_shapes", "same_updates"])
def test_the_names_of_descriptors_decide_before_numbers(name: str, tmp_path: Path) -> None:
    _, found = made(tmp_path, name)
    assert [tensor for tensor, partner in found.items() if partner.confidence < 0.95] == []


def test_the_name_of_a_result_that_is_not_computed_is_not_believed(tmp_path: Path) -> None:
    _, found = made(tmp_path, "pooled")
    assert found["MaxPoolWithArgmaxV1:output:0"].golden == "max_pool2d_with_indices.OUTPUT.0"
    assert "Cast:output:0" not in found


def test_constants_have_no_partner(tmp_path: Path) -> None:
    """FX has numbers there, even if a file has the same ones."""
    network, found = made(tmp_path, "rotary")
    constants = {
        f"{op.name}:input:{index}"
        for op in network.dumped()
        for index, (_, tensor) in enumerate(op.inputs)
        if tensor is not None and tensor.op.op_type == "Const"
    }
    assert constants
    assert not constants & set(found)


def test_a_transpose_that_its_reader_does_itself(tmp_path: Path) -> None:
    """Compilers fold a transpose into the matrix product: the input is then the tensor before it."""
    network = Network(7)
    NETWORKS["mlp"](network)
    product = next(op for op in network.operators if op.op_type == "MatMulV2")
    transpose = product.inputs[1][1]
    assert transpose is not None
    text = "\n".join(network.text())
    product.inputs[1] = transpose.op.inputs[0]
    network.operators.remove(transpose.op)
    network.write(tmp_path)
    for path in (tmp_path / "msprobe_ge_dump").glob("*.txt"):
        path.write_text(text)
    assert pairs(tmp_path)["MatMulV2:input:1"].golden == "t.INPUT.0"


def test_every_rank_and_graph_has_its_own_pairs(tmp_path: Path) -> None:
    networks = {}
    for rank in range(2):
        for graph, name in enumerate(("square_layers", "same_shapes")):
            networks[rank, graph] = Network(10 * rank + graph, graph=graph + 1)
            NETWORKS[name](networks[rank, graph])
            networks[rank, graph].write(tmp_path, rank=rank)
    for (rank, graph), network in networks.items():
        assert wrong_and_missed(network, pairs(tmp_path, rank=rank, graph=graph)) == ([], [])


def test_large_tensors_are_told_apart_by_samples(tmp_path: Path) -> None:
    network = Network(3)
    first, second = network.placeholder(80, 80), network.placeholder(80, 80)
    turned = network.call("mm", first, network.call("t", second))
    network.call("add", turned, network.call("t", first))
    network.write(tmp_path)
    assert wrong_and_missed(network, pairs(tmp_path)) == ([], [])


def test_a_golden_file_that_is_missing_leaves_the_readers_argument(tmp_path: Path) -> None:
    """The result of `relu` was not dumped, but its reader's argument was."""
    written(tmp_path, "mlp")
    (gone,) = (tmp_path / "msprobe_fx_dump").rglob("relu-*.OUTPUT.0.*")
    gone.unlink()
    found = pairs(tmp_path)
    assert found["MatMulV2_1:input:0"].golden == "addmm_1.INPUT.1"
    assert found["Relu:output:0"].golden == "addmm_1.INPUT.1"


def test_reduced_files_are_told_apart_by_their_extremes(tmp_path: Path) -> None:
    network = written(tmp_path, "same_shapes")
    for path in list((tmp_path / "msprobe_fx_dump").rglob("*.npy")):
        array = np.load(path)
        if array.size:
            np.save(path.with_name(f"{path.stem}_min_max.npy"), np.array([array.min(), array.max()]))
        path.unlink()
    wrong, _ = wrong_and_missed(network, pairs(tmp_path))
    assert not wrong


@pytest.mark.parametrize("backwards", [False, True])
def test_texts_may_have_cycles_and_long_chains(backwards: bool, tmp_path: Path) -> None:
    """A damaged or hostile text costs pairs, not the run."""
    network = written(tmp_path, "mlp")
    chain = [_identity(f"Chain_{number}", f"Chain_{number - 1}:0") for number in range(1, 3000)]
    ring = [_identity("Ring_0", "Ring_1:0"), _identity("Ring_1", "Ring_0:0")]
    reader = _identity("Reader", "Ring_0:0", "relu_9-aten.relu.default.OUTPUT.0")
    more = [*ring, reader, *(reversed(chain) if backwards else chain)]
    for path in (tmp_path / "msprobe_ge_dump").glob("*.txt"):
        path.write_text(path.read_text() + "\n".join(more))
    assert wrong_and_missed(network, pairs(tmp_path)) == ([], [])


def _identity(name: str, source: str, fx: str = "") -> str:
    named = f'attr {{ key: "_fx_tensor_name" value {{ s: "{fx}" }} }}' if fx else ""
    return f'op {{ name: "{name}" type: "Identity" input: "{source}" output_desc {{ {named} }} }}'


def test_an_input_that_was_updated_before_it_was_dumped_has_no_partner(tmp_path: Path) -> None:
    """Operators that work in place have their result in the input, too."""
    _, found = made(tmp_path, "scatters")
    assert found["InplaceIndexAdd:output:0"].golden == "index_add.OUTPUT.0"
    assert found["TensorMove:input:0"].golden in {"scatter_add.OUTPUT.0", "index_add.INPUT.0"}
    assert "InplaceIndexAdd:input:0" not in found
