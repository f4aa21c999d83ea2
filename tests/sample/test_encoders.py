from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from struct import unpack_from

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpdata_proto import DumpData
from nano_files import nano_dump
from old_overflow_records import old_overflow_record
from opdiff.core import dtypes, wire
from opdiff.core.errors import ElementError, LayoutError
from opdiff.core.tensor import LAYOUT_NAMES
from opdiff.sample.container import (
    EncodedDump,
    EncodedTensor,
    OriginalTensor,
    Overflow,
    Unit,
    encode_tensor,
    overflow_dump,
    overflow_record,
    protobuf_dump,
    standard_dump,
)
from opdiff.sample.storage import store
from sample.readback import parse_standard

PAGES = Path(__file__).parents[2] / "docs" / "formats"


def worked_examples(page: str) -> list[bytes]:
    """Return the hex listings of a format page; each line has an offset, bytes, and a comment after two spaces."""
    return [parse_hex(text) for text in re.findall(r"```\n(0000  .*?)```", (PAGES / page).read_text(), re.DOTALL)]


def parse_hex(listing: str) -> bytes:
    found = bytearray()
    for line in listing.splitlines():
        match = re.match(r"([0-9a-f]{4})\s+((?:[0-9a-f]{2} ?)+)(?:\s{2,}.*)?$", line)
        assert match, f"not a line of a hex listing: {line!r}"
        assert int(match[1], 16) == len(found), f"the offset is {len(found):04x}: {line!r}"
        found += bytes.fromhex(match[2])
    return bytes(found)


def without_origin(tensor: EncodedTensor) -> EncodedTensor:
    return replace(tensor, origin_shape=())


def int8_output() -> EncodedTensor:
    """Return the output of the second worked example, whose C0 is smaller than the default."""
    logical = np.arange(1, 13, dtype=np.int8).reshape(1, 3, 2, 2)
    stored = store(logical, "NC1HWC0", c0=2)
    original = OriginalTensor("conv", layout="NCHW")
    return EncodedTensor(dtypes.INT8, stored.shape, "NC1HWC0", stored.tobytes(), logical.shape, 1, 4096, original)


def every_item() -> EncodedDump:
    return EncodedDump(
        inputs=(encode_tensor(np.array([-1, 300]), dtypes.INT32),),
        outputs=(int8_output(),),
        buffers=(b"\xaa\xbb\xcc",),
        spaces=(b"log\0",),
        op_name="conv",
        dump_time=1671234567890123,
    )


def test_standard_dumps_are_the_worked_examples() -> None:
    half = without_origin(encode_tensor(np.array([[1, 2], [3, -4]]), dtypes.FLOAT16))
    brain = without_origin(encode_tensor(np.array([1.0, -10.0]), dtypes.BFLOAT16))
    bits = without_origin(encode_tensor(np.array([1, 0, 1, 1, 0, 0, 1, 0]), dtypes.UINT1))
    dumps = (EncodedDump(outputs=(half,), op_name="net/add"), every_item(), EncodedDump(outputs=(brain, bits)))
    assert [standard_dump(dump) for dump in dumps] == worked_examples("standard-dump.md")


def test_nano_is_the_worked_example() -> None:
    left = encode_tensor(np.array([-1, 300]), dtypes.INT32, address=0x1000)
    right = encode_tensor(np.array([1, 2]), dtypes.FLOAT16, address=0x2000)
    dump = EncodedDump(inputs=(left,), outputs=(replace(right, original=OriginalTensor("add")),))
    assert [nano_dump(dump)] == worked_examples("nano-dump.md")


def test_overflow_record_is_the_worked_example() -> None:
    overflow = Overflow(Unit.AICPU, model_id=1, stream_id=2, task_id=3, cpu_id=4, status=(9,))
    assert [overflow_record(overflow)] == worked_examples("overflow-records.md")


def test_protobuf_dump_has_its_data_inside() -> None:
    message = DumpData.FromString(protobuf_dump(replace(every_item(), version="1.0")))
    assert message.version == "1.0"
    assert message.input[0].data == bytes.fromhex("ffffffff2c010000")
    assert message.output[0].data == int8_output().payload
    assert [message.buffer[0].data, message.space[0].data] == [b"\xaa\xbb\xcc", b"log\0"]
    assert [message.output[0].size, message.input[0].size, message.buffer[0].size, message.space[0].size] == [
        16, 8, 3, 4,
    ]  # fmt: skip


