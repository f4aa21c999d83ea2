"""Error profiles of bad tensors: their contents, the chosen tensors and axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import astuple, replace

from dump_files import tensor
from made_dumps import Case, describe, numbers, rule
from opdiff.report.html_page import write_html
from opdiff.report.saved_json import load
from opdiff.workflows.compare import profiles as channels

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from opdiff.core.error_facts import Profile

GOOD = numbers(2, 12, 9, 9)


def profiles(case: Case, *options: object) -> tuple[Profile, ...]:
    case.compared(*options)
    (path,) = case.results("result_*.json")
    return load(str(path)).profiles


def with_bad(axis: int, index: int, values: AnyArray = GOOD) -> AnyArray:
    values_with_error = values.copy()
    np.moveaxis(values_with_error, axis, 0)[index] += 3
    return values_with_error


@pytest.fixture(params=["native", "numpy"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setenv("OPDIFF_KERNEL", "numpy")


@pytest.mark.usefixtures("kernel")
def test_profile_of_a_bad_channel(case: Case) -> None:
    (found,) = profiles(case, "-fr", case.one(with_bad(1, 7), GOOD, layout="NCHW", shape=GOOD.shape))
    assert astuple(found)[:6] == (0, 1, "C", 12, 1, 1.0)
    assert found.errors == tuple(3.0 * (index == 7) for index in range(12))
    assert found.largest == found.errors
    assert set(found.not_finite) == {0}


@pytest.mark.usefixtures("kernel")
def test_second_profile_of_an_axis_with_concentrated_errors(case: Case) -> None:
    found = profiles(case, "-fr", case.one(with_bad(3, 4), GOOD, layout="NCHW", shape=GOOD.shape))
    assert [(each.axis, each.label) for each in found] == [(1, "C"), (3, "W")]
    assert len(set(found[0].errors)) == 1
    assert [index for index, error in enumerate(found[1].errors) if error] == [4]


def test_channels_are_the_last_axis_in_nhwc(case: Case) -> None:
    (found,) = profiles(case, "-fr", case.one(with_bad(3, 4), GOOD, layout="NHWC", shape=GOOD.shape))
    assert (found.axis, found.label) == (3, "C")


@pytest.mark.parametrize("axis", [0, 1])
def test_without_layout_the_axis_with_most_concentrated_errors_is_chosen(case: Case, axis: int) -> None:
    values = numbers(12, 30)
    (found,) = profiles(case, "-fr", case.one(with_bad(axis, 7, values), values))
    assert (found.axis, found.label) == (axis, "")
    assert [index for index, error in enumerate(found.errors) if error] == [7]


def test_good_tensors_have_no_profile(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "native_job", None)
    assert profiles(case, "-fr", case.one(GOOD, GOOD)) == ()


def test_propagated_errors_have_no_profile(case: Case) -> None:
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


def test_number_of_examined_elements_is_limited(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"n{number}" for number in range(6)]
    for name in names:
        case.npu(name, with_bad(1, 7))
        case.npy(name, GOOD)
    values_with_error = (rule(name, inputs=("data:0",), outputs=(describe(name, 0),)) for name in names)
    rules = case.rules(rule("data", "Data"), *values_with_error)
    assert len({each.row for each in profiles(case, "-fr", rules)}) == 6
    monkeypatch.setattr(channels, "_MAX_TENSORS", 4)
    case.out = case.root / "other"
    assert len({each.row for each in profiles(case, "-fr", rules)}) == 4
    monkeypatch.setattr(channels, "_MAX_ELEMENTS", 2 * GOOD.size)
    case.out = case.root / "third"
    assert len({each.row for each in profiles(case, "-fr", rules)}) == 2


def test_custom_conversions_are_used(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "own" / "format_convert"
    folder.mkdir(parents=True)
    (folder / "convert_ND_to_NCHW.py").write_text(
        "def convert(shape_from, shape_to, array):\n    return array.reshape(shape_from)\n"
    )
    found = profiles(case, "-fr", case.one(with_bad(1, 7), GOOD, layout="NCHW"), "-c", tmp_path / "own")
    assert [index for index, error in enumerate(found[0].errors) if error] == [7]


def test_profiles_are_saved(case: Case, tmp_path: Path) -> None:
    profiles(case, "-fr", case.one(with_bad(1, 7), GOOD, layout="NCHW", shape=GOOD.shape))
    (path,) = case.results("result_*.json")
    kept = load(str(path))
    write_html(kept, str(tmp_path / "with.html"))
    write_html(replace(kept, profiles=()), str(tmp_path / "without.html"))
    assert (tmp_path / "with.html").stat().st_size > (tmp_path / "without.html").stat().st_size
