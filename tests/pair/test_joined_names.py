"""Pairs of a quantized offline model by the quantization file and the names of its dumps alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from opdiff.core import dtypes
from opdiff.core.tensor import TensorSpec
from opdiff.pair import Rules, resolve
from pair.rule_files import dumped, npu, npy, op, out, paired, reasons, rules

if TYPE_CHECKING:
    from opdiff.core.dump import DumpedOp
    from opdiff.core.graph import RuleFile, RuleOp
    from opdiff.core.pairing import PairingResult


def layer(name: str, op_type: str, *producers: str) -> RuleOp:
    """Return a layer that quantization did not change."""
    inputs = tuple(f"{producer}:0" for producer in producers)
    return op(name, op_type, inputs=inputs, originals=(name,), outputs=(out(name),))


def quantized(name: str, producer: str) -> tuple[RuleOp, ...]:
    """Return a quantized convolution, which quantization joined with its normalization."""
    originals = (name, f"{name}_bn")
    return (
        op(f"{name}_quant_layer", "Quant", originals=("",), inputs=(f"{producer}:0",), outputs=(out(),)),
        op(name, "Convolution", originals=originals, inputs=(f"{name}_quant_layer:0",), outputs=(out(),)),
        op(
            f"{name}_dequant_layer",
            "DeQuant",
            originals=originals,
            inputs=(f"{name}:0",),
            outputs=(out(f"{name}_bn"),),
        ),
    )


QUANT = rules(
    op("data", "Input", originals=("data",), outputs=(out("data"),)),
    layer("stem", "Convolution", "data"),
    layer("stem_bn", "BatchNorm", "stem"),
    layer("stem_relu", "ReLU", "stem_bn"),
    *quantized("c1", "stem_relu"),
    layer("c1_relu", "ReLU", "c1_dequant_layer"),
    *quantized("c2", "c1_relu"),
    layer("add", "Eltwise", "c2_dequant_layer", "c1_relu"),
    layer("add_relu", "ReLU", "add"),
    layer("pool", "Pooling", "add_relu"),
    layer("drop", "Dropout", "pool"),
    layer("fc", "InnerProduct", "drop"),
)
GOLDEN: tuple[DumpedOp | str, ...] = (
    "data", "stem", "stem_bn", "stem_relu", "c1", "c1_bn", "c1_relu", "c2", "c2_bn", "add", "add_relu", "pool", "drop",
    "fc",
)  # fmt: skip

# The usual conversion.
DEFAULT = (
    dumped("trans_Cast_0", 1),
    dumped("stemstem_bnstem_relu", 3),
    dumped("c1_quant_layer", 1),
    dumped("c1c1_dequant_layerc1_relu", 2),
    dumped("c2_quant_layer", 1),
    dumped("c2c2_dequant_layeraddadd_relu", 4),
    dumped("pool", 1),
    dumped("fc", 2),
)


def with_types(operator: DumpedOp, **types: Any) -> DumpedOp:
    """Return an operator with these element types of its outputs, by number, as `o0`."""
    outputs = {
        number: replace(found, spec=TensorSpec(types.get(f"o{number}", found.spec.dtype), found.spec.shape, "ND"))
        for number, found in operator.outputs.items()
    }
    return replace(operator, outputs=outputs)


def by_names(
    *operators: DumpedOp, quant: RuleFile = QUANT, golden: tuple[DumpedOp | str, ...] = GOLDEN
) -> tuple[PairingResult, ...]:
    return paired(npu(*operators, quantized=True), npy(*golden), Rules(quant=quant))


def pairs(rows: tuple[PairingResult, ...]) -> dict[str, str]:
    """Return the golden operator of each paired tensor."""
    keys = ((row.key, getattr(row, "golden_key", None)) for row in rows)
    return {str(key): golden.op for key, golden in keys if golden is not None}


def instead(**changed: tuple[DumpedOp, ...]) -> list[DumpedOp]:
    """Return the dumps of the usual conversion with others in place of some."""
    return [new for old in DEFAULT for new in changed.get(old.name, (old,))]


def test_fused_operators_are_split_into_the_names_of_the_file() -> None:
    assert pairs(by_names(*DEFAULT)) == {
        "stemstem_bnstem_relu:input:0": "data",
        "stemstem_bnstem_relu:output:0": "stem_relu",
        "c1_quant_layer:input:0": "stem_relu",
        "c1c1_dequant_layerc1_relu:output:0": "c1_relu",
        "c2_quant_layer:input:0": "c1_relu",
        "c2c2_dequant_layeraddadd_relu:output:0": "add_relu",
        "pool:input:0": "add_relu",
        "pool:output:0": "pool",
        "fc:input:0": "drop",
        "fc:output:0": "fc",
    }


def test_each_dumped_operator_that_is_not_paired_has_a_reason() -> None:
    found = reasons(by_names(*DEFAULT))
    assert found["trans_Cast_0"].startswith("the quantization file contains neither this operator nor")
    assert found["c2c2_dequant_layeraddadd_relu:input:2"].startswith("names and quantization file do not tell what in")


def test_the_graph_has_all_producers_of_a_fused_operator() -> None:
    """Errors of the shorter branch are inherited, although nobody knows which input it is."""
    _, resolved = resolve(npu(*DEFAULT, quantized=True), npy(*GOLDEN), Rules(quant=QUANT))
    inputs = {operator.name: operator.inputs for operator in resolved.target_operators() or ()}
    assert inputs["c2c2_dequant_layeraddadd_relu"] == (
        "c2_quant_layer:0", "", "", "", "c1c1_dequant_layerc1_relu:0",
    )  # fmt: skip
    assert inputs["pool"] == ("c2c2_dequant_layeraddadd_relu:0",)


# Operators that the compiler fused without a trace in a name


def test_an_output_that_nobody_reads_as_it_is_has_no_partner() -> None:
    """The convolution may have taken over the normalization, and the dequantization the activation."""
    found = by_names(
        *instead(
            stemstem_bnstem_relu=(dumped("stem", 3), dumped("stem_relu", 1)),
            c1c1_dequant_layerc1_relu=(dumped("c1c1_dequant_layer", 2),),
        )
    )
    matched = pairs(found)
    assert not matched.keys() & {"stem:output:0", "stem_relu:input:0", "c1c1_dequant_layer:output:0"}
    # An activation is never a part of its reader.
    assert matched["c2_quant_layer:input:0"] == "c1_relu"
    assert reasons(found)["stem:output:0"].startswith("names and quantization file do not tell which tensor stem outp")


def test_what_lies_between_parts_is_inside() -> None:
    found = pairs(by_names(*instead(stemstem_bnstem_relu=(dumped("stemstem_relu", 3),))))
    assert found["stemstem_relu:output:0"] == "stem_relu"


def test_operators_without_effect_may_vanish() -> None:
    """The dropout is not in the dump, but its values are those of the pooling."""
    assert pairs(by_names(*DEFAULT))["pool:output:0"] == "pool"


@pytest.mark.parametrize(("outputs", "expected"), [(1, "c1_relu"), (2, None)])
def test_a_second_output_may_be_that_of_an_absent_reader(outputs: int, expected: str | None) -> None:
    changed = instead(
        c1c1_dequant_layerc1_relu=(dumped("c1c1_dequant_layer", 2), dumped("c1_relu", 1, outputs)),
        c2c2_dequant_layeraddadd_relu=(dumped("c2c2_dequant_layer", 2),),
    )
    assert pairs(by_names(*changed)).get("c1_relu:output:0") == expected


def test_a_tensor_that_is_read_twice_is_not_inside() -> None:
    """The activation and the dequantization before it are both read, and one output was dumped."""
    quant = rules(*QUANT.operators(), layer("side", "Eltwise", "c1_dequant_layer", "fc"))
    found = pairs(by_names(*DEFAULT, dumped("side", 2), quant=quant, golden=(*GOLDEN, "side")))
    assert "c1c1_dequant_layerc1_relu:output:0" not in found
    assert found["side:input:0"] == "c1_bn"


SECOND = (layer("norm", "BatchNorm", "pool"), layer("flat", "Flatten", "norm"), layer("fc2", "InnerProduct", "flat"))


def test_readers_of_absent_operators() -> None:
    """A quantization does not take over what is before it; a fully connected layer may, behind a flattening too."""
    quant = rules(*QUANT.operators(), *SECOND, *quantized("c3", "fc"), *quantized("c4", "norm"))
    golden = (*GOLDEN, "norm", "flat", "fc2", "c3_bn", "c4_bn")
    found = pairs(by_names(*DEFAULT, dumped("fc2", 1), dumped("c4_quant_layer", 1), quant=quant, golden=golden))
    assert "fc2:input:0" not in found
    # Two quantizations of one tensor may be one operator.
    assert found["fc:output:0"] == "fc"
    alone = rules(*QUANT.operators(), SECOND[0], *quantized("c4", "norm"))
    found = pairs(by_names(*DEFAULT, dumped("c4_quant_layer", 1), quant=alone, golden=(*GOLDEN, "norm", "c4_bn")))
    assert found["c4_quant_layer:input:0"] == "norm"


@pytest.mark.parametrize(("golden", "expected"), [(GOLDEN, "fc"), ((*GOLDEN, "prob"), None)])
def test_the_last_operator_may_have_taken_over_what_the_file_does_not_list(
    golden: tuple[DumpedOp | str, ...], expected: str | None
) -> None:
    assert pairs(by_names(*DEFAULT, golden=golden)).get("fc:output:0") == expected


def test_a_missing_operator_of_another_shape_cannot_be_fused_into_the_last() -> None:
    other = dumped("prob")
    other = replace(other, outputs={0: replace(other.outputs[0], spec=TensorSpec(dtypes.FLOAT32, (7,), "ND"))})
    assert pairs(by_names(*DEFAULT, golden=(*GOLDEN, other)))["fc:output:0"] == "fc"


# Quantized values


def test_of_two_outputs_the_one_with_floats_is_known() -> None:
    """Convolution, activation and the next quantization are one operator, whose floats the sum reads."""
    both = with_types(dumped("c1c1_dequant_layerc1_reluc2_quant_layer", 2, 2), o0=dtypes.INT8)
    found = by_names(
        *instead(
            c1c1_dequant_layerc1_relu=(both,),
            c2_quant_layer=(),
        )
    )
    assert pairs(found)[f"{both.name}:output:1"] == "c1_relu"
    assert reasons(found)[f"{both.name}:output:0"].endswith("holds quantized values, the golden tensor floats")


def test_two_outputs_with_floats_are_not_told_apart() -> None:
    changed = instead(
        stemstem_bnstem_relu=(dumped("stemstem_bn", 3, 2), dumped("stem_relu", 1)),
        c2c2_dequant_layeraddadd_relu=(dumped("c2c2_dequant_layer", 2), dumped("addadd_relu", 2, 2)),
    )
    quant = rules(*QUANT.operators(), layer("side", "Eltwise", "add", "stem"))
    found = pairs(by_names(*changed, dumped("side", 2), quant=quant, golden=(*GOLDEN, "side")))
    assert not [key for key in found if key.startswith(("stemstem_bn:output", "addadd_relu:output"))]
    # What reads them is known nevertheless.
    assert (found["side:input:0"], found["side:input:1"], found["pool:input:0"]) == ("add", "stem", "add_relu")


def test_integers_are_not_compared_with_floats() -> None:
    changed = instead(pool=(with_types(dumped("pool", 1), o0=dtypes.INT8),))
    assert "pool:output:0" not in pairs(by_names(*changed))


# Names


AMBIGUOUS = rules(
    op("data", "Input", originals=("data",), outputs=(out("data"),)),
    layer("a", "Convolution", "data"),
    layer("ab", "ReLU", "data"),
    layer("bc", "ReLU", "a"),
    layer("c", "ReLU", "ab"),
    layer("end", "Eltwise", "bc", "c"),
)


def test_a_name_with_two_readings_is_not_split() -> None:
    found = by_names(dumped("abc", 1), dumped("end", 2), quant=AMBIGUOUS, golden=("data", "a", "ab", "bc", "c", "end"))
    assert reasons(found)["abc"] in {
        f"the name abc can be read in several ways: {first}, {second}"
        for first, second in (("a + bc", "ab + c"), ("ab + c", "a + bc"))
    }
    # The readers of its parts are compared.
    assert pairs(found) == {"end:input:0": "bc", "end:input:1": "c", "end:output:0": "end"}


def test_operators_that_were_dumped_themselves_are_no_parts() -> None:
    golden = ("data", "a", "ab", "bc", "c", "end")
    found = by_names(dumped("abc", 1), dumped("c", 1), dumped("end", 2), quant=AMBIGUOUS, golden=golden)
    assert pairs(found)["abc:output:0"] == "bc"


def test_parts_read_each_other() -> None:
    found = by_names(*instead(pool=(dumped("stempool", 1),)))
    assert reasons(found)["stempool"].startswith("the quantization file contains neither this operator nor")
    assert pairs(found)["stemstem_bnstem_relu:output:0"] == "stem_relu"


def test_one_operator_is_a_part_of_one_name_only() -> None:
    found = reasons(by_names(*DEFAULT, dumped("addadd_relu", 2)))
    assert found["addadd_relu"] == "the name addadd_relu can be read in several ways: add + add_relu"


def test_a_name_with_very_many_readings() -> None:
    many = rules(*(layer("a" * length, "ReLU") for length in range(1, 20)))
    found = reasons(by_names(dumped("a" * 200), quant=many, golden=("a",)))
    assert "can be read in several ways" in found["a" * 200]


LISTED = (*quantized("c1", "stem_relu"), *quantized("c2", "c1_relu"))
PARTLY = (
    dumped("c1_quant_layer", 1),
    dumped("c1c1_dequant_layerc1_relu", 2),
    dumped("c2_quant_layer", 1),
    dumped("c2c2_dequant_layer", 2),
    dumped("add", 2),
    dumped("pool", 1),
)


def test_names_that_only_the_golden_dump_has() -> None:
    """The quantization file lists the quantized layers only; an activation may be fused into the last one."""
    assert pairs(by_names(*PARTLY, quant=rules(*LISTED), golden=("c1_bn", "c1_relu", "c2_bn", "add", "pool"))) == {
        "c1c1_dequant_layerc1_relu:output:0": "c1_relu",
        "c2_quant_layer:input:0": "c1_relu",
        "add:output:0": "add",
        "pool:output:0": "pool",
    }


def test_what_is_known_by_its_name_alone_inherits_errors() -> None:
    _, resolved = resolve(npu(*PARTLY, quantized=True), npy("c1_relu", "add", "pool"), Rules(quant=rules(*LISTED)))
    inputs = {operator.name: operator.inputs for operator in resolved.target_operators() or ()}
    assert inputs["add"] == ("", "", "c2c2_dequant_layer:0")
    assert inputs["pool"] == ("", "add:0")


def test_a_file_without_edges() -> None:
    """The last part has the output, if no operator is missing that may be fused into it, such as the activation."""
    quant = rules(*(replace(operator, inputs=()) for operator in QUANT.operators() if operator.name != "drop"))
    golden = tuple(name for name in GOLDEN if name != "drop")
    assert pairs(by_names(*DEFAULT, quant=quant, golden=golden)) == {
        "stemstem_bnstem_relu:output:0": "stem_relu",
        "c1c1_dequant_layerc1_relu:output:0": "c1_relu",
        "c2c2_dequant_layeraddadd_relu:output:0": "add_relu",
        "pool:output:0": "pool",
        "fc:output:0": "fc",
    }
    without_trace = instead(c1c1_dequant_layerc1_relu=(dumped("c1c1_dequant_layer", 2),))
    assert "c1c1_dequant_layer:output:0" not in pairs(by_names(*without_trace, quant=quant, golden=golden))
