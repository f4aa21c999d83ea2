"""Where in bad tensors the error is: what is kept of it, for which tensors, and along which axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from dump_files import tensor
from made_dumps import Case, describe, numbers, rule
from opdiff.report.html_page import write_html
from opdiff.report.saved_json import load
from opdiff.workflows.compare import profiles as channels

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.comparison import Profile

GOOD = numbers(2, 12, 9, 9)


def profiles(case: Case, *options: object) -> tuple[Profile, ...]:
    case.compared(*options)
    (path,) = case.results("result_*.json")
    return load(str(path)).profiles


def with_bad(axis: int, place: int, values: AnyArray = GOOD) -> AnyArray:
    made = values.copy()
    np.moveaxis(made, axis, 0)[place] += 3
    return made


@pytest.fixture(params=["native", "numpy"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setenv("OPDIFF_KERNEL", "numpy")


@pytest.mark.usefixtures("kernel")
def test_a_bad_channel_is_seen(case: Case) -> None:
    (found,) = profiles(case, "-fr", case.one(with_bad(1, 7), GOOD, layout="NCHW", shape=GOOD.shape))
    assert (found.row, found.axis, found.letter, found.extent, found.width, found.seen) == (0, 1, "C", 12, 1, 1.0)
    assert found.errors == tuple(3.0 * (place == 7) for place in range(12))
    assert found.largest == found.errors
    assert set(found.not_finite) == {0}


@pytest.mark.usefixtures("kernel")
def test_another_axis_is_shown_beside_the_channels_when_it_has_the_error(case: Case) -> None:
    found = profiles(case, "-fr", case.one(with_bad(3, 4), GOOD, layout="NCHW", shape=GOOD.shape))
    assert [(each.axis, each.letter) for each in found] == [(1, "C"), (3, "W")]
    assert len(set(found[0].errors)) == 1
    assert [place for place, error in enumerate(found[1].errors) if error] == [4]


def test_channels_are_the_last_axis_where_the_layout_says_so(case: Case) -> None:
    (found,) = profiles(case, "-fr", case.one(with_bad(3, 4), GOOD, layout="NHWC", shape=GOOD.shape))
    assert (found.axis, found.letter) == (3, "C")


@pytest.mark.parametrize("axis", [0, 1])
def test_without_a_layout_the_axis_is_shown_that_tells_most(case: Case, axis: int) -> None:
    values = numbers(12, 30)
    (found,) = profiles(case, "-fr", case.one(with_bad(axis, 7, values), values))
    assert (found.axis, found.letter) == (axis, "")
    assert [place for place, error in enumerate(found.errors) if error] == [7]


def test_good_tensors_are_not_looked_at(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "native_job", None)
    assert profiles(case, "-fr", case.one(GOOD, GOOD)) == ()


def test_what_is_inherited_is_not_looked_at(case: Case) -> None:
    bad = with_bad(1, 7)
    for name, values in (("a", bad), ("b", bad)):
        case.npu(name, tensor(values), inputs=(bad,) if name == "b" else ())
        case.npy(name, GOOD)
    rules = case.rules(
        rule("a", "Conv2D", outputs=(describe("a", 0, layout="NCHW"),)),
        rule("b", "Relu", inputs=("a:0",), outputs=(describe("b", 0, layout="NCHW"),)),
    )
    found = profiles(case, "-fr", rules)
    (path,) = case.results("result_*.json")
    assert [str(load(str(path)).rows[each.row].key) for each in found] == ["a:output:0"]


def test_not_more_than_the_budget_is_looked_at(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(6)]
    for name in names:
        case.npu(name, with_bad(1, 7))
        case.npy(name, GOOD)
    made = (rule(name, inputs=("data:0",), outputs=(describe(name, 0),)) for name in names)
    rules = case.rules(rule("data", "Data"), *made)
    assert len({each.row for each in profiles(case, "-fr", rules)}) == 6
    monkeypatch.setattr(channels, "_MAX_TENSORS", 4)
    case.out = case.root / "other"
    assert len({each.row for each in profiles(case, "-fr", rules)}) == 4
    monkeypatch.setattr(channels, "_MAX_ELEMENTS", 2 * GOOD.size)
    case.out = case.root / "third"
    assert len({each.row for each in profiles(case, "-fr", rules)}) == 2


def test_conversions_of_the_users_own_are_followed(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "own" / "format_convert"
    folder.mkdir(parents=True)
    (folder / "convert_ND_to_NCHW.py").write_text(
        "def convert(shape_from, shape_to, array):\n    return array.reshape(shape_from)\n"
    )
    found = profiles(case, "-fr", case.one(with_bad(1, 7), GOOD, layout="NCHW"), "-c", tmp_path / "own")
    assert [place for place, error in enumerate(found[0].errors) if error] == [7]


def test_a_report_of_the_saved_comparison_has_it_too(case: Case, tmp_path: Path) -> None:
    profiles(case, "-fr", case.one(with_bad(1, 7), GOOD, layout="NCHW", shape=GOOD.shape))
    (path,) = case.results("result_*.json")
    kept = load(str(path))
    write_html(kept, str(tmp_path / "with.html"))
    write_html(replace(kept, profiles=()), str(tmp_path / "without.html"))
    assert (tmp_path / "with.html").stat().st_size > (tmp_path / "without.html").stat().st_size
