"""Names of result files."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import struct_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.core.atomic_file import open_atomic
from opdiff.report.file_names import batch_file_name, timed_file_name, write_new

WHEN = struct_time((2024, 1, 5, 10, 3, 2, 4, 5, 0))


@pytest.mark.parametrize(
    ("device", "model", "step", "name"),
    [
        ("0", "ge_default_20240115103045_71", "0", "0_ge_default_20240115103045_71_0"),
        ("0", "../../etc/passwd", "1", "0__.._etc_passwd_1"),
        ("../x", "a\0b\n", "/", "_x_a_b___"),
        ("", ".hidden", "-", "__hidden__"),
        ("1", "网络", "2", "1_网络_2"),
    ],
)
def test_batch_names(device: str, model: str, step: str, name: str) -> None:
    assert batch_file_name(device, model, step, WHEN) == f"{name}_result_20240105100302.csv"


@given(*[st.text(st.characters(), max_size=300)] * 3)
def test_batch_names_stay_in_their_folder(device: str, model: str, step: str) -> None:
    name = batch_file_name(device, model, step, WHEN)
    assert os.path.basename(name) == name
    assert len(name.encode()) <= 240
    assert not name.startswith((".", "-"))


def test_names_have_the_time_and_long_ones_differ() -> None:
    first, second = (batch_file_name("0", "x" * 300 + end, "0", WHEN) for end in "ab")
    assert first != second
    assert first.endswith("_result_20240105100302.csv")
    assert timed_file_name("mapping", WHEN) == "mapping_20240105100302.csv"


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_results_never_replace_each_other(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", no_link)

    def write(number: int) -> str:
        path = write_new(str(tmp_path), "result_1.csv", lambda draft: (Path(draft).write_text(str(number)), None)[1])
        assert Path(path).read_text() == str(number)
        return os.path.basename(path)

    with ThreadPoolExecutor(4) as pool:
        found = sorted(pool.map(write, range(8)))
    assert found == ["result_1.csv", *(f"result_1_{number}.csv" for number in range(1, 8))]
    assert sorted(os.listdir(tmp_path)) == found


def test_failure_leaves_no_file(tmp_path: Path) -> None:
    def fail(draft: str) -> None:
        Path(draft).write_text("half")
        raise OSError(errno.ENOSPC, "disk full")

    with pytest.raises(OSError, match="disk full"):
        write_new(str(tmp_path), "result.csv", fail)
    assert os.listdir(tmp_path) == []


def test_counter_precedes_a_double_ending(tmp_path: Path) -> None:
    names = [
        Path(write_new(str(tmp_path), "result_1.junit.xml", lambda draft: Path(draft).touch())).name for _ in range(2)
    ]
    assert names == ["result_1.junit.xml", "result_1_1.junit.xml"]


def test_errors_name_the_result_and_not_its_draft(tmp_path: Path) -> None:
    def write(draft: str) -> None:
        with open_atomic(draft):
            pass

    with pytest.raises(FileNotFoundError) as caught:
        write_new(str(tmp_path / "nowhere"), "result.csv", write)
    assert caught.value.filename == str(tmp_path / "nowhere" / "result.csv")
