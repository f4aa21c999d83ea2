"""Rule files as real compilers write them: names at the wrong operator, chains, transposes, constants, sub-graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.pairing import Pairing, Unpaired
from opdiff.core.reasons import because
from pair.rule_files import dumped, npu, npy, op, out, paired, rules, tensor

if TYPE_CHECKING:
    from opdiff.core.dump import DumpedOp
    from opdiff.core.graph import RuleFile

INSERTED = ("",)


def sized(name: str, *, inputs: tuple[int, ...] = (), outputs: tuple[int, ...] = ()) -> DumpedOp:
    """A dumped operator whose tensors have these numbers of elements."""
    made = dumped(name, 0, 0)
    return replace(
        made,
        inputs={index: tensor(size - 1) for index, size in enumerate(inputs)},
        outputs={index: tensor(size - 1) for index, size in enumerate(outputs)},
    )


def pairs(file: RuleFile, target: tuple[DumpedOp, ...], golden: tuple[DumpedOp | str, ...]) -> dict[str, str]:
    """Golden tensors by the target's, both shortly."""
    found = [row for row in paired(npu(*target), npy(*golden), file) if isinstance(row, Pairing)]
    return {
        f"{row.key.op}:{row.key.slot[0]}{row.key.index}": f"{row.golden_key.op}.{row.golden_key.index}" for row in found
    }


def test_an_inserted_conversion_with_the_name_of_its_reader() -> None:
    """The producer's tensor is the one that is passed on; equal sizes do not make the reader's name right."""
    file = rules(
        op("pad"),
        op("trans", "TransData", originals=INSERTED, inputs=("pad:0",), outputs=(out("conv"),)),
        op("conv", originals=("conv",), inputs=("trans:0",), outputs=(out("conv"),)),
    )
    target = (dumped("pad"), dumped("trans", 1), dumped("conv", 1))
    assert pairs(file, target, ("pad", "conv")) == {
        "pad:o0": "pad.0", "trans:i0": "pad.0", "trans:o0": "pad.0", "conv:i0": "pad.0", "conv:o0": "conv.0",
    }  # fmt: skip


def test_an_inserted_conversion_whose_producer_the_golden_lacks() -> None:
    """Its own name is taken if the sizes agree, and not if they do not."""
    file = rules(
        op("norm", originals=("norm", "gone"), outputs=(out("gone"),)),
        op("small", "Cast", originals=INSERTED, inputs=("norm:0",), outputs=(out("shape"),)),
        op("large", "Cast", originals=INSERTED, inputs=("norm:0",), outputs=(out("other"),)),
    )
    target = (sized("small", outputs=(3,)), sized("large", outputs=(3,)))
    golden = (sized("shape", outputs=(3,)), sized("other", outputs=(5,)))
    assert pairs(file, target, golden) == {"small:o0": "shape.0"}


def test_inserted_reshapes_pass_their_input_on() -> None:
    file = rules(
        op("relu"),
        op("flat", "Reshape", originals=INSERTED, inputs=("relu:0",)),
        op("fc", inputs=("flat:0",)),
    )
    found = pairs(file, (dumped("flat", 1), dumped("fc", 1)), ("relu", "fc"))
    assert found == {"flat:i0": "relu.0", "flat:o0": "relu.0", "fc:i0": "relu.0", "fc:o0": "fc.0"}


def test_a_folded_constant_with_the_name_of_its_reader() -> None:
    """The reader computes output 0; nothing else claims output 1."""
    file = rules(
        op("scale", "Const", originals=INSERTED, outputs=(out("norm"),)),
        op("mean", "Const", originals=INSERTED, outputs=(out("norm", 1),)),
        op("norm_d", originals=("norm",), is_multiop=True, inputs=("scale:0", "mean:0"), outputs=(out("norm"),)),
    )
    target = (sized("norm_d", inputs=(2, 2), outputs=(2,)),)
    golden = (sized("norm", outputs=(2, 2)),)
    assert pairs(file, target, golden) == {"norm_d:i1": "norm.1", "norm_d:o0": "norm.0"}


def test_the_end_of_a_chain_has_the_output_of_the_original() -> None:
    file = rules(
        op("first", originals=("random",)),
        op("axis", "Const", originals=("random",)),
        op("second", originals=("random",), is_multiop=True, inputs=("first:0", "axis:0"), outputs=(out(),)),
        op("reader", inputs=("second:0",)),
    )
    found = pairs(file, (dumped("first"), dumped("second", 1), dumped("reader", 1)), ("random", "reader"))
    assert found == {"second:o0": "random.0", "reader:i0": "random.0", "reader:o0": "reader.0"}


def test_the_dequantization_of_a_layer_has_its_output() -> None:
    file = rules(
        op("conv_quant", "Conv2D", originals=("conv",), is_multiop=True, outputs=(out(),)),
        op(
            "conv_dequant",
            "AscendDequant",
            originals=("conv",),
            is_multiop=True,
            inputs=("conv_quant:0",),
            outputs=(out(),),
        ),
    )
    assert pairs(file, (dumped("conv_dequant"),), ("conv",)) == {"conv_dequant:o0": "conv.0"}


def test_two_ends_of_a_chain_are_not_guessed_at() -> None:
    file = rules(
        op("first", originals=("x",)),
        op("left", originals=("x",), inputs=("first:0",)),
        op("right", originals=("x",), inputs=("first:0",)),
    )
    assert pairs(file, (dumped("left"), dumped("right")), ("x",)) == {}


