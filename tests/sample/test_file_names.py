from __future__ import annotations

import pytest

from dump_files import hashed_name
from opdiff.sample.names import DumpName, Task, fx_name, golden_name, overflow_name

STAMP = 1671234567890123


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (DumpName("Add", "a", 5, None, STAMP), f"Add.a.5.{STAMP}"),
        (DumpName("Add", "a", 5, 7, STAMP), f"Add.a.5.7.{STAMP}"),
        (DumpName("Add", "a", 5, 7, STAMP, dump_number=12), f"Add.a.12.5.7.{STAMP}"),
        (DumpName("Add", "a", 5, None, STAMP, Task(0, 1, 2)), f"Add.a.5.{STAMP}.0.1.2"),
        (DumpName("Add", "a", 5, None, STAMP, Task(0, 1, 2, 3)), f"Add.a.5.{STAMP}.0.1.2.3"),
        (DumpName("Add", "a", 5, 7, STAMP, Task(0, 1, 2)), f"Add.a.5.7.{STAMP}.0.1.2"),
        (DumpName("Add", "a", 5, 7, STAMP, Task(0, 1, 2, 3)), f"Add.a.5.7.{STAMP}.0.1.2.3"),
        (DumpName("Conv 2D", "net/a.b\\c-d", 0, 0, STAMP), f"Conv_2D.net_a_b_c-d.0.0.{STAMP}"),
        (overflow_name(4, 9, STAMP), f"Opdebug.Node_OpDebug.4.9.{STAMP}"),
    ],
    ids=["4", "5", "6", "7", "8-device", "8-stream", "9", "characters", "overflow"],
)
def test_dump_names(name: DumpName, text: str) -> None:
    assert str(name) == text


def test_golden_and_fx_names() -> None:
    assert golden_name("layer1/conv.1", 2, STAMP) == f"layer1_conv_1.2.{STAMP}.npy"
    stamp = 20240125031118787351
    assert fx_name("mm", "aten.mm.default", "INPUT", (0,), stamp) == f"mm-aten.mm.default.INPUT.0.{stamp}.npy"
    assert fx_name("cat", "aten.cat", "OUTPUT", (0, 1), stamp) == f"cat-aten.cat.OUTPUT.0.1.{stamp}.npy"


def test_hashed_names_are_digits_and_depend_on_the_whole_path() -> None:
    long = str(DumpName("Add", "a" * 300, 5, 7, STAMP))
    hashed = hashed_name("/dump/0", long)
    assert hashed.isdecimal()
    assert hashed == hashed_name("/dump/0", long)
    assert hashed != hashed_name("/dump/1", long)
    digits, suffix = hashed_name("/dump", "x.0.1.npy").split(".")
    assert digits.isdecimal()
    assert suffix == "npy"
