"""The task-level check: pairs, agreement, accuracy, ties, NaN, and signs of mixed-up data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

import opdiff
from opdiff.core.errors import InputError, UsageError
from opdiff.core.judgement import Outcome
from opdiff.workflows.topn import pipeline
from score_files import save, scores

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.workflows.topn.result import TopnResult

RANDOM = np.random.default_rng(1)
LABELS = RANDOM.integers(0, 10, 1000)


def check(
    tmp_path: Path, target: AnyArray, golden: AnyArray, labels: AnyArray | None = None, **options: object
) -> TopnResult:
    sides = save(tmp_path / "t.npy", target), save(tmp_path / "g.npy", golden)
    path = "" if labels is None else save(tmp_path / "l.npy", labels)
    return opdiff.topn(*sides, labels=path, options=opdiff.TopnOptions(**options))  # type: ignore[arg-type]  # by name


def test_agreement_and_accuracy(tmp_path: Path) -> None:
    golden_best, target_best = LABELS.copy(), LABELS.copy()
    golden_best[:200] = (LABELS[:200] + 1) % 10  # wrong in the golden run
    target_best[:200] = golden_best[:200]
    target_best[:10] = LABELS[:10]  # gained
    target_best[500:550] = (LABELS[500:550] + 1) % 10  # lost
    result = check(tmp_path, scores(target_best), scores(golden_best), LABELS)
    first = result.top[0]
    assert (result.samples, result.classes) == (1000, 10)
    assert first.agreement.value == 0.94
    assert first.target_accuracy is not None
    assert first.golden_accuracy is not None
    assert (first.target_accuracy.value, first.golden_accuracy.value) == (0.76, 0.8)
    assert first.loss.value == pytest.approx(0.04)
    assert result.outcome is Outcome.WRONG
    assert {flip.name for flip in result.flips} == {str(number) for number in (*range(10), *range(500, 550))}
    assert str(result.sentences[0]).startswith("The difference cannot be ignored: the top-1 accuracy of the target is")


def test_the_blocks_do_not_change_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, golden = scores(LABELS), scores(np.roll(LABELS, 1))
    whole = check(tmp_path, target, golden, LABELS)
    monkeypatch.setattr(pipeline, "_BLOCK_ELEMENTS", 70)
    parts = check(tmp_path, target, golden, LABELS)
    assert replace(parts, scored=whole.scored) == whole


def test_flips_have_both_results_and_margins_the_clearest_first(tmp_path: Path) -> None:
    golden = np.array([[0, 1, 0.75], [0.5, 0, 2], [3, 0, 0]])
    target = np.array([[0, 1, 1.25], [1, 0.5, 0.25], [3, 0, 0]])
    result = check(tmp_path, target, golden, ks=(1, 2))
    assert [flip.name for flip in result.flips] == ["1", "0"]
    clear, close = result.flips
    assert (clear.golden.classes, clear.target.classes) == ((2, 0), (0, 1))
    assert (clear.golden.margin, clear.target.margin) == (1.5, 0.75)
    assert (close.golden.margin, close.target.margin) == (0.25, 0.25)
    assert not close.is_tie


@pytest.mark.parametrize(("score", "golden"), [(1.0, 0.9), (np.inf, 0.0)], ids=["finite", "infinite"])
def test_ties_are_flips_that_are_called_ties(tmp_path: Path, score: float, golden: float) -> None:
    result = check(tmp_path, np.array([[score, score, 0.0]]), np.array([[golden, score, 0.0]]), ks=(1, 2))
    assert [flip.is_tie for flip in result.flips] == [True]
    assert result.flips[0].target.margin == 0
    assert result.top[0].agreement.number == 0
    assert result.top[1].agreement.number == 1
    assert "gives the same score: 1." in str(result.sentences[-1])


@pytest.mark.parametrize("side", ["target", "golden", "both"])
def test_samples_with_nan_never_agree_and_are_never_right(tmp_path: Path, side: str) -> None:
    """`argmax` takes the class of the NaN for the best one."""
    good = scores([1] * 4)
    bad = good.copy()
    bad[0, 1] = np.nan
    result = check(tmp_path, good if side == "golden" else bad, good if side == "target" else bad, np.ones(4, np.int64))
    assert result.top[0].agreement.number == 3
    assert result.top[1].agreement.number == 3
    (flip,) = result.flips
    assert (flip.target.classes == ()) == (side != "golden")
    assert flip.target.margin is None
    sides = ("target", "golden") if side == "both" else (side,)
    expected = [f"1 sample of the {name} side with NaN" for name in sides]
    assert [str(note).partition(":")[0] for note in result.notes] == expected


def test_pairs_by_name(tmp_path: Path) -> None:
    for number in range(5):
        save(tmp_path / "t" / f"img_{number}_0.npy", scores([number]))
        save(tmp_path / "g" / f"img_{4 - number}.npy", scores([4 - number]))
    save(tmp_path / "g" / "img_5.npy", scores([1]))
    result = opdiff.topn(tmp_path / "t", tmp_path / "g")
    assert result.samples == result.top[0].agreement.number == 5
    assert [str(note) for note in result.notes] == ["1 sample of the golden side without a partner: img_5"]


def test_links_out_of_the_directory_are_left_out_with_a_note(tmp_path: Path) -> None:
    outside = save(tmp_path / "out.npy", scores([1]))
    for side in ("t", "g"):
        save(tmp_path / side / "a.npy", scores([1]))
    (tmp_path / "t" / "b.npy").symlink_to(outside)
    result = opdiff.topn(tmp_path / "t", tmp_path / "g")
    assert result.samples == 1
    assert str(result.notes[0]).startswith(f"1 file left out, such as {tmp_path / 't' / 'b.npy'}: ")


def test_pairs_by_order_with_a_note(tmp_path: Path) -> None:
    for number in range(12):
        save(tmp_path / "t" / f"run{number}.npy", scores([number], 20))
    golden = save(tmp_path / "g.npy", scores(range(12), 20))
    result = opdiff.topn(tmp_path / "t", golden)
    assert result.top[0].agreement.number == 12
    assert [str(note) for note in result.notes] == [
        "no names are equal: samples are paired by order, run0 with 0 first"
    ]


def test_a_dump_against_arrays(tmp_path: Path) -> None:
    for step in range(3):
        save(tmp_path / "t" / str(step) / "prob.0.1700000000000000.npy", scores([step]))
        save(tmp_path / "t" / str(step) / "conv.0.1700000000000000.npy", scores([step], 4))
        save(tmp_path / "g" / f"{step}.npy", scores([step]))
    result = opdiff.topn(tmp_path / "t", tmp_path / "g", options=opdiff.TopnOptions(operator="prob"))
    assert result.top[0].agreement.number == 3


def test_sides_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the target has 10 classes, the golden side .* has 11; one of them seems to"):
        check(tmp_path, scores([1, 2]), scores([1, 2], 11))
    save(tmp_path / "d" / "a.npy", scores([1]))
    with pytest.raises(InputError, match=r"no names are equal .*, and 1 sample of the target cannot be paired with 2"):
        opdiff.topn(tmp_path / "d", tmp_path / "t.npy")
    with pytest.raises(UsageError, match="k 1,10: the best of 10 classes are 1 to 9"):
        check(tmp_path, scores([1]), scores([1]), ks=(1, 10))


def test_labels_of_another_numbering_are_noticed(tmp_path: Path) -> None:
    labels = LABELS % 9
    result = check(tmp_path, scores(labels), scores(labels), labels + 1)
    assert "they fit with --label-offset -1" in str(result.notes[0])
    result = check(tmp_path, scores(labels), scores(labels), (labels + 3) % 10)
    assert str(result.notes[0]).endswith("labels are in another order, or of another numbering")


def test_samples_in_another_order_are_noticed(tmp_path: Path) -> None:
    result = check(tmp_path, scores(LABELS), scores((LABELS + 4) % 10))
    assert "the two runs agree no better than by chance" in str(result.notes[0])


def test_the_same_path_twice_is_noticed(tmp_path: Path) -> None:
    path = save(tmp_path / "t.npy", scores(LABELS))
    assert [str(note) for note in opdiff.topn(path, path).notes] == ["both sides are the same path"]


def test_few_samples_are_not_enough(tmp_path: Path) -> None:
    result = check(tmp_path, scores(LABELS[:20]), scores(LABELS[:20]), LABELS[:20])
    assert result.outcome is Outcome.UNSURE
    assert str(result.sentences[1]).startswith("20 samples cannot tell a difference of 3% from chance")
