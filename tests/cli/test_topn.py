"""`opdiff topn` on the command line: output, JSON, CSV, gates, bad arguments."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import Capture, run
from score_files import save, scores

if TYPE_CHECKING:
    from pathlib import Path

LABELS = np.random.default_rng(2).integers(0, 10, 500)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of which 10 of 500 samples differ."""
    changed = LABELS.copy()
    changed[:10] = (LABELS[:10] + 1) % 10
    np.savetxt(tmp_path / "labels.txt", LABELS, fmt="%d")
    return save(tmp_path / "t.npy", scores(changed)), save(tmp_path / "g.npy", scores(LABELS))


def test_the_summary(sides: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    done = run(capsys, "topn", *sides, "--labels", tmp_path / "labels.txt")
    assert done.code == 0, done.err
    assert done.out.startswith("The difference is above 1%: the top-1 accuracy of the target is 2.00% lower")
    assert "500 samples, 10 classes" in done.out
    (row,) = (line.split() for line in done.out.splitlines() if line.strip().startswith("top-1"))
    assert row[:5] == ["top-1", "98.00%", "98.00%", "100.00%", "2.00%"]
    assert "changed: 10 samples" in done.out


def test_the_json_on_standard_output(sides: tuple[Path, Path], capsys: Capture) -> None:
    done = run(capsys, "topn", *sides, "--k", "1,3", "--json")
    result = done.json
    assert (result["schema"], result["outcome"], result["samples"]) == ("opdiff-topn", "suspicious", 500)
    assert [top["k"] for top in result["top"]] == [1, 3]
    assert result["top"][0]["agreement"]["number"] == 490
    assert len(result["flips"]) == 10
    assert result["flips"][0]["golden"]["classes"][0] != result["flips"][0]["target"]["classes"][0]
    assert "The difference is above 1%" in done.err


def test_files(sides: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    labels = ("--labels", tmp_path / "labels.txt")
    done = run(capsys, "topn", *sides, *labels, "--json", tmp_path / "r.json", "-o", tmp_path / "out")
    assert json.loads((tmp_path / "r.json").read_text())["version"] == 1
    (path,) = (tmp_path / "out").glob("topn_*.csv")
    assert f"samples: {path}" in done.out
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 500
    assert [row["Flip"] for row in rows].count("yes") == 10
    assert (rows[0]["Sample"], rows[0]["Label"]) == ("0", str(LABELS[0]))
    assert rows[0]["GoldenClasses"].split()[0] == str(LABELS[0])
    assert rows[20]["TargetMargin"] == ""


@pytest.mark.parametrize(
    ("gate", "code"),
    [("wrong", 0), ("suspicious", 1), ("unsure", 1), ("2.5%", 0), ("1.9%", 1), ("worse", 2), ("2", 2), ("-1%", 2)],
)
def test_gates(sides: tuple[Path, Path], capsys: Capture, gate: str, code: int) -> None:
    done = run(capsys, "topn", *sides, f"--fail-on={gate}")
    assert done.code == code, done.err
    assert ("gate violated" in done.err) == (code == 1)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--k", "0"), 2, "'0' is not a list of numbers such as 1,5"),
        (("--k", "1,10"), 2, "the best of 10 classes are 1 to 9"),
        (("--labels", "nothing"), 3, "nothing: no such file or directory"),
        (("--operator", "prob"), 0, ""),
    ],
    ids=["k", "k of all", "no labels", "operator of an array"],
)
def test_arguments(
    sides: tuple[Path, Path], capsys: Capture, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = run(capsys, "topn", *sides, *arguments)
    assert done.code == code
    assert message in done.err
