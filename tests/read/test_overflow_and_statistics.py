"""Overflow records and statistics files."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from old_overflow_records import old_overflow_record
from opdiff.core.errors import DumpError
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.overflow import AccRecord, OldRecord, parse_record, read_overflow, to_json
from opdiff.read.statistics import StatisticsLine, read_statistics
from opdiff.sample.container import Overflow, Unit, overflow_dump, overflow_record, standard_dump
from opdiff.sample.names import overflow_name

if TYPE_CHECKING:
    from pathlib import Path

FULL = Overflow(
    model_id=1, stream_id=2, task_id=3, task_type=4, context_id=5, thread_id=6, pc_start=0x70, para_base=0x80,
    core_id=9, block_id=10, cpu_id=11, src_addr=0x12, dst_addr=0x13, channel_id=14, kernel_code=0x15, status=(16,),
)  # fmt: skip


@pytest.mark.parametrize("unit", list(Unit))
@pytest.mark.parametrize("version", [0, 1])
def test_records_round_trip(unit: Unit, version: int) -> None:
    status = (1, 2, 3, 4) if version == 1 and unit in (Unit.AIC, Unit.AIV) else (16,)
    overflow = Overflow(**{name: getattr(FULL, name) for name in FULL.__slots__} | {
        "unit": unit, "version": version, "status": status,
    })  # fmt: skip
    record = parse_record(overflow_record(overflow), "file")
    assert isinstance(record, AccRecord)
    assert (record.acc_type, record.version, record.valid) == (unit.name, version, 1)
    assert record.status == status
    for name, value in record.words[:-1]:
        assert value == getattr(overflow, name), name


def test_old_record() -> None:
    record = parse_record(old_overflow_record(FULL, None, FULL), "file")
    assert isinstance(record, OldRecord)
    blocks = {name: dict(words) for name, words in record.blocks}
    assert blocks["DHA Atomic Add"]["status"] == 16
    assert set(blocks["L2 Atomic Add"].values()) == {0}
    core = {"model_id": 1, "stream_id": 2, "task_id": 3, "task_type": 4, "pc_start": 0x70, "para_base": 0x80}
    assert blocks["AI Core"] == core | {"kernel_code": 0x15, "block_idx": 10, "status": 16}
    assert to_json(record)["AI Core"] == core | {
        "pc_start": "0x70", "para_base": "0x80", "kernel_code": "0x15", "block_idx": 10, "status": 16,
    }  # fmt: skip


def test_record_to_json() -> None:
    aicpu = Overflow(unit=Unit.AICPU, model_id=1, stream_id=2, task_id=3, cpu_id=4, status=(9,))
    assert to_json(parse_record(overflow_record(aicpu), "file")) == {
        "magic": "0x5a5a5a5a",
        "version": 0,
        "acc_list": {
            "valid": 1,
            "acc_type": "AICPU",
            "rsv": 0,
            "data_len": 64,
            "data": {
                "model_id": 1, "stream_id": 2, "task_id": 3, "task_type": 0, "context_id": 65535, "cpu_id": 4,
                "thread_id": 65535, "status": 9,
            },
        },
    }  # fmt: skip


def test_records_of_a_debug_file(tmp_path: Path) -> None:
    path = tmp_path / str(overflow_name(3, 2, 1671234567890123))
    path.write_bytes(standard_dump(overflow_dump(overflow_record(FULL))))
    (record,) = read_overflow(read_operator(str(path)))
    assert isinstance(record, AccRecord)
    assert dict(record.words)["task_id"] == 3


@pytest.mark.parametrize(
    ("raw", "problem", "offset"),
    [
        (b"abc", "field magic should have 4 bytes, but 3 are left", 100),
        (b"abcd", "an old overflow record has 2048 bytes, this one has 4", 100),
        (overflow_record(FULL)[:-1], "field status should have 8 bytes, but 7 are left", 204),
        (struct.pack("<6I", 0x5A5A5A5A, 0, 1, 7, 0, 0), "accelerator type 7 is not known", 112),
    ],
)
def test_invalid_records_raise(raw: bytes, problem: str, offset: int) -> None:
    with pytest.raises(DumpError) as caught:
        parse_record(raw, "file", origin=100)
    assert (str(caught.value.problem), caught.value.offset) == (problem, offset)


@given(st.binary(max_size=120).map(lambda raw: struct.pack("<I", 0x5A5A5A5A) + raw))
def test_random_bytes_give_a_record_or_dump_error(raw: bytes) -> None:
    try:
        assert isinstance(parse_record(raw, "file"), AccRecord)
    except DumpError as error:
        assert error.path == "file"


TABLE = """\
Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count
Input,0,268435456,DT_INT64,ND,100x20x40,100,200,10.1,80000,400
Output,1,640000,DT_FLOAT,NHWC,-,NA,,nan,1,0
"""


def test_statistics(tmp_path: Path) -> None:
    path = tmp_path / "Add.a.1.2.1671234567890123.csv"
    path.write_text(TABLE)
    first, second = read_statistics(str(path))
    assert first == StatisticsLine(
        Slot.INPUT, 0, 268435456, "DT_INT64", "ND", (100, 20, 40),
        (("Max Value", 100.0), ("Min Value", 200.0), ("Avg Value", 10.1), ("Count", 80000.0), ("Nan Count", 400.0)),
    )  # fmt: skip
    assert (second.slot, second.index, second.shape) == (Slot.OUTPUT, 1, ())
    assert [value for _, value in second.values[:2]] == [None, None]
    assert str(second.values[2][1]) == "nan"


@pytest.mark.parametrize(
    "text",
    [
        "Input/Output,Index\nSideways,0\n",
        "Input/Output,Index\nInput,x\n",
        "a,b\n1,2\n",
        TABLE + "Input\n",
        TABLE + "Input,2,8,DT_FLOAT,ND,2,1,0,0.5,2\n",
    ],
)
def test_invalid_statistics_raise(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(DumpError, match="not a row of tensor statistics"):
        read_statistics(str(path))


def test_missing_statistics_file_raises(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="cannot be read: No such file"):
        read_statistics(str(tmp_path / "x.csv"))