def test_transposes_around_an_operator() -> None:
    """The original's tensors are on the outer sides of them."""
    file = rules(
        op("boxes"),
        op("nms_Input0_TransposeBefore", "Transpose", inputs=("boxes:0",)),
        op("nms", inputs=("nms_Input0_TransposeBefore:0",), outputs=(out(), out(index=1))),
        op("nms_Output0TransposeAfter", "TransposeD", inputs=("nms:0",)),
        op("reader", inputs=("nms_Output0TransposeAfter:0", "nms:1")),
    )
    target = (
        dumped("nms_Input0_TransposeBefore", 1), dumped("nms", 1, 2), dumped("nms_Output0TransposeAfter", 1),
        dumped("reader", 2),
    )  # fmt: skip
    found = pairs(file, target, ("boxes", dumped("nms", outputs=2, op_type=""), "reader"))
    assert found == {
        "nms_Input0_TransposeBefore:i0": "boxes.0", "nms:o1": "nms.1", "nms_Output0TransposeAfter:o0": "nms.0",
        "reader:i0": "nms.0", "reader:i1": "nms.1", "reader:o0": "reader.0",
    }  # fmt: skip


def test_a_transpose_of_the_model_is_an_operator_like_others() -> None:
    file = rules(
        op("a"), op("a_Output0TransposeAfter", "Transpose", originals=("t",), inputs=("a:0",), outputs=(out("t"),))
    )
    assert pairs(file, (dumped("a_Output0TransposeAfter", 1),), ("a", "t")) == {
        "a_Output0TransposeAfter:i0": "a.0",
        "a_Output0TransposeAfter:o0": "t.0",
    }


def test_a_fused_operator_that_writes_into_a_concatenation() -> None:
    branches = [
        op(
            f"c{number}r{number}r{number}_StridedWrite",
            "Conv2D",
            originals=(f"c{number}", f"r{number}"),
            outputs=(out(),),
        )
        for number in (1, 2)
    ]
    file = rules(*branches, op("concat", "ConcatD", inputs=tuple(f"{branch.name}:0" for branch in branches)))
    assert pairs(file, (dumped(branches[0].name, 0), dumped("concat", 2)), ("c1", "r1", "r2", "concat")) == {
        "c1r1r1_StridedWrite:o0": "r1.0",
        "concat:i0": "r1.0",
        "concat:i1": "r2.0",
        "concat:o0": "concat.0",
    }


def test_an_image_that_the_device_preprocesses_is_no_tensor_of_the_model() -> None:
    file = rules(
        op("image", "Data"),
        op("aipp_0", "Aipp", originals=INSERTED, inputs=("image:0",)),
        op("conv", "Conv2D", originals=("conv",), inputs=("aipp_0:0",)),
        op("photo", "Data"),
        op("photo_0_huawei_aippstem", "Conv2D", originals=("stem",), inputs=("photo:0",)),
    )
    target = dumped("aipp_0", 1), dumped("conv", 1), dumped("photo_0_huawei_aippstem", 1)
    golden = npy("image", "conv", "photo", "stem")
    assert pairs(file, target, ("image", "conv", "photo", "stem")) == {
        "aipp_0:o0": "image.0",
        "conv:i0": "image.0",
        "conv:o0": "conv.0",
        "photo_0_huawei_aippstem:o0": "stem.0",
    }
    reasons = {str(row.key): row.reason for row in paired(npu(*target), golden, file) if isinstance(row, Unpaired)}
    assert reasons["photo_0_huawei_aippstem:input:0"] == because(
        "pair.image", index=0, name="photo_0_huawei_aippstem", producer="photo"
    )


def test_originals_that_are_listed_twice_count_once() -> None:
    file = rules(op("turn", originals=("t", "t"), outputs=(out(),)))
    assert pairs(file, (dumped("turn"),), ("t",)) == {"turn:o0": "t.0"}


def test_tensors_are_followed_over_the_borders_of_sub_graphs() -> None:
    file = rules(
        op("before"),
        op("call", "PartitionedCall", inputs=("before:0",), subgraphs=("inner",)),
        op("after", inputs=("call:1",)),
        inner=(
            op("data", "Data", parent_input=0),
            op("relu", inputs=("data:0",)),
            op("end", "NetOutput", inputs=("data:0", "relu:0"), parent_outputs=(0, 1)),
        ),
    )
    found = pairs(file, (dumped("relu", 1), dumped("after", 1)), ("before", "relu", "after"))
    assert found == {"relu:i0": "before.0", "relu:o0": "relu.0", "after:i0": "relu.0", "after:o0": "after.0"}


def test_a_border_without_an_owner_has_a_reason() -> None:
    file = rules(op("top"), inner=(op("data", "Data", parent_input=0), op("relu", inputs=("data:0",))))
    assert pairs(file, (dumped("relu", 1),), ("relu",)) == {"relu:o0": "relu.0"}


def test_names_that_files_do_not_tell_apart_are_not_compared() -> None:
    file = rules(op("a/b"), op("a_b"), op("c"))
    assert pairs(file, (dumped("a_b"), dumped("c")), ("a_b", "c")) == {"c:o0": "c.0"}
