"""Ranks that hold parts of a tensor are compared with their parts of the whole golden tensor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from graph_dumps import GraphCase, floats
from opdiff.core.reasons import Reason
from opdiff.core.shards import Join, ShardRule
from opdiff.sample.graph_text import TextNode
from opdiff.workflows.compare.shards import find_rule, spans_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graph_dumps import Table
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

WHOLE = floats(np.random.default_rng(0).normal(size=(4, 6)))
FX_FOLDER = "graph_1/0"


def rank_folder(rank: int, count: int) -> str:
    return f"worldsize{count}_global_rank{rank}/20240130064151/0/graph_1_0/1/0"


def write(case: GraphCase, parts: Sequence[AnyArray], golden: AnyArray = WHOLE, *, collective: bool = False) -> None:
    """Write one operator `Add` with one output, dumped by every rank, and by a golden run without ranks."""
    nodes = [TextNode("Add", "Add", output_fx=("add-aten.add.Tensor.OUTPUT.0",))]
    if collective:
        nodes += [TextNode("Cast", "Cast", ("Add:0",)), TextNode("Sum", "HcomAllReduce", ("Cast:0",))]
    for rank, part in enumerate(parts):
        case.text(*nodes, rank=rank)
        case.ge("Add", (), (part,), folder=rank_folder(rank, len(parts)))
    case.node("add-aten.add.Tensor", (), (golden,), folder=FX_FOLDER)


def tables(case: GraphCase, *options: object) -> list[Table]:
    return case.tables("--shards", *(options or ("auto",)))


def outputs(found: Sequence[Table]) -> list[dict[str, str]]:
    return [row for table in found for row in table.rows if row["API Name"].startswith("Add")]


@pytest.mark.parametrize(
    "parts",
    [np.split(WHOLE, 2, axis=0), np.split(WHOLE, 2, axis=1), np.split(WHOLE, 3, axis=1), [WHOLE, WHOLE]],
    ids=["2 along axis 0", "2 along axis 1", "3 along axis 1", "copies"],
)
def test_equal_parts_pass_on_every_rank(case: GraphCase, parts: Sequence[AnyArray]) -> None:
    write(case, parts)
    found = outputs(tables(case))
    assert [row["Result"] for row in found] == ["PASS"] * len(parts)
    assert all(float(row["MaxAbsErr"]) == 0 for row in found)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_wrong_part_fails_on_its_rank_only_and_the_rank_is_named(case: GraphCase, axis: int) -> None:
    parts = [part.copy() for part in np.split(WHOLE, 2, axis=axis)]
    parts[1] *= 1.5
    write(case, parts)
    outcome = case.run("--shards", "auto")
    assert outcome.code == 0, outcome
    assert "rank 1" in outcome.out
    assert "rank 0" not in outcome.out.split("rank 1")[0]


def test_parts_in_the_wrong_order_fail(case: GraphCase) -> None:
    write(case, np.split(WHOLE, 2, axis=1)[::-1])
    assert {row["Result"] for row in outputs(tables(case))} == {"FAIL"}


def test_an_interrupted_run_adds_changed_partial_sums_again(case: GraphCase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of all ranks count, not only that of the first one."""
    monkeypatch.setattr("opdiff.workflows.compare.finished_chunks.remove_chunks", lambda _folder: None)
    write(case, [WHOLE, np.zeros_like(WHOLE)], collective=True)
    assert outputs(tables(case, "auto", "--resume"))[0]["Result"] == "PASS"
    (changed,) = case.target.rglob("worldsize2_global_rank1/**/Add.Add.*")
    case.ge("Add", (), (WHOLE,), folder=rank_folder(1, 2)).replace(changed)
    os.utime(changed, (0, 0))
    assert outputs(tables(case, "auto", "--resume"))[0]["Result"] == "FAIL"


def test_partial_sums_are_added_and_compared_once(case: GraphCase) -> None:
    first = floats(np.random.default_rng(1).normal(size=WHOLE.shape))
    write(case, [first, WHOLE - first], collective=True)
    found = outputs(tables(case))
    assert found[0]["Result"] == "PASS"
    assert float(found[0]["MaxAbsErr"]) < 1e-6
    assert "a partial sum; the sum over all ranks is compared in the table of rank 0" in str(found[1])


