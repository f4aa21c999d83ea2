"""Rule files and folders of a training run."""

from __future__ import annotations

import pytest

from opdiff.core.graph import RuleFile, RuleGraph
from opdiff.pair.training import ModelFolder, match_rules


def folder(model: str, step: int = 0, device: int = 0, model_id: int = 1) -> ModelFolder:
    return ModelFolder(f"{device}/{model}/{model_id}/{step}", device, model, model_id, step)


def named(path: str, *graphs: str) -> RuleFile:
    return RuleFile(path, tuple(RuleGraph(name, ()) for name in graphs))


def test_rules_are_matched_by_name_for_every_step_in_numerical_order() -> None:
    folders = [
        folder("ge_1_71", 10),
        folder("ge_1_71", 9),
        folder("ge_1_9", 2),
        folder("ge_1_71", 0, device=10),
        folder("ge_1_71", 3, device=2),
    ]
    batch = match_rules([named("a", "ge_1_71", "sub"), named("b", "ge_1_9")], folders)
    assert [(job.folder.path, job.rules.path, job.note) for job in batch.jobs] == [
        ("0/ge_1_9/1/2", "b", None),
        ("0/ge_1_71/1/9", "a", None),
        ("0/ge_1_71/1/10", "a", None),
        ("2/ge_1_71/1/3", "a", None),
        ("10/ge_1_71/1/0", "a", None),
    ]
    assert batch.unmatched == ()


@pytest.mark.parametrize(
    ("graphs", "model", "rules"),
    [
        (("ge_default_45_71",), "ge_default_46_71", "ge_default_45_71"),
        (("ge_default_45_71", "odd", "x1y2z3"), "ge_default_46_071", "ge_default_45_71"),
        (("sub_graph", "ge_default_45_71"), "sub_graph", "sub_graph"),
    ],
)
def test_rules_are_matched_by_graph_number_otherwise(graphs: tuple[str, ...], model: str, rules: str) -> None:
    (job,) = match_rules([named(name, name) for name in graphs], [folder(model)]).jobs
    assert job.rules.path == rules
    assert ("written at different times" in str(job.note)) is (model != rules)


@pytest.mark.parametrize(
    ("graphs", "model", "reason"),
    [
        (("ge_1_71",), "ge_1_72", "no rule file has a graph named ge_1_72 or with its graph number"),
        (("ge_1_71",), "odd", "no rule file has a graph named odd"),
        ((), "ge_1_71", "no rule file has a graph named ge_1_71"),
        (("ge_1_71", "ge_2_71"), "ge_3_71", "several graphs could be ge_3_71: ge_1_71, ge_2_71"),
    ],
)
def test_an_unmatched_model_does_not_affect_the_others(graphs: tuple[str, ...], model: str, reason: str) -> None:
    batch = match_rules(
        [named("good", "good"), *(named(name, name) for name in graphs)], [folder(model), folder("good")]
    )
    assert [job.folder.model for job in batch.jobs] == ["good"]
    assert [(item.folder.model, str(item.reason)[: len(reason)]) for item in batch.unmatched] == [(model, reason)]
