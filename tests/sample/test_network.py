from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from struct import unpack_from
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff.sample.directory import make_sample
from opdiff.sample.faults import FAULTS, choose
from opdiff.sample.names import safe
from sample.readback import Readback, distance

if TYPE_CHECKING:
    from collections.abc import Callable

    from sample.readback import AnyArray

NOISE = 3e-3
NOT_DUMPED = {"Data", "Const", "NetOutput"}


@cache
def sample(*faults: str) -> Readback:
    return Readback(make_sample(choose(faults)))


def test_network_has_hard_constructs() -> None:
    types = Counter(rule["type"] for rule in sample().rules.values() if rule["type"] not in NOT_DUMPED)
    assert types.total() == len(sample().dumps) == 60
    assert types["TransData"] == 6
    assert types["Cast"] == 3
    expected = {"Conv2D", "DepthwiseConv2D", "Add", "SplitD", "ConcatD", "MaxPoolV3", "MatMulV2", "SoftmaxV2", "TopKV2"}
    assert expected <= set(types)


def test_layouts_of_the_device() -> None:
    layouts = Counter(tensor.header.format for dump in sample().dumps.values() for tensor in dump.inputs)
    names = {"NCHW": 0, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "FRACTAL_NZ": 29}
    assert set(layouts) == set(names.values())
    groups = {tensor.header.sub_format for dump in sample().dumps.values() for tensor in dump.inputs}
    assert groups == {0, 4, 64}


def test_every_relation_between_original_and_device_occurs() -> None:
    net = sample()
    assert net.originals("stem/convstem/conv_relu") == ["stem/conv", "stem/conv_bn", "stem/conv_relu"]
    assert net.originals("head/gap_mean") == ["head/gap"]
    assert net.originals("trans_Cast_0") == []
    parts = [op for op, rule in net.rules.items() if net.attr(rule, "_datadump_is_multiop")]
    assert parts == ["merge/hswish_sigmoid", "merge/hswish_mul"]
    assert [net.originals(op) for op in parts] == [["merge/hswish"]] * 2
    assert [net.origin(op, 0) for op in parts] == [None, ("merge_hswish", 0)]
    assert [net.origin("split", index) for index in (0, 1)] == [("split", 0), ("split", 1)]


def test_fused_operators_name_their_pass() -> None:
    net = sample()
    for op, rule in net.rules.items():
        folded = any(name.endswith("_bn") for name in net.originals(op))
        passes = net.attr(rule, "pass_name")
        assert passes == ({"s": ["ConvBatchnormFusionPass"], "val_type": 1} if folded else None)
    assert net.attr(net.rules["layer1/0/addlayer1/0/add_relu"], "pass_name_ub") == "TbeEltwiseFusionPass"


def test_rules_refer_to_existing_operators() -> None:
    net = sample()
    for op, rule in net.rules.items():
        for producer, index in net.inputs(op):
            assert index < len(net.rules[producer]["output_desc"])
            assert net.rules[producer]["id"] < rule["id"]
        origins = [net.origin(op, index) for index in range(len(rule.get("output_desc", [])))]
        assert {origin for origin in origins if origin} <= net.golden.keys()
    assert [rule["id"] for rule in net.rules.values()] == list(range(len(net.rules)))
    dumped = {op for op, rule in net.rules.items() if rule["type"] not in NOT_DUMPED}
    assert dumped == set(net.dumps)


def test_original_names_have_golden_files() -> None:
    net = sample()
    originals = {name for op in net.rules for name in net.originals(op)}
    assert {safe(name) for name in originals} == {op for op, _ in net.golden}
    assert len({safe(op) for op in net.rules}) == len(net.rules)


def test_rules_describe_the_dumps() -> None:
    net = sample()
    types, layouts = {1: "DT_FLOAT", 2: "DT_FLOAT16", 7: "DT_INT32"}, {0: "NCHW", 2: "ND", 3: "NC1HWC0", 4: "FRACTAL_Z"}
    for op, dump in net.dumps.items():
        described = net.rules[op]["input_desc"] + net.rules[op]["output_desc"]
        for tensor, text in zip((*dump.inputs, *dump.outputs), described, strict=True):
            assert text["dtype"] == types[tensor.header.data_type]
            assert text["layout"] == layouts.get(tensor.header.format, "FRACTAL_NZ")
            assert text["shape"]["dim"] == list(tensor.header.shape.dim)
            shape = net.attr(text, "origin_shape")["i"]
            assert shape == list(tensor.header.original_shape.dim)
            assert net.attr(text, "origin_format") == ("NCHW" if len(shape) == 4 else "ND")


def test_file_names_are_those_of_the_runtime() -> None:
    net = sample()
    for number, (op, dump) in enumerate(net.dumps.items()):
        op_type, name, task, stream, stamp = dump.file.split(".")
        assert (op_type, name) == (net.rules[op]["type"], op.replace("/", "_"))
        assert int(task) == number + 2
        assert int(stream) == (5 if op.startswith("gate/") else 3)
        assert (len(stamp), int(stamp)) == (16, dump.message.dump_time)


def test_inputs_equal_the_outputs_of_their_producers() -> None:
    net = sample(*FAULTS)
    compared = 0
    for op, dump in net.dumps.items():
        for tensor, (producer, index) in zip(dump.inputs, net.inputs(op), strict=True):
            if producer in net.dumps:
                assert tensor.facts() == net.dumps[producer].outputs[index].facts()
                compared += 1
    assert compared > 60


