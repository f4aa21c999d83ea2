"""The page of one operator: pictures of all planes, explanations and the tensor that is shown first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from command_line import run
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample
from page_data import PageData

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    made = write_sample(str(tmp_path_factory.mktemp("sample")))
    return [made.target, made.golden, "--rules", made.rules, "--no-tables"]


def examined(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str) -> dict[str, Any]:
    """Return the document of the page of an operator."""
    path = out / "page.html"
    done = run(capsys, "op", *arguments, "-o", str(out), "--html", str(path))
    assert (done.code, done.err) == (0, "")
    assert f"  {path}\n" in done.out
    return PageData.read(path).document


def test_all_planes_of_a_tensor(sample: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = examined(capsys, tmp_path, "context/pool", *sample)
    assert (found["start"], found["blocks"]) == (1, [2])
    picture = found["pictures"][0]
    assert (picture["row"], len(picture["frames"]), picture["frameCount"]) == (1, 16, 16)
    assert [each["row"] for each in found["explanations"]] == [1]
    assert found["story"]["findings"][0]["kind"] == "permuted"


def test_good_tensors_are_drawn_too(sample: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = examined(capsys, tmp_path, "context/pool:input:0", *sample)
    assert found["start"] == 0
    # The bad output of the operator is drawn besides.
    assert [picture["row"] for picture in found["pictures"]] == [0, 1]


def test_a_tensor_of_graph_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = write_graph_sample(str(tmp_path / "sample"))
    found = examined(capsys, tmp_path / "out", "Relu", made.target, made.golden, "-m", "torchair", "--no-tables")
    assert found["pictures"][0]["row"] == found["start"]
    assert "graphMode" in found


def test_without_memory_there_is_a_page_without_the_picture(
    sample: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opdiff.measure.pictures.draw_picture", _no_memory)
    assert examined(capsys, tmp_path, "context/pool", *sample)["pictures"] == []


def _no_memory(*_arguments: object) -> None:
    raise MemoryError
