from __future__ import annotations

from dataclasses import replace
from struct import unpack_from
from typing import Any

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
from sample.hex_text import parse_hex

HALF_OUTPUT = """
0000  1c 00 00 00 00 00 00 00                     H = 28
0008  0a 03 32 2e 30                              version "2.0"
000d  1a 0c                                       output, 12 bytes
000f     08 02                                      data_type 2 (float16)
0011     10 02                                      format 2 (ND)
0013     1a 04 0a 02 02 02                          shape { dim [2,2] packed }
0019     30 08                                      size 8
001b  32 07 6e 65 74 2f 61 64 64                  op_name "net/add"
0024  00 3c 00 40 00 42 00 c4                     payload 1.0 2.0 3.0 -4.0
"""

EVERY_ITEM = """
0000  54 00 00 00 00 00 00 00                     H = 84
0008  0a 03 32 2e 30                              version
000d  10 cb c9 85 f6 a9 ff fb 02                  dump_time 1671234567890123
0016  1a 24                                       output, 36 bytes
0018     08 03 10 03                                int8, NC1HWC0
001c     1a 07 0a 05 01 02 02 02 02                 shape [1,2,2,2,2]
0025     22 08 0a 04 63 6f 6e 76 18 01              original_op { name "conv", data_type 1, format 0 left out }
002f     30 10                                      size 16
0031     3a 06 0a 04 01 03 02 02                    original_shape [1,3,2,2]
0039     48 80 20                                   address 4096
003c  22 10                                       input, 16 bytes
003e     08 07 10 02 1a 03 0a 01 02                 int32, ND, shape [2]
0047     28 08                                      size 8   (field 5!)
0049     32 03 0a 01 02                             original_shape [2]
004e  2a 02 18 03                                 buffer { type L1 left out, size 3 }
0052  32 04 63 6f 6e 76                           op_name "conv"
0058  42 02 18 04                                 space { size 4 }
005c  ff ff ff ff 2c 01 00 00                     input data
0064  01 05 02 06 03 07 04 08 09 00 0a 00 0b 00 0c 00   output data
0074  aa bb cc                                    buffer data
0077  6c 6f 67 00                                 space data
"""

SMALL_TYPES = """
0000  1f 00 00 00 00 00 00 00 0a 03 32 2e 30      H = 31, version
000d  1a 0b 08 1b 10 02 1a 03 0a 01 02 30 04      bfloat16, ND, [2], size 4
001a  1a 0b 08 1d 10 02 1a 03 0a 01 08 30 01      uint1, ND, [8], size 1
0027  80 3f 20 c1                                 1.0, -10.0
002b  b2                                          1 0 1 1 0 0 1 0
"""

NANO = """
0000  c7 00 00 00 00 00 00 00                     L = 199
0008  5a 5a 5a 5a 01 00 00 00                     magic, version 1
0010  04 00 00 00 4c 00 00 00 01 00 00 00         inputs: tag 4, length 76, count 1
001c     03 00 00 00 02 00 00 00 00 00 00 00        int32, ND, address_type 0
0028     00 10 00 00 00 00 00 00                    address
0030     00 00 00 00 00 00 00 00                    offset
0038     08 00 00 00 00 00 00 00                    size 8
0040     20 00 00 00                                32 bytes of TLVs
0044     00 00 00 00 08 00 00 00 02 00 00 00 00 00 00 00   shape [2]
0054     01 00 00 00 08 00 00 00 02 00 00 00 00 00 00 00   original shape [2]
0064  05 00 00 00 63 00 00 00 01 00 00 00         outputs: tag 5, length 99, count 1
0070     01 00 00 00 02 00 00 00 00 00 00 00        float16, ND, address_type 0
007c     00 00 00 00 00 00 00 00 02 00 00 00        original index, type, format
0088     00 20 00 00 00 00 00 00                    address
0090     00 00 00 00 00 00 00 00                    offset
0098     04 00 00 00 00 00 00 00                    size 4
00a0     2b 00 00 00                                43 bytes of TLVs
00a4     00 00 00 00 08 00 00 00 02 00 00 00 00 00 00 00   shape [2]
00b4     01 00 00 00 08 00 00 00 02 00 00 00 00 00 00 00   original shape [2]
00c4     02 00 00 00 03 00 00 00 61 64 64           name "add"
00cf  ff ff ff ff 2c 01 00 00                     input data
00d7  00 3c 00 40                                 output data
"""

OVERFLOW = """
0000  5a 5a 5a 5a 00 00 00 00                     magic, version 0
0008  01 00 00 00 02 00 00 00                     valid, acc_type 2 (AICPU)
0010  00 00 00 00 40 00 00 00                     rsv, data_len 64
0018  01 00 00 00 00 00 00 00                     model_id 1
0020  02 00 00 00 00 00 00 00                     stream_id 2
0028  03 00 00 00 00 00 00 00                     task_id 3
0030  00 00 00 00 00 00 00 00                     task_type 0
0038  ff ff 00 00 00 00 00 00                     context_id none
0040  04 00 00 00 00 00 00 00                     cpu_id 4
0048  ff ff 00 00 00 00 00 00                     thread_id none
0050  09 00 00 00 00 00 00 00                     status 9
"""


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


def parse_standard(raw: bytes) -> tuple[Any, bytes]:
    """Return the header as read by Google's protobuf, and the data after it."""
    (length,) = unpack_from("<Q", raw)
    return DumpData.FromString(raw[8 : 8 + length]), raw[8 + length :]


def test_one_output_is_the_worked_example() -> None:
    values = np.array([[1, 2], [3, -4]])
    dump = EncodedDump(outputs=(without_origin(encode_tensor(values, dtypes.FLOAT16)),), op_name="net/add")
    assert standard_dump(dump) == parse_hex(HALF_OUTPUT)


def test_inputs_outputs_buffers_and_spaces_are_the_worked_example() -> None:
    assert standard_dump(every_item()) == parse_hex(EVERY_ITEM)


def test_small_types_are_the_worked_example() -> None:
    brain = encode_tensor(np.array([1.0, -10.0]), dtypes.BFLOAT16)
    bits = encode_tensor(np.array([1, 0, 1, 1, 0, 0, 1, 0]), dtypes.UINT1)
    assert standard_dump(EncodedDump(outputs=(without_origin(brain), without_origin(bits)))) == parse_hex(SMALL_TYPES)


def test_nano_is_the_worked_example() -> None:
    left = encode_tensor(np.array([-1, 300]), dtypes.INT32, address=0x1000)
    right = encode_tensor(np.array([1, 2]), dtypes.FLOAT16, address=0x2000)
    dump = EncodedDump(inputs=(left,), outputs=(replace(right, original=OriginalTensor("add")),))
    assert nano_dump(dump) == parse_hex(NANO)


def test_overflow_record_is_the_worked_example() -> None:
    overflow = Overflow(Unit.AICPU, model_id=1, stream_id=2, task_id=3, cpu_id=4, status=(9,))
    assert overflow_record(overflow) == parse_hex(OVERFLOW)


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
