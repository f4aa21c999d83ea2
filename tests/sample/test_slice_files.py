from __future__ import annotations

import json

import numpy as np
import pytest

from opdiff.core import dtypes
from opdiff.core.errors import LayoutError
from opdiff.sample.container import EncodedDump, EncodedTensor, encode_tensor
from opdiff.sample.names import DumpName
from sample.readback import parse_standard
from sliced_dumps import Cuts, automatic_slices, manual_slices

NAME = DumpName("Conv2D", "net/op", 3, 4, 1671234567890500)
LARGE = np.arange(2 * 4 * 3 * 5).reshape(2, 4, 3, 5)
SMALL = np.arange(7)
CUTS = Cuts(((1, 2, 1, 1), (1,)))


def dump_of(*inputs: EncodedTensor) -> EncodedDump:
    outputs = (encode_tensor(LARGE, dtypes.INT16), encode_tensor(SMALL, dtypes.INT8))
    return EncodedDump(inputs=inputs, outputs=outputs, op_name="net/op")


def ranges(*bounds: tuple[int, int]) -> list[dict[str, int]]:
    return [{"lower": low, "higher": high} for low, high in bounds]


def test_automatic_slices_are_the_worked_example() -> None:
    files = automatic_slices(NAME, dump_of(), CUTS, context_id=77)
    assert [file.name for file in files] == [
        "Conv2D.net_op.3.4.1671234567890500.4.77.0.0",
        "Conv2D.net_op.3.4.1671234567890499.4.77.1.0",
    ]
    for thread, file in enumerate(files):
        message, data = parse_standard(file.content)
        assert json.loads(message.attr[0].value) == {
            "threadMode": 1,
            "slice_instance_num": 2,
            "outputCutList": [[1, 2, 1, 1], [1]],
            "input_tensor_slice": [[], []],
            "output_tensor_slice": [
                [ranges((0, 2), (0, 2), (0, 3), (0, 5)), ranges((0, 7))],
                [ranges((0, 2), (2, 4), (0, 3), (0, 5)), ranges((0, 7))],
            ],
        }
        assert [list(output.shape.dim) for output in message.output] == [[2, 4, 3, 5], [7]]
        assert [output.size for output in message.output] == [2 * 2 * 3 * 5 * 2, 7]
        part = LARGE[:, 2 * thread : 2 * thread + 2].astype("<i2").tobytes()
        assert data == part + SMALL.astype("i1").tobytes()


def test_automatic_slices_have_the_ranges_of_whole_inputs() -> None:
    file = automatic_slices(NAME, dump_of(encode_tensor(np.zeros((2, 3)), dtypes.FLOAT16)), CUTS)[1]
    message, data = parse_standard(file.content)
    attr = json.loads(message.attr[0].value)
    assert attr["input_tensor_slice"] == [[ranges((0, 2), (0, 3))]] * 2
    assert data.startswith(bytes(12))


def test_manual_slices_have_their_own_shape() -> None:
    files = manual_slices(NAME, dump_of(), Cuts(((1, 3, 1, 1), (1,))), context_id=5)
    messages = [parse_standard(file.content)[0] for file in files]
    assert [file.name.split(".")[1] for file in files] == ["net_op_lxslice0", "net_op_lxslice1", "net_op_lxslice2"]
    assert all(file.name.split(".")[-4:-2] == ["4", "5"] for file in files)
    assert [list(message.output[0].shape.dim) for message in messages] == [[2, 2, 3, 5], [2, 1, 3, 5], [2, 1, 3, 5]]
    attr = json.loads(messages[0].attr[0].value)
    assert attr == {"threadMode": 0, "slice_instance_num": 3, "outputCutList": [[1, 3, 1, 1], [1]]}


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5, 7])
def test_joined_slices_equal_the_whole(parts: int) -> None:
    values = np.arange(7 * 3).reshape(7, 3)
    dump = EncodedDump(outputs=(encode_tensor(values, dtypes.INT32),))
    files = manual_slices(NAME, dump, Cuts(((parts, 1),)))
    assert len(files) == parts
    assert b"".join(parse_standard(file.content)[1] for file in files) == dump.outputs[0].payload


def test_types_of_less_than_a_byte_are_cut_between_elements() -> None:
    dump = EncodedDump(outputs=(encode_tensor(np.array([1, 2, 3, 4, 5, 6]), dtypes.INT4),))
    files = manual_slices(NAME, dump, Cuts(((2,),)))
    assert [parse_standard(file.content)[1].hex() for file in files] == ["2103", "5406"]


def test_unknown_element_types_are_rejected() -> None:
    dump = EncodedDump(outputs=(EncodedTensor(99, (2,), "ND", b"ab"),))
    with pytest.raises(LayoutError, match="elements of type 99 cannot be cut"):
        manual_slices(NAME, dump, Cuts(((2,),)))
