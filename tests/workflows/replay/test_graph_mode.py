"""Operators of graph mode, computed again: proofs and withdrawals hold for the right rank, token and graph."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cluster_processes import refuse
from command_line import run
from graph_dumps import GraphCase
from opdiff.core.comparison import Mode
from opdiff.core.dtypes import FLOAT32
from opdiff.core.dump import Unit
from opdiff.core.replay import ReplayVerdict
from opdiff.sample.container import encode_tensor
from opdiff.sample.graph_text import TextNode
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import ComparisonResult, compare
from opdiff.workflows.compare.rejudging import judge_again
from opdiff.workflows.compare.saved import load_saved
from opdiff.workflows.limits_file import find_limits
from opdiff.workflows.replay.graph_replay import GraphReplayer, replay_graph_dump
from opdiff.workflows.replay.options import ReplayOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster_processes import ClusterProcesses
    from opdiff.core.judgement import Finding
    from opdiff.core.replay import Replay

    Array = np.ndarray[Any, Any]
    Faults = dict[tuple[int, int], Callable[[Array], Array]]

TEXT = (
    TextNode("Neg", "Neg", ("x:0",)),
    TextNode("Relu", "Relu", ("Neg:0",)),
    TextNode("Mul", "Mul", ("Relu:0", "Neg:0")),
    TextNode("Sigmoid", "Sigmoid", ("Mul:0",)),
)
FOLDER = "worldsize2_global_rank{rank}/20240130064151/0/graph_{graph}_0/1/{token}"
X = np.random.default_rng(0).normal(size=(8, 24)).astype(np.float32)


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> GraphCase:
    return GraphCase(tmp_path, capsys)


def as_is(array: Array) -> Array:
    return array


def write_token(
    case: GraphCase,
    root: Path,
    *,
    rank: int = 0,
    token: int = 0,
    graph: int = 1,
    spoil: Callable[[Array], Array] = as_is,
    only: tuple[str, ...] = (),
) -> None:
    """Write the operators of one token; `spoil` changes the output of Mul. With `only`, others are not dumped."""
    folder = FOLDER.format(rank=rank, token=token, graph=graph)
    x = X * (1 + rank + 2 * token)
    neg = -x
    relu = np.maximum(neg, 0)
    mul = spoil(relu * neg)
    steps = {"Neg": ((x,), neg), "Relu": ((neg,), relu), "Mul": ((relu, neg), mul), "Sigmoid": ((mul,), sigmoid(mul))}
    for name, (inputs, output) in steps.items():
        if not only or name in only:
            case.ge(name, inputs, (output,), op_type=name, folder=folder, root=root)


def sigmoid(array: Array) -> Array:
    result: Array = (1 / (1 + np.exp(-array))).astype(np.float32)
    return result


def write_both(case: GraphCase, faulty: Faults, golden: Faults | None = None) -> None:
    """Write two tokens of two ranks on both sides, with faults in some of them."""
    for rank in (0, 1):
        for stage in ("original", "optimized"):
            case.text(*TEXT, rank=rank, stage=stage)
        for token in (0, 1):
            write_token(case, case.target, rank=rank, token=token, spoil=faulty.get((rank, token), as_is))
            write_token(case, case.off, rank=rank, token=token, spoil=(golden or {}).get((rank, token), as_is))


def findings(case: GraphCase, *options: object) -> list[Finding]:
    """The findings of a comparison, which a saved one keeps, and the terminal shows as proved if they are."""
    outcome = case.run("--replay", *options, golden=case.off)
    assert outcome.code == 0, outcome
    comparison = load_saved([str(case.out)])
    found = comparison.judgement.findings
    assert judge_again(comparison, find_limits("")).judgement.findings == found
    is_proved = any(finding.is_proved for finding in found)
    assert ("Mul (Mul) is proved to be at fault" in " ".join(outcome.out.split())) is is_proved
    return list(found)


def test_a_fault_is_proved_in_its_unit_only(case: GraphCase) -> None:
    write_both(case, {(1, 1): lambda array: array * 1.5})
    (found,) = findings(case, 5, "--json", case.root / "answer.json")
    assert (found.operator, found.kind, found.is_proved) == ("Mul", "scale", True)
    assert found.units == found.proved_units == (Unit(1, 1, None),)
    texts = [str(reason) for reason in found.evidence]
    assert texts[0].startswith("the result is multiplied by 1.5; correcting for it reduces the error from 0.5 to ")
    assert texts[2] == "proved in rank 1, token 1 (1 of 1 unit with this error)"
    answer = (case.root / "answer.json").read_text()
    assert '"proved":true' in answer
    assert '"proved_units":[{"rank":1,"token":1,"graph":null}]' in answer


def test_different_faults_of_one_operator_are_separate_findings(case: GraphCase) -> None:
    write_both(case, {(0, 0): lambda array: array * 1.5, (0, 1): lambda array: array * 1.5, (1, 1): np.zeros_like})
    found = {finding.kind.value: finding.proved_units for finding in findings(case, "all")}
    assert found == {"scale": (Unit(0, 0, None), Unit(0, 1, None)), "memory": (Unit(1, 1, None),)}


def test_right_runs_prove_nothing(case: GraphCase) -> None:
    write_both(case, {})
    assert findings(case, "all") == []
    replays = load_saved([str(case.out)]).replays
    assert len(replays) == 16
    assert {replay.verdict for replay in replays} == {ReplayVerdict.INNOCENT}


def test_an_innocent_operator_is_withdrawn_in_its_unit(case: GraphCase) -> None:
    """The golden side is wrong in one unit, so that its suspect computed what it should."""
    write_both(case, {}, golden={(1, 1): lambda array: array * 2})
    assert [finding.operator for finding in findings(case, "none")] == ["Mul"]
    judgement = load_saved([str(case.out)]).judgement
    assert (judgement.first_bad, judgement.first_unit) == ("Mul", "rank 1, token 1")
    case.out = case.root / "replayed"
    assert findings(case, 5) == []
    judgement = load_saved([str(case.out)]).judgement
    assert (judgement.first_bad, judgement.first_unit) == ("", "")
    assert "Innocent: Mul (rank 1, token 1)." in " ".join(map(str, judgement.advice))


def test_the_data_of_the_token_before_is_named(case: GraphCase) -> None:
    write_both(case, {(0, 1): lambda _array: np.maximum(-X, 0) * -X})
    (found,) = findings(case, 5)
    assert (found.kind, found.proved_units) == ("memory", (Unit(0, 1, None),))
    assert "the output still holds the data of Mul:output:0 at the step before" in str(found.evidence[0])


def replayed(case: GraphCase, **options: Any) -> dict[str, Replay]:
    wanted = ReplayOptions(str(case.target), **options)
    return {f"{item.operator} {item.unit}": item for item in replay_graph_dump(wanted, lambda _done, _total: None)}


def test_units_of_a_dump_are_chosen_by_rank_and_token(case: GraphCase) -> None:
    write_both(case, {(1, 1): lambda array: array * 1.5})
    assert len(replayed(case)) == 16
    found = replayed(case, rank=1, token=1)
    verdicts = {name: item.verdict.value for name, item in found.items()}
    assert verdicts == {
        "Neg rank 1, token 1": "innocent",
        "Relu rank 1, token 1": "innocent",
        "Mul rank 1, token 1": "guilty",
        "Sigmoid rank 1, token 1": "innocent",
    }
    assert list(replayed(case, operators=("Mul",), rank=0)) == ["Mul rank 0, token 0", "Mul rank 0, token 1"]


def test_every_graph_has_its_own_text(case: GraphCase) -> None:
    """The operator Mul of the second graph is a sum."""
    other = [TextNode(node.name, "Add" if node.name == "Mul" else node.op_type, node.inputs) for node in TEXT]
    case.text(*TEXT, stage="optimized")
    case.text(*other, stage="optimized", graph=2)
    write_token(case, case.target)
    case.ge("Neg", (X,), (-X,), op_type="Neg", folder=FOLDER.format(rank=0, token=0, graph=2))
    inputs = np.maximum(-X, 0), -X
    case.ge("Mul", inputs, (sum(inputs),), op_type="Add", folder=FOLDER.format(rank=0, token=0, graph=2))
    found = replayed(case)
    assert {item.verdict for item in found.values()} == {ReplayVerdict.INNOCENT}
    assert found["Mul rank 0, token 0, graph 2"].op_type == "Add"


@pytest.mark.parametrize(
    ("dumped", "reason"),
    [
        (("Mul", "Sigmoid"), "but Relu before it was not dumped, and may be fused into it"),
        (("Neg", "Relu", "Mul"), "but Sigmoid behind it was not dumped, and may be fused into it"),
    ],
)
def test_an_operator_beside_missing_ones_is_never_guilty(case: GraphCase, dumped: tuple[str, ...], reason: str) -> None:
    case.text(*TEXT, stage="optimized")
    write_token(case, case.target, spoil=lambda array: array * 1.5, only=dumped)
    found = replayed(case, operators=("Mul",))["Mul rank 0, token 0"]
    assert found.verdict is ReplayVerdict.NOT_REPLAYABLE
    assert str(found.reason) == f"it differs from the graph text, {reason}"


def test_an_input_that_is_not_what_the_text_says_proves_nothing(case: GraphCase) -> None:
    """The compiler moved a transpose into Mul, and Mul kept its name."""
    case.text(*TEXT, stage="optimized")
    write_token(case, case.target, only=("Neg", "Relu", "Sigmoid"))
    case.ge("Mul", (-X, -X), (X.T,), op_type="Mul", folder=FOLDER.format(rank=0, token=0, graph=1))
    found = replayed(case, operators=("Mul",))["Mul rank 0, token 0"]
    reason = "it differs from the graph text, and its input 0 is not the output of Relu, as the text says"
    assert (found.verdict, str(found.reason)) == (ReplayVerdict.NOT_REPLAYABLE, reason)


@pytest.mark.parametrize(
    ("name", "op_type", "reason"),
    [
        ("NegRelu", "Neg", "does not have it: the graph engine made it"),
        ("Neg", "Fused", "it was dumped as Fused, and the graph text has Neg"),
    ],
)
def test_operators_that_the_graph_engine_made_are_not_replayable(
    case: GraphCase, name: str, op_type: str, reason: str
) -> None:
    case.text(*TEXT, stage="optimized")
    case.ge(name, (X,), (X,), op_type=op_type)
    (found,) = replayed(case).values()
    assert found.verdict is ReplayVerdict.NOT_REPLAYABLE
    assert str(found.reason).endswith(reason)


def test_texts_of_other_ranks_do_not_count(case: GraphCase) -> None:
    case.text(*TEXT, stage="optimized", rank=1)
    write_token(case, case.target, rank=0)
    write_token(case, case.target, rank=1)
    found = replayed(case)
    assert {str(item.reason) for item in found.values() if item.unit == Unit(0, 0, None)} == {
        "there is no text of the optimized graph of this rank (dynamo_optimized_graph_*.txt)"
    }
    assert {item.verdict for item in found.values() if item.unit == Unit(1, 0, None)} == {ReplayVerdict.INNOCENT}


def test_the_command_finds_texts_and_suspects(case: GraphCase) -> None:
    write_both(case, {(1, 1): lambda array: array * 1.5})
    every = run(case.capsys, "replay", case.target)
    assert every.code == 0, every.err
    assert every.out.endswith("16 operators: 15 innocent, 1 guilty, 0 not replayable\n")
    suspects = run(case.capsys, "replay", case.target, case.off, "--json", "-").json
    assert [(item["operator"], item["verdict"], item["unit"]) for item in suspects] == [
        ("Mul", "guilty", {"rank": 1, "token": 1, "graph": None})
    ]
    case.run(golden=case.off)
    assert run(case.capsys, "replay", "--saved", case.out, "--json", "-").json == suspects
    assert "has no such rank, token or graph" in run(case.capsys, "replay", case.target, "--rank", 7).err
    refused = run(case.capsys, "replay", case.target, "--rank", 1, "-fr", case.root / "x.json")
    assert "--rank goes with dumps of graph mode, without -fr and --model" in refused.err


def test_an_input_that_the_output_replaced_is_taken_from_its_producer(case: GraphCase) -> None:
    """The sum has the address of its first input, which was dumped after it was overwritten."""
    case.text(TextNode("Neg", "Neg", ("x:0",)), TextNode("Add", "Add", ("Neg:0", "y:0")), stage="optimized")
    case.ge("Neg", (X,), (-X,), op_type="Neg")
    result, y = encode_tensor(X, FLOAT32, address=4096), encode_tensor(X * 2, FLOAT32, address=8192)
    case.ge("Add", (result, y), (result,), op_type="Add")
    found = replayed(case, operators=("Add",))["Add rank 0, token 0"]
    assert (found.verdict, found.error) == (ReplayVerdict.INNOCENT, 0.0)


def test_the_time_is_limited_and_progress_is_reported(case: GraphCase) -> None:
    """Without time, the first suspect of the earliest token is computed, and a note says that there are more."""
    write_both(case, {(0, 0): lambda array: array * 1.5, (1, 1): lambda array: array * 1.5})
    seen: list[tuple[int, int]] = []
    wanted = CompareOptions(str(case.target), str(case.off), mode=Mode.GRAPH, replay=5, replay_seconds=0.0)
    report = lambda done, total, _left: seen.append((done, total))  # noqa: E731  a callback of one line
    (result,) = compare(wanted, lambda _done, _total: None, on_replay_progress=report)
    assert isinstance(result, ComparisonResult)
    assert [(replay.operator, replay.unit) for replay in result.comparison.replays] == [("Mul", Unit(0, 0, None))]
    assert "only 1 suspect had been computed again" in " ".join(map(str, result.comparison.notes))
    (found,) = result.comparison.judgement.findings
    assert (found.units, found.proved_units) == ((Unit(0, 0, None), Unit(1, 1, None)), (Unit(0, 0, None),))
    assert "proved in rank 0, token 0 (1 of 2 units with this error)" in map(str, found.evidence)
    assert seen == [(0, 2)]


def test_ranks_of_a_table_have_their_own_texts(case: GraphCase) -> None:
    """Each rank has a directory of its own, and no folder of a rank in it."""
    lines = []
    for rank in (0, 1):
        for side, faulty in (("ge", rank == 1), ("off", False)):
            root = case.root / f"{side}{rank}" / "msprobe_ge_dump"
            folder = "20240130064151/0/graph_1_0/1/0"
            for stage in ("original", "optimized"):
                case.text(*TEXT, stage=stage, rank=rank, root=root)
            relu = np.maximum(-X, 0) * (2 if faulty else 1)
            steps = {"Neg": ((X,), -X), "Relu": ((-X,), relu), "Mul": ((relu, -X), relu * -X)}
            for name, (inputs, output) in steps.items():
                case.ge(name, inputs, (output,), op_type=name, folder=folder, root=root)
        target, golden = (case.root / f"{side}{rank}" / "msprobe_ge_dump" for side in ("ge", "off"))
        lines += [f"[rank.{rank}]", f'target = "{target}"', f'golden = "{golden}"']
    table = case.add(case.root / "ranks.toml", "\n".join(lines).encode())
    outcome = run(case.capsys, "compare", "--ranks", table, "--replay", 5, "-o", case.out)
    assert outcome.code == 0, outcome
    (found,) = load_saved([str(case.out)]).judgement.findings
    assert (found.operator, found.kind, found.proved_units) == ("Relu", "scale", (Unit(1, 0, None),))


# On a cluster


@pytest.mark.parametrize("extent", [5, "all"])
def test_workers_of_a_cluster_prove_the_same(
    case: GraphCase, processes: ClusterProcesses, monkeypatch: pytest.MonkeyPatch, extent: object
) -> None:
    """The golden side is wrong in one unit, whose other operators are replayed, too."""
    write_both(case, {(1, 1): lambda array: array * 1.5}, golden={(0, 1): lambda array: array * 2})
    here = findings(case, extent)
    replays = load_saved([str(case.out)]).replays
    case.out = case.root / "there"
    monkeypatch.setattr(GraphReplayer, "replay", refuse)
    assert repr(findings(case, extent, "--cluster", processes.address)) == repr(here)
    assert load_saved([str(case.out)]).replays == replays
    assert len(replays) > 1


@pytest.mark.parametrize("seen_by", ["", "npu-1"], ids=["by_client", "by_client_and_one_worker"])
def test_dump_that_not_all_workers_have(
    case: GraphCase,
    processes: ClusterProcesses,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seen_by: str,
) -> None:
    """`/proc/self/cwd` are other files for each process; one worker has the texts, and not all dump files."""
    write_both(case, {(1, 1): lambda array: array * 1.5})
    monkeypatch.chdir(case.root.parent)
    monkeypatch.setattr("opdiff.core.filesystem.realpath", lambda path: path)
    if seen_by:
        shutil.copytree(case.root, processes.folder_of(seen_by) / case.root.name)
    incomplete = processes.folder_of("npu-2") / case.root.name
    shutil.copytree(case.root, incomplete, ignore=shutil.ignore_patterns("Relu.*", "Neg.*"))
    words = "replay", f"/proc/self/cwd/{case.target.relative_to(case.root.parent)}", "--json"
    here = run(capsys, *words)
    there = run(capsys, *words, "--cluster", processes.address)
    assert there.code == here.code == 0, there
    assert there.out == here.out
    assert {item["verdict"] for item in here.json} >= {"guilty", "innocent"}