def test_header_fields_can_be_read_by_protobuf() -> None:
    weight = encode_tensor(np.zeros((8, 2, 3, 3)), dtypes.FLOAT16, "FRACTAL_Z", groups=4, address=1 << 40)
    dump = EncodedDump(inputs=(weight,), outputs=(weight,), attr='{"threadMode": 1}', op_name="层/conv.1")
    message, data = parse_standard(standard_dump(dump))
    for tensor in (message.input[0], message.output[0]):
        assert tensor.data_type == 2
        assert tensor.format == 4
        assert list(tensor.shape.dim) == [9, 1, 16, 16]
        assert list(tensor.original_shape.dim) == [8, 2, 3, 3]
        assert (tensor.sub_format, tensor.address, tensor.size) == (4, 1 << 40, 9 * 256 * 2)
    assert data == weight.payload * 2
    assert message.op_name == "层/conv.1"
    assert message.attr[0].value == '{"threadMode": 1}'


def test_empty_fields_are_omitted() -> None:
    tensor = EncodedTensor(dtypes.FLOAT32, None, "ND", b"")
    message, data = parse_standard(standard_dump(EncodedDump(inputs=(tensor,), outputs=(tensor,), version="")))
    assert {field.name for field, _ in message.ListFields()} == {"input", "output"}
    assert [field.name for field, _ in message.output[0].ListFields()] == ["data_type", "format"]
    assert data == b""


def test_shape_of_a_scalar_is_present_and_empty() -> None:
    scalar = encode_tensor(np.array(7.0), dtypes.FLOAT32)
    message, _ = parse_standard(standard_dump(EncodedDump(outputs=(scalar,))))
    assert message.output[0].HasField("shape")
    assert not message.output[0].shape.dim


def test_unknown_type_numbers_are_written_unchanged() -> None:
    tensor = EncodedTensor(99, (1,), 254, b"x", original=OriginalTensor("a", 3, 98, 253))
    message, _ = parse_standard(standard_dump(EncodedDump(outputs=(tensor,))))
    output = message.output[0]
    assert (output.data_type, output.format) == (99, 254)
    assert (output.original_op.output_index, output.original_op.data_type, output.original_op.format) == (3, 98, 253)
    assert unpack_from("<iiiiii", nano_dump(EncodedDump(outputs=(tensor,))), 40) == (99, 254, 0, 3, 98, 253)


@pytest.mark.parametrize("number", dtypes.BY_NUMBER)
def test_every_element_type_has_its_number(number: int) -> None:
    tensor = EncodedTensor(dtypes.BY_NUMBER[number], (), "ND", b"")
    message, _ = parse_standard(standard_dump(EncodedDump(outputs=(tensor,))))
    assert message.output[0].data_type == number


@pytest.mark.parametrize("number", LAYOUT_NAMES)
def test_every_layout_has_its_number(number: int) -> None:
    tensor = EncodedTensor(dtypes.INT8, (), LAYOUT_NAMES[number], b"")
    message, _ = parse_standard(standard_dump(EncodedDump(outputs=(tensor,))))
    assert message.output[0].format == number


def test_layout_without_a_number_is_rejected() -> None:
    with pytest.raises(LayoutError, match="layout WHCN: has no number in dump headers"):
        standard_dump(EncodedDump(outputs=(EncodedTensor(dtypes.INT8, (), "WHCN", b""),)))


def test_type_without_a_nano_number_is_rejected() -> None:
    with pytest.raises(ElementError, match="element type hifloat8: has no number in nano dumps"):
        nano_dump(EncodedDump(outputs=(EncodedTensor(dtypes.HIFLOAT8, (), "ND", b""),)))