def test_a_missing_partial_sum_is_not_taken_for_zero(case: GraphCase) -> None:
    write(case, [WHOLE, WHOLE * 0], collective=True)
    for path in case.target.glob("worldsize2_global_rank1/**/Add.Add.*"):
        path.rename(path.with_name(path.name.replace("Add.Add", "Add.Other")))
    outcome = case.run("--shards", "auto")
    assert outcome.code == 3
    assert "rank 1 has no data of this tensor, so that the partial sums cannot be added" in outcome.out


def test_without_a_graph_text_equal_shapes_are_ambiguous() -> None:
    found = find_rule((4, 6), (4, 6), 2, is_sum=None)
    assert isinstance(found, Reason)
    assert "may be copies or partial sums" in str(found)
    assert "--shards FILE" in str(found)


@pytest.mark.parametrize(
    ("target", "golden", "count", "axis"),
    [((2, 6), (4, 6), 2, 0), ((4, 2), (4, 6), 3, 1), ((1, 5), (4, 5), 4, 0)],
)
def test_the_divided_axis_follows_from_shapes(target: Shape, golden: Shape, count: int, axis: int) -> None:
    assert find_rule(target, golden, count, is_sum=False) == ShardRule("*", Join.CONCAT, axis)


@pytest.mark.parametrize(
    ("target", "golden", "count"),
    [((2, 3), (4, 6), 2), ((3, 6), (4, 6), 2), ((2, 6), (4, 6), 4), ((12,), (4, 6), 2), ((8, 6), (4, 6), 2)],
)
def test_other_shapes_ask_for_a_file(target: Shape, golden: Shape, count: int) -> None:
    found = find_rule(target, golden, count, is_sum=False)
    assert isinstance(found, Reason)
    assert "declare how it is divided with --shards FILE" in str(found)


def test_blocks_are_divided_each() -> None:
    rule = ShardRule("*", Join.CONCAT, 0, blocks=3)
    assert spans_of(12, rule, 1, 2) == ((2, 4), (6, 8), (10, 12))
    assert spans_of(13, rule, 1, 2) is None


def test_a_file_declares_blocks_and_the_order_of_ranks(case: GraphCase) -> None:
    query, key = np.split(WHOLE, 2, axis=1)
    parts = [np.hstack([query[:, cut], key[:, cut]]) for cut in (slice(0, 1), slice(1, 2), slice(2, 3))]
    write(case, parts[::-1])
    rules = case.add(
        case.root / "tp.toml",
        b'ranks = [2, 1, 0]\n[[shard]]\ntensor = "Add*"\njoin = "concat"\naxis = -1\nblocks = 2\n',
    )
    assert [row["Result"] for row in outputs(tables(case, rules))] == ["PASS"] * 3


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("ranks = [7]", "the target has no rank 7"),
        ("ranks = [0, 0]", "a rank is listed twice"),
        ('[[shard]]\ntensor = "x"\njoin = "glue"', "not a file of shards: Invalid enum value 'glue'"),
        ('[[shard]]\ntensor = "x"\njoin = "add"\nsize = 3', "unknown field `size`"),
        ("[[shard", "not valid TOML"),
    ],
)
def test_files_that_cannot_be_used(case: GraphCase, content: str, problem: str) -> None:
    write(case, np.split(WHOLE, 2))
    path = case.add(case.root / "tp.toml", content.encode())
    assert problem in case.refused("--shards", path)


def test_without_the_option_the_choice_is_the_users(case: GraphCase) -> None:
    write(case, np.split(WHOLE, 2))
    problem = case.refused(code=2)
    assert "choose one with --rank, or add --shards auto if they hold parts of its tensors" in problem


def test_one_rank_can_be_selected(case: GraphCase) -> None:
    write(case, np.split(WHOLE, 2))
    (row,) = outputs(case.tables("--shards", "auto", "--rank", 1))
    assert row["Result"] == "PASS"


@pytest.mark.parametrize("collective", [False, True], ids=["slices", "partial_sums"])
def test_workers_of_a_cluster_join_parts(case: GraphCase, collective: bool) -> None:
    parts = [WHOLE * 0.25, WHOLE * 0.75] if collective else np.split(WHOLE, 2, axis=1)
    write(case, parts, collective=collective)
    here = outputs(tables(case))
    there = outputs(tables(case, "auto", "--cluster", "local:2"))
    assert there == here
    assert there[0]["Result"] == "PASS"
