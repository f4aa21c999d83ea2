"""Pictures of bad tensors: which tensors are drawn, and what they show through layouts and in both modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from made_dumps import Case, numbers
from opdiff.cli import main
from opdiff.report.saved_json import load
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample
from opdiff.workflows.compare import pictures as drawing

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison
    from opdiff.core.pictures import TensorPicture

GOOD = numbers(2, 12, 9, 9)
BAD = GOOD.copy()
BAD[1, 7, 2, 3] += 50


def compared(case: Case, *options: object) -> Comparison:
    case.compared(*options)
    (path,) = case.results("result_*.json")
    return load(str(path))


def picture(case: Case, *options: object) -> TensorPicture:
    (found,) = compared(case, "-fr", case.one(BAD, GOOD, layout="NCHW", shape=GOOD.shape), *options).pictures
    return found


def worst_cell(found: TensorPicture) -> tuple[int, ...]:
    error = np.frombuffer(found.frames[0].error, np.uint8).reshape(found.extents)
    return tuple(int(each) for each in np.unravel_index(error.argmax(), error.shape))


def test_a_bad_tensor_is_drawn_in_its_logical_layout(case: Case) -> None:
    found = picture(case)
    assert (found.row, found.shape, found.labels, found.axes) == (0, GOOD.shape, "NCHW", (2, 3))
    assert (found.frames[0].index, worst_cell(found)) == ((1, 7), (2, 3))
    assert found.frames[0].share > 0.99
    assert len(found.frames) == found.frame_count == 24


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"_RANGE_ELEMENTS": 128},
        {"_MAX_FULL_ELEMENTS": 100, "_MAX_NATIVE_ELEMENTS": 1999},
        {"_MAX_NATIVE_ELEMENTS": 0},
    ],
    ids=["whole", "range-of-a-sample", "sample", "nothing-left"],
)
def test_large_tensors_are_drawn_as_others(case: Case, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(drawing, name, limit)
    monkeypatch.setattr("opdiff.workflows.compare.examined_tensors._MAX_ELEMENTS", 0)
    monkeypatch.setattr("opdiff.measure.slices.MAX_FULL_ELEMENTS", 100)
    found = picture(case)
    assert (found.frames[0].index, worst_cell(found)) == ((1, 7), (2, 3))


@pytest.mark.parametrize(("is_in_place", "count"), [(True, 1), (False, 0)])
def test_large_tensors_are_drawn_only_if_they_are_read_in_place(
    case: Case, monkeypatch: pytest.MonkeyPatch, *, is_in_place: bool, count: int
) -> None:
    monkeypatch.setattr(drawing, "MAX_LOADED_BYTES", 0)
    monkeypatch.setattr("opdiff.workflows.compare.examined_tensors.MAX_LOADED_BYTES", 0)
    monkeypatch.setattr(drawing, "is_remote", lambda _path: not is_in_place)
    assert len(compared(case, "-fr", case.one(BAD, GOOD)).pictures) == count


def test_an_unreadable_tensor_costs_its_picture_only(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opdiff.measure.pictures.draw_picture", _no_memory)
    assert compared(case, "-fr", case.one(BAD, GOOD)).pictures == ()


def _no_memory(*_arguments: object, **_options: object) -> None:
    raise MemoryError


def test_good_tensors_have_no_picture(case: Case) -> None:
    assert compared(case, "-fr", case.one(GOOD, GOOD)).pictures == ()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    made = write_sample(str(tmp_path_factory.mktemp("sample")))
    return [made.target, made.golden, "--rules", made.rules]


def saved(out: Path, *arguments: str) -> Comparison:
    assert main(["compare", *arguments, "-o", str(out), "-q", "--no-html", "--replay", "none"]) == 0
    (path,) = out.glob("result_*.json")
    return load(str(path))


def test_operators_at_fault_come_first(sample: list[str], tmp_path: Path) -> None:
    found = saved(tmp_path, *sample)
    tensors = [str(found.rows[each.row].key) for each in found.pictures]
    assert tensors[:3] == [finding.tensor for finding in found.judgement.findings]
    assert len(tensors) == len(set(tensors)) == 20
    assert all(tensor.rpartition(":")[0].endswith("output") for tensor in tensors[:10])


@pytest.mark.parametrize(("choice", "count"), [("none", 0), ("0", 0), ("2", 2), ("all", 45)])
def test_the_number_of_pictures_can_be_chosen(sample: list[str], tmp_path: Path, choice: str, count: int) -> None:
    assert len(saved(tmp_path, *sample, "--pictures", choice).pictures) == count


def test_a_wrong_number_of_pictures_is_refused(
    sample: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(capsys, "compare", *sample, "--pictures", "many", "-o", str(tmp_path))
    assert done.code == 2
    assert "--pictures is a number of tensors, all or none; 'many' is none of these" in done.err


def test_pictures_end_with_the_bytes_of_a_report(
    sample: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing.PictureBounds, "of", lambda _choice: drawing.PictureBounds(20, 8_000))
    assert 1 <= len(saved(tmp_path, *sample).pictures) < 20


def test_the_storage_order_is_explained_and_saved(sample: list[str], tmp_path: Path) -> None:
    found = saved(tmp_path, *sample)
    (facts,) = (each for each in found.error_facts if each.explanations)
    assert str(found.rows[facts.row].key) == "context/pool:output:0"
    evidence = found.judgement.findings[0].evidence[0]
    assert evidence.code == "judge.stored_order"
    assert "the axes are stored in the order (C, W, H) instead of (C, H, W)" in str(evidence)
    assert facts.explanations[0].after < 0.01 < facts.explanations[0].before


def test_an_order_that_cannot_be_examined_costs_its_explanation_only(
    sample: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opdiff.workflows.element_diff.explain.explain", _no_memory)
    found = saved(tmp_path, *sample)
    assert not any(each.explanations for each in found.error_facts)
    assert [each.code for each in found.judgement.findings[0].evidence] == ["judge.same_values", "judge.reordered"]


def test_graph_mode_has_pictures_of_its_units(tmp_path: Path) -> None:
    made = write_graph_sample(str(tmp_path / "sample"))
    found = saved(tmp_path / "out", made.target, made.golden, "-m", "torchair")
    finding = found.judgement.findings[0]
    row = found.rows[found.pictures[0].row]
    assert (str(row.key), row.unit) == (finding.tensor, finding.units[0])
