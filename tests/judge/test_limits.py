"""Limits: defaults, changes of them, and invalid files."""

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
        assert Limits().of(dtype, "", "") is limit


def test_the_most_specific_limit_applies(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "[dtype.float16]\nnoise = 0.1\ndistance = 0.2\n[type.Softmax]\nnoise = 0.3\n"
        '[[name]]\npattern = "head/*"\nnoise = 0.4\n[[name]]\npattern = "head/last"\ncosine = 0.5\n'
    )
    limits = read_limits(str(path))
    assert limits.of("float16", "Conv2D", "a").noise == 0.1
    assert limits.of("float16", "Softmax", "a").noise == 0.3
    last = limits.of("float16", "Softmax", "head/last")
    assert (last.noise, last.distance, last.cosine) == (0.4, 0.2, 0.5)
    assert limits.of("float32", "Conv2D", "a") == DEFAULTS["float32"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "unknown field `x`"),
        ("[dtype.float99]\nnoise = 0.1", "dtype.float99: unknown element type; known are float64, float32"),
        ("[dtype.float16]\nnois = 0.1", "dtype.float16: Object contains unknown field `nois`"),
        ("[dtype.float16]\nnoise = 2", "dtype.float16: Expected `float` <= 1.0 - at `$.noise`"),
        ("[dtype.float16]\nnoise = nan", "dtype.float16: Expected `float` >= 0.0 - at `$.noise`"),
        ("[type.A]\ncosine = true", "type.A: Expected `float`, got `bool` - at `$.cosine`"),
        ("[[name]]\nnoise = 0.1", "name 1: Object missing required field `pattern`"),
        ("dtype = 1", "Expected `object`, got `int` - at `$.dtype`"),
        ("type.A = 1", "type.A: Expected `object`, got `int`"),
        ("name = 1", "Expected `array`, got `int` - at `$.name`"),
        ("[", "is not a valid limits file"),
        ("x = '" + "y" * (1 << 20) + "'", "is larger than 1048576 bytes"),
    ],
)
def test_invalid_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
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
