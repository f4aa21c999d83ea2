"""Options of the task-level check."""

from __future__ import annotations

from msgspec import Struct


class TopnOptions(Struct, frozen=True):
    """A task-level check.

    Attributes:
        target: outputs of the run under test: a file or a directory.
        golden: outputs of the reference run.
        labels: file of the right classes; empty if unknown.
        label_offset: number that is added to every label.
        ks: numbers of best classes to examine.
        operator: operator of dumps whose output is the result of the model; empty for the only one.
        golden_operator: the same of the golden side; empty for the same name.
        files: pattern of the names of files that are samples; empty for all.
        dtype: element type of raw (`.bin`) files.
        classes: number of classes in raw files; 0 for one sample in each file.
    """

    target: str = ""
    golden: str = ""
    labels: str = ""
    label_offset: int = 0
    ks: tuple[int, ...] = (1, 5)
    operator: str = ""
    golden_operator: str = ""
    files: str = ""
    dtype: str = "float32"
    classes: int = 0
