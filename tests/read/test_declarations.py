"""Files of pairings declared by the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opdiff.core.errors import InputError
from opdiff.read.declarations import read_pairs

if TYPE_CHECKING:
    from pathlib import Path


def test_pairs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.toml"
    path.write_text(
        '[[pair]]\ntarget = "a"\ngolden = "b:output:1"\n[[pair]]\ntarget = "c"\ngolden = "d"\nlayout = "NCHW"\n'
    )
    first, second = read_pairs(str(path))
    assert (str(first.target), str(first.golden), first.layout) == ("a:output:0", "b:output:1", "")
    assert second.layout == "NCHW"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[[pair]", "not valid TOML"),
        (b"\xff", "not valid TOML"),
        (b"", "a list of .*pair.* tables is expected"),
        (b"pair = 1", "a list of"),
        (b"pair = [1]", "pair 1: a table of texts is expected"),
        (b'other = 1\n[[pair]]\ntarget = "a"\ngolden = "b"', "and nothing else"),
        (b'[[pair]]\ntarget = "a"', "pair 1: both target and golden have to be given"),
        (b'[[pair]]\ntarget = "a"\ngolden = 1', "pair 1: a table of texts"),
        (b'[[pair]]\ntarget = "a"\ngolden = "b"\nformat = "ND"', "pair 1: format means nothing here"),
        (
            b'[[pair]]\ntarget = "a/b"\ngolden = "b"\n[[pair]]\ntarget = "a_b"\ngolden = "c"',
            "a_b:output:0 is paired twice",
        ),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "pairs.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        read_pairs(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_pairs(str(tmp_path / "none.toml"))
