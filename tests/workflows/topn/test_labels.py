"""Files of labels, and their match with samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core.dtypes import FLOAT32
from opdiff.core.errors import InputError
from opdiff.core.source import FileRange
from opdiff.core.tensor import Tensor, TensorSpec
from opdiff.measure.topn import NO_CLASS
from opdiff.workflows.topn.labels import match_labels, read_labels
from opdiff.workflows.topn.samples import Sample
from score_files import save

if TYPE_CHECKING:
    from pathlib import Path


def samples(*names: str) -> list[Sample]:
    tensor = Tensor(TensorSpec(FLOAT32, (1, 10), "ND"), FileRange("scores.bin", 0, 40))
    return [Sample(name, tensor, 0) for name in names]


@pytest.mark.parametrize(
    "text",
    ["3\n1\n", "# classes\n3\n\n1", "3\r\n1\r\n", "\ufeff3\n1\n", "label\n3\n1\n"],
    ids=["plain", "comment", "carriage return", "byte order mark", "title"],
)
def test_labels_in_the_order_of_samples(tmp_path: Path, text: str) -> None:
    (tmp_path / "l.txt").write_bytes(text.encode())
    labels = read_labels(str(tmp_path / "l.txt"))
    assert match_labels(labels, samples("a", "b"), 10, 0).classes.tolist() == [3, 1]
    assert match_labels(labels, samples("a", "b"), 10, -1).classes.tolist() == [2, 0]


@pytest.mark.parametrize(
    "text",
    [
        "img_2.JPEG 1\nimg_1.JPEG 3\n",
        "name,label\nval/img_2.jpg,1\nval/img_1.jpg,3\n",
        '"img_2",1\n"img_1",3\n',
        "img_2\t1\nimg_1\t3",
        "img_2;1\nimg_1;3\nother;9",
    ],
    ids=["blank", "csv", "quoted", "tab", "semicolon, more labels"],
)
@pytest.mark.parametrize(
    "names",
    [("img_1", "img_2"), ("out/img_1_0", "out/img_2_0"), ("img_1.0.1700000000000000", "img_2.0.1700000000000001")],
    ids=["inputs", "numbered outputs", "golden files"],
)
def test_labels_by_name(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    (tmp_path / "l.csv").write_text(text)
    labels = read_labels(str(tmp_path / "l.csv"))
    assert match_labels(labels, samples(*names), 10, 0).classes.tolist() == [3, 1]


def test_samples_without_a_label_are_counted(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a,0\n")
    matched = match_labels(read_labels(str(tmp_path / "l.csv")), samples("a", "b"), 10, 0)
    assert matched.classes.tolist() == [0, NO_CLASS]
    assert [str(note) for note in matched.notes] == ["1 sample without a label: not counted for the accuracy"]


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_labels_as_an_array(tmp_path: Path, shape: tuple[int, ...]) -> None:
    labels = read_labels(str(save(tmp_path / "l.npy", np.array([3, 1], np.int32).reshape(shape))))
    assert match_labels(labels, samples("a", "b"), 10, 0).classes.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file has no labels"),
        ("3\ncat\n", "line 2: cat is not a number of a class"),
        ("a,3\n1\n", "line 2: either all lines have a name or none"),
        ("3\n", "1 label without names for 2 samples: they cannot be matched by order"),
        ("1\n10\n", "labels from 1 to 10 for classes 0 to 9; labels that count from 1 need --label-offset -1"),
        ("3\n-1\n", "labels from -1 to 3 for classes 0 to 9"),
        ("x,3\ny,1\n", "no label has the name of a sample: labels are named like x, samples like a"),
    ],
    ids=["empty", "word", "mixed", "too few", "from 1", "negative", "other names"],
)
def test_labels_that_do_not_fit_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "l.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        match_labels(read_labels(str(tmp_path / "l.txt")), samples("a", "b"), 10, 0)


def test_arrays_of_floats_are_no_labels(tmp_path: Path) -> None:
    path = save(tmp_path / "l.npy", np.zeros(3, np.float32))
    with pytest.raises(InputError, match=r"labels are one axis of integers; this is float32 \[3\]"):
        read_labels(str(path))