def test_memory_is_reused_only_when_free() -> None:
    net = sample()
    order = list(net.dumps)
    spans: dict[tuple[str, int], tuple[int, int, int]] = {}
    for step, dump in enumerate(net.dumps.values()):
        for index, tensor in enumerate(dump.outputs):
            start = tensor.header.address
            assert start % 512 == 0
            users = [order.index(op) for op in order if (order[step], index) in net.inputs(op)]
            is_result = (order[step], index) in net.inputs("Node_Output")
            until = len(order) if is_result else max(users, default=step)
            for other, stop, last in spans.values():
                assert last < step or start >= stop or start + tensor.header.size <= other
            spans[order[step], index] = (start, start + tensor.header.size, until)
    assert len({start for start, _, _ in spans.values()}) < len(spans) / 2


def test_weights_do_not_share_memory() -> None:
    net = sample()
    weights = {
        producer: tensor.header
        for op, dump in net.dumps.items()
        for tensor, (producer, _) in zip(dump.inputs, net.inputs(op), strict=True)
        if net.rules[producer]["type"] == "Const"
    }
    spans = sorted((header.address, header.address + header.size) for header in weights.values())
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


def test_an_output_follows_from_the_dumped_inputs() -> None:
    dump = sample().dumps["layer2/0/downsample"]
    image, weight, bias = (tensor.numbers().astype(np.float64) for tensor in dump.inputs)
    expected = np.einsum("nchw,oc->nohw", image[:, :, ::2, ::2], weight[:, :, 0, 0]) + bias.reshape(1, -1, 1, 1)
    np.testing.assert_array_equal(dump.outputs[0].numbers(), expected.astype(np.float16))


def test_without_faults_every_output_equals_the_golden_within_noise() -> None:
    net = sample()
    compared = 0
    for op, dump in net.dumps.items():
        for index, tensor in enumerate(dump.outputs):
            key = net.traced_origin(op, index)
            if key is not None:
                assert tensor.numbers().shape == net.golden[key].shape, op
                assert distance(tensor.numbers(), net.golden[key]) < NOISE, op
                compared += 1
    assert compared == 61  # 60 operators, two of them with two outputs, one of them inner
    np.testing.assert_array_equal(net.dumps["head/topk"].outputs[1].numbers(), net.golden["head_topk", 1])
    assert not net.overflows
    types = Counter(array.dtype.name for array in net.golden.values())
    assert types == {"float32": len(net.golden) - 1, "int64": 1}


def changed(faulty: Readback) -> set[str]:
    """Return the operators whose outputs differ from those of the sample without faults."""
    clean = sample().dumps
    return {
        op
        for op, dump in faulty.dumps.items()
        if [tensor.raw for tensor in dump.outputs] != [tensor.raw for tensor in clean[op].outputs]
    }


def test_faults_name_operators_of_the_network() -> None:
    assert {fault.operator for fault in FAULTS.values()} <= set(sample().dumps)
    assert all(name == fault.name and str(fault.description).endswith(".") for name, fault in FAULTS.items())


@pytest.mark.parametrize(
    ("name", "original", "least", "repair"),
    [
        pytest.param("wrong-scale", "local_conv1_relu", 0.02, lambda x: x / np.float32(1.03), id="wrong-scale"),
        pytest.param("permuted", "context_pool", 0.1, lambda x: x.swapaxes(2, 3), id="permuted"),
    ],
)
def test_fault_affects_only_operators_downstream(
    name: str, original: str, least: float, repair: Callable[[AnyArray], AnyArray]
) -> None:
    net, operator = sample(name), FAULTS[name].operator
    target, golden = net.dumps[operator].outputs[0].numbers(), net.golden[original, 0]
    assert distance(target, golden) > least
    assert distance(repair(target), golden) < NOISE
    assert changed(net) == {operator} | net.downstream(operator)
    assert len(net.downstream(operator)) > 10
    assert net.golden.keys() == sample().golden.keys()
    assert all(np.array_equal(array, sample().golden[key]) for key, array in net.golden.items())


def test_overflow_is_infinite_beyond_the_range_of_float16() -> None:
    net = sample("overflow")
    assert changed(net) == {"gate/conv"}
    target, golden = net.dumps["gate/conv"].outputs[0].numbers(), net.golden["gate_conv", 0]
    assert target.dtype == np.float16
    beyond = np.isinf(target)
    assert 5 < beyond.sum() < 100
    assert np.abs(golden[beyond]).min() > 65000
    assert np.abs(golden[~beyond]).max() < 66000
    np.testing.assert_array_equal(np.sign(target[beyond]), np.sign(golden[beyond]))
    infinite = {op for op, dump in net.dumps.items() for out in dump.outputs if np.isinf(out.numbers()).any()}
    assert infinite == {"gate/conv"}


def test_overflow_record_has_the_ids_of_its_operator() -> None:
    net = sample("overflow")
    (debug,) = net.overflows
    task, stream, stamp = net.dumps["gate/conv"].file.split(".")[2:]
    assert debug.file == f"Opdebug.Node_OpDebug.{task}.{stream}.{int(stamp) + 1}"
    record = debug.outputs[0].raw
    assert unpack_from("<6I", record) == (0x5A5A5A5A, 0, 1, 0, 0, 88)
    model, stream_id, task_id, *_, status = unpack_from("<11Q", record, 24)
    assert (model, stream_id, task_id) == (1, int(stream), int(task))
    assert status != 0


def test_all_faults_together() -> None:
    net = sample(*FAULTS)
    affected = set().union(*({fault.operator} | net.downstream(fault.operator) for fault in FAULTS.values()))
    assert changed(net) == affected - {"gate/clip", "gate/scale"}
