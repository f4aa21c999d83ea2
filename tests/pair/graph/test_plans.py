"""A plan of another token gives the rows that the token itself would get, whatever its numbers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from lowered_graphs import Network
from lowered_networks import NETWORKS
from opdiff.core.dump import GraphKind, TokenDump, Unit
from opdiff.core.reasons import quoted
from opdiff.pair.graph.contents import whole_digest
from opdiff.pair.graph.token import GraphPairing
from opdiff.read.graph.token_files import read_token
from opdiff.read.graph.tree import read_graph_tree
from opdiff.read.rules.graph_text import read_graph_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.graph import TextGraph
    from opdiff.pair.graph.contents import Stored

    Sides = tuple[TokenDump, TokenDump]

UNIT = Unit(0, 0, 0)


def write(root: Path, build: Callable[[Network], object], seed: int) -> tuple[TextGraph, Sides]:
    """Write one token of a network, whose numbers depend on the seed, and return its text and both sides."""
    network = Network(seed)
    build(network)
    network.write(root)
    target, golden = read_graph_tree(str(root / "msprobe_ge_dump")), read_graph_tree(str(root / "msprobe_fx_dump"))
    text = next(text for text in target.texts if text.is_original)
    ge, fx = target.ranks[0][0].tokens[0], golden.ranks[0][0].tokens[0]
    return read_graph_text(text.path), (read_token(ge, GraphKind.GE), read_token(fx, GraphKind.FX))


def plan_count(pairing: GraphPairing) -> int:
    return len(pairing._plans._known)


@pytest.mark.parametrize("name", NETWORKS)
def test_tokens_that_share_a_pairing_have_the_rows_of_their_own(name: str, tmp_path: Path) -> None:
    tokens = [write(tmp_path / str(seed), NETWORKS[name], seed) for seed in (7, 8, 9)]
    shared = GraphPairing(tokens[0][0])
    for text, sides in tokens:
        assert shared.pair(UNIT, *sides) == GraphPairing(text).pair(UNIT, *sides)


@pytest.mark.parametrize("name", ["mlp", "attention", "recurrence"])
def test_tokens_of_other_numbers_have_one_plan(name: str, tmp_path: Path) -> None:
    tokens = [write(tmp_path / str(seed), NETWORKS[name], seed) for seed in (7, 8, 9)]
    pairing = GraphPairing(tokens[0][0])
    for _, sides in tokens:
        pairing.pair(UNIT, *sides)
    assert plan_count(pairing) == 1


def test_a_plan_is_not_used_if_numbers_decide_otherwise(tmp_path: Path) -> None:
    """Nothing but their numbers tells two inputs of an unknown operator apart; here they are exchanged."""
    text, (target, golden) = write(tmp_path, NETWORKS["unlisted"], 7)
    mix = target.operators["Mix"]
    first, second = mix.inputs
    exchanged = (replace(first, tensor=second.tensor), replace(second, tensor=first.tensor))
    other = TokenDump(target.kind, {**target.operators, "Mix": replace(mix, inputs=exchanged)})
    pairing = GraphPairing(text)
    before, after = (
        [row.golden.path for row in pairing.pair(UNIT, side, golden)[:2]]  # type: ignore[union-attr]
        for side in (target, other)
    )
    assert before == after[::-1]
    assert plan_count(pairing) == 2


def test_an_unreadable_file_has_a_plan_of_its_own(tmp_path: Path) -> None:
    text, (target, golden) = write(tmp_path, NETWORKS["mlp"], 7)
    pairing = GraphPairing(text)
    sound = pairing.pair(UNIT, target, golden)
    name, op = next((name, op) for name, op in golden.operators.items() if op.outputs)
    broken = replace(op.outputs[0], tensor=None, problem=quoted("cut off"))
    damaged = TokenDump(golden.kind, {**golden.operators, name: replace(op, outputs=(broken, *op.outputs[1:]))})
    assert pairing.pair(UNIT, target, damaged) == GraphPairing(text).pair(UNIT, target, damaged) != sound
    assert pairing.pair(UNIT, target, golden) == sound


def test_large_tensors_are_sampled_unless_a_node_may_have_updated_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Stored] = []

    def digest(held: Stored) -> bytes | None:
        read.append(held)
        return whole_digest(held)

    monkeypatch.setattr("opdiff.pair.graph.facts.whole_digest", digest)
    monkeypatch.setattr("opdiff.pair.graph.contents.MAX_WHOLE", 2)
    for name, is_read in (("mlp", False), ("in_place", True)):
        text, sides = write(tmp_path / name, NETWORKS[name], 7)
        GraphPairing(text).pair(UNIT, *sides)
        assert bool(read) is is_read
