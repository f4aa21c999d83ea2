"""Dumps and rule files are read once by comparisons that share a reader."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.core.errors import InputError
from opdiff.sample import write_sample
from opdiff.workflows.compare.input_reader import SharedReader

if TYPE_CHECKING:
    from pathlib import Path


def test_dumps_and_rules_are_read_once(tmp_path: Path) -> None:
    sample = write_sample(str(tmp_path), faults=[])
    reader = SharedReader()
    target = reader.dump(sample.target, with_rules=True)
    golden = reader.golden(sample.golden, (), with_rules=True)
    rules = reader.rules(sample.rules)
    shutil.rmtree(tmp_path)
    assert reader.dump(sample.target, with_rules=True) is target
    assert reader.golden(sample.golden, ("conv",), with_rules=True) is golden
    assert reader.golden(sample.target, (), with_rules=True) is target
    assert reader.rules(sample.rules) is rules
    with pytest.raises(InputError):
        reader.dump(sample.target, with_rules=False)


def test_arrays_under_looser_names_depend_on_the_names_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "conv_1.npy", np.zeros(3))
    reader = SharedReader()
    assert list(reader.golden(str(tmp_path), {"conv_1"}, with_rules=True).operators) == ["conv_1"]
    assert list(reader.golden(str(tmp_path), {"conv"}, with_rules=True).operators) == ["conv"]