def test_nano_omits_unknown_fields() -> None:
    tensor = EncodedTensor(dtypes.UINT8, None, "ND", b"abc")
    raw = nano_dump(EncodedDump(inputs=(tensor,), outputs=(tensor,)), version=7)
    assert unpack_from("<QII", raw) == (len(raw) - 14, 0x5A5A5A5A, 7)
    assert unpack_from("<III", raw, 16) == (4, 4 + 40, 1)
    assert unpack_from("<iii", raw, 28) == (4, 2, 0)
    assert unpack_from("<QQQI", raw, 40) == (0, 0, 3, 0)
    assert unpack_from("<III", raw, 68) == (5, 4 + 52, 1)
    assert unpack_from("<iiiiii", raw, 80) == (4, 2, 0, 0, 0, 0)
    assert unpack_from("<QQQI", raw, 104) == (0, 0, 3, 0)
    assert raw[132:] == b"abcabc"


@given(st.integers(-(2**63), 2**64 - 1))
def test_varint_equals_protobuf(value: int) -> None:
    unsigned = value % 2**64
    assert wire.number(2, value) == DumpData(dump_time=unsigned).SerializeToString()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=8))
def test_dims_equal_protobuf(dims: list[int]) -> None:
    tensor = EncodedTensor(0, tuple(dims), 0, b"")
    expected = DumpData(output=[{"shape": {"dim": dims}}]).SerializeToString()
    assert protobuf_dump(EncodedDump(outputs=(tensor,), version="")) == expected


CORE = ("model_id", "stream_id", "task_id", "task_type", "context_id", "thread_id")


@pytest.mark.parametrize(
    ("unit", "version", "words"),
    [
        pytest.param(Unit.AIC, 0, (*CORE, "pc_start", "para_base", "core_id", "block_id", 5), id="AIC"),
        pytest.param(Unit.AIV, 0, (*CORE, "pc_start", "para_base", "core_id", "block_id", 5), id="AIV"),
        pytest.param(Unit.AIC, 1, (*CORE, "pc_start", "para_base", "core_id", "block_id", 5, 6, 0, 0), id="AIC-1"),
        pytest.param(Unit.AIV, 1, (*CORE, "pc_start", "para_base", "core_id", "block_id", 5, 6, 0, 0), id="AIV-1"),
        pytest.param(Unit.SDMA, 1, (*CORE, "src_addr", "dst_addr", "channel_id", 5), id="SDMA"),
        pytest.param(Unit.AICPU, 1, (*CORE[:5], "cpu_id", "thread_id", 5), id="AICPU"),
    ],
)
def test_overflow_words_of_each_unit(unit: Unit, version: int, words: tuple[str | int, ...]) -> None:
    fields = {name: 100 + index for index, name in enumerate((*CORE, "pc_start", "para_base", "core_id", "block_id"))}
    fields |= {name: 200 + position for position, name in enumerate(("cpu_id", "src_addr", "dst_addr", "channel_id"))}
    raw = overflow_record(Overflow(unit, **fields, status=(5, 6), version=version))
    assert unpack_from("<6I", raw) == (0x5A5A5A5A, version, 1, unit, 0, 8 * len(words))
    expected = tuple(fields[word] if isinstance(word, str) else word for word in words)
    assert unpack_from(f"<{len(words)}Q", raw, 24) == expected
    assert len(raw) == 24 + 8 * len(words)


def test_old_overflow_record_has_a_field_per_source() -> None:
    dha = Overflow(Unit.SDMA, 1, 2, 3, 4, pc_start=5, para_base=6, status=(7,))
    core = Overflow(Unit.AIC, 11, 12, 13, 14, pc_start=15, para_base=16, block_id=18, kernel_code=17, status=(19,))
    raw = old_overflow_record(dha, None, core)
    words = unpack_from("<256Q", raw)
    assert len(raw) == 2048
    filled = {8 * position: word for position, word in enumerate(words) if word}
    assert filled == {
        0: 1, 8: 2, 16: 3, 24: 4, 32: 5, 40: 6,
        256: 11, 264: 12, 272: 13, 280: 14, 288: 15, 296: 16,
        512: 7, 1024: 17, 1032: 18, 1040: 19,
    }  # fmt: skip
    assert unpack_from("<Q", old_overflow_record(None, dha, None), 768) == (7,)


def test_overflow_dump_is_one_output_of_bytes() -> None:
    record = overflow_record(Overflow())
    message, data = parse_standard(standard_dump(overflow_dump(record, 123)))
    assert (message.op_name, message.dump_time) == ("Node_OpDebug", 123)
    assert list(message.output[0].shape.dim) == [len(record)]
    assert data == record
