"""Limits: defaults, changes of them, and files that are none."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from opdiff.core.errors import InputError
from opdiff.judge.limits import DEFAULTS, Limits, coarser, limits_text, read_limits

if TYPE_CHECKING:
    from pathlib import Path


def test_the_printed_defaults_are_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "opdiff.toml"
    path.write_text(limits_text())
    limits = read_limits(str(path))
    assert set(tomllib.loads(limits_text())["dtype"]) == set(DEFAULTS)
    for dtype, limit in DEFAULTS.items():
        assert limits.of(dtype, "Conv2D", "x") == limit


def test_what_is_nearer_to_the_operator_counts(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "[dtype.float16]\nnoise = 0.1\ndistance = 0.2\n[type.Softmax]\nnoise = 0.3\n"
        '[[name]]\npattern = "head/*"\nnoise = 0.4\n[[name]]\npattern = "head/last"\ncosine = 0.5\n'
    )
    limits = read_limits(str(path))
    assert limits.of("float16", "Conv2D", "a")[:1] == (0.1,)
    assert limits.of("float16", "Softmax", "a").noise == 0.3
    last = limits.of("float16", "Softmax", "head/last")
    assert (last.noise, last.distance, last.cosine) == (0.4, 0.2, 0.5)
    assert limits.of("float32", "Conv2D", "a") == DEFAULTS["float32"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "the file: x means nothing here; dtype, type, name do"),
        ("[dtype.float99]\nnoise = 0.1", "dtype.float99: there are limits for float64, float32"),
        ("[dtype.float16]\nnois = 0.1", "dtype.float16: nois means nothing here; noise, peak"),
        ("[dtype.float16]\nnoise = 2", "dtype.float16.noise: a number from 0 to 1 is expected, and it is 2"),
        ("[dtype.float16]\nnoise = nan", "dtype.float16.noise: a number from 0 to 1 is expected, and it is nan"),
        ("[type.A]\ncosine = true", "type.A.cosine: a number from -1 to 1 is expected, and it is True"),
        ("[[name]]\nnoise = 0.1", "name 1: a pattern of names is missing"),
        ("dtype = 1", "dtype: at most 1000 tables [dtype.NAME] are expected"),
        ("type.A = 1", "type.A: a table of limits is expected"),
        ("name = 1", "name: a list of at most 1000 tables [[name]] is expected"),
        ("[", "is not a file of limits"),
        ("x = '" + "y" * (1 << 20) + "'", ""),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_limits(str(path))
    assert message in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_limits(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("target", "golden", "found"),
    [
        ("float16", "float32", "float16"),
        ("float32", "bfloat16", "bfloat16"),
        ("float16", "bfloat16", "bfloat16"),
        ("int32", "int64", "integer"),
        ("int8", "float32", "float32"),
        ("float6_e3m2", "float32", "float8_e5m2"),
        ("complex64", "complex128", "float32"),
    ],
)
def test_the_coarser_type(target: str, golden: str, found: str) -> None:
    assert coarser(target, golden) == found


def test_no_changes_are_the_defaults() -> None:
    assert Limits().of("bfloat16", "", "") is DEFAULTS["bfloat16"]
