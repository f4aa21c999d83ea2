"""Patterns of file names, and names that fit none."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opdiff.core.tensor import Slot
from opdiff.read import filename
from opdiff.read.filename import (
    ConvertedName,
    DumpName,
    FxName,
    GoldenName,
    is_hashed,
    operator_name,
    parse_dump_name,
    parse_name,
)
from opdiff.sample import names

T = 1671234567890123
FX = 20240125031118787351
SHORT = DumpName("Add", "net_add", 5, 7, T)

WORDS = st.text("abcXYZ019_-", min_size=1, max_size=12)
IDS = st.integers(0, 10**9)
TIMES = st.integers(10**15, 10**16 - 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"Add.a.5.{T}", DumpName("Add", "a", 5, None, T)),
        (f"Add.net_add.5.7.{T}", SHORT),
        (f"Add.a.9.5.7.{T}", DumpName("Add", "a", 5, 7, T, dump_number=9)),
        (f"Add.a.5.{T}.0.1.2", DumpName("Add", "a", 5, None, T, None, 0, 1, 2)),
        (f"Add.a.5.7.{T}.4.1.2", DumpName("Add", "a", 5, 7, T, None, 4, 1, 2)),
        (f"Add.a.5.{T}.4.1.2.3", DumpName("Add", "a", 5, None, T, None, 4, 1, 2, 3)),
        (f"Add.a.5.7.{T}.4.1.2.3", DumpName("Add", "a", 5, 7, T, None, 4, 1, 2, 3)),
        ("Add.a.5.7.123", DumpName("Add", "a", 5, 7, 123)),
        (f"Add.a.5.7.{T}.csv", DumpName("Add", "a", 5, 7, T, suffix=".csv")),
        ("te_conv2d_1.3.5.0.7.20250102030405678", DumpName("", "te_conv2d_1", 5, 3, 20250102030405678)),
        ("Add.12.3.4.5.20250102030405678", DumpName("", "Add", 3, 12, 20250102030405678)),
        ("Add.12.3.4.5.20251302030405678", DumpName("Add", "12", 4, 5, 20251302030405678, dump_number=3)),
        (f"Add.12.3.4.5.{T}", DumpName("Add", "12", 4, 5, T, dump_number=3)),
        ("Add.a.5.7.20250102030405678", DumpName("Add", "a", 5, 7, 20250102030405678)),
        (f"exception_info.3.5.{T}", DumpName("", "exception_info", 5, 3, T)),
        ("exception_info.3.5.0.7.20250102030405678", DumpName("", "exception_info", 5, 3, 20250102030405678)),
        (f"conv1.0.{T}.npy", GoldenName("conv1", 0, T, "npy")),
        (f"net.conv.1.0.{T}.npy", GoldenName("net.conv.1", 0, T, "npy")),
        ("conv1.2.npy", GoldenName("conv1", 2, None, "npy")),
        (f"conv1.0.{T}.npz", GoldenName("conv1", 0, T, "npz")),
        (f"conv1.0.{T}_min_max.npy", GoldenName("conv1", 0, T, "npy", reduced=True)),
        (f"Add.a.5.7.{T}.npz", DumpName("Add", "a", 5, 7, T, suffix=".npz")),
        (f"Add.a.5.7.{T}_min_max.npz", DumpName("Add", "a", 5, 7, T, suffix="_min_max.npz")),
        (
            f"mm-aten.mm.default.OUTPUT.0.{FX}_min_max.npy",
            FxName("mm", "aten.mm.default", Slot.OUTPUT, 0, None, FX, reduced=True),
        ),
        (f"conv1.0.{T}.pb", GoldenName("conv1", 0, T, "pb")),
        (f"conv1.0.{T}.quant", GoldenName("conv1", 0, T, "quant")),
        (f"mm-aten.mm.default.INPUT.0.{FX}.npy", FxName("mm", "aten.mm.default", Slot.INPUT, 0, None, FX)),
        (f"cat-aten.cat.default.INPUT.0.11.{FX}.npy", FxName("cat", "aten.cat.default", Slot.INPUT, 0, 11, FX)),
        (
            f"add-<built-in function add>.OUTPUT.0.{FX}.npy",
            FxName("add", "<built-in function add>", Slot.OUTPUT, 0, None, FX),
        ),
        (f"Add.net_add.5.7.{T}.output.3.npy", ConvertedName(SHORT, Slot.OUTPUT, 3)),
        (f"Add.net_add.5.7.{T}.input.0.1x3x2x2.npy", ConvertedName(SHORT, Slot.INPUT, 0)),
    ],
)
def test_parse_name(name: str, expected: object) -> None:
    assert parse_name(name) == expected


@pytest.mark.parametrize("name", ["Conv@0", "onnx::Add_17", "a,b=(c)", "层_1", "x[0]{1}", "-"])
def test_names_with_unusual_characters(name: str) -> None:
    dump, golden = parse_name(f"Add.{name}.5.7.{T}"), parse_name(f"{name}.0.{T}.npy")
    assert isinstance(dump, DumpName)
    assert isinstance(golden, GoldenName)
    assert (dump.op_name, golden.op_name) == (name, name)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "Add", "Add.a.5", f"Add.a.{T}", f"Add.a.5.7.{T}.tmp", f"Add.a.5.7.{T}.bin", f"Add.a b.5.7.{T}",
        f"Add..5.7.{T}", f"Add.a.5.7.{T}.1", f"Add.a.1.2.3.4.{T}", f"Add.a.5.7.{T}.1.2.3.4.5", f"Add.a\x07.5.7.{T}",
        f"Add.a.5.-7.{T}", f"a.x.{T}.npy", f"x.0.{T}.NPY", "README.txt", "a.pb", f"Add.a.5.7.{T}\n", f"A/a.1.{T}",
        "Add.a." + "9" * 300 + f".{T}",
    ],
)  # fmt: skip
def test_other_names_are_not_parsed(name: str) -> None:
    assert parse_name(name) is None


@given(
    WORDS, WORDS, st.none() | IDS, IDS, st.none() | IDS, TIMES, st.none() | st.tuples(IDS, IDS, IDS, st.none() | IDS)
)
def test_names_of_the_encoder_round_trip(
    op_type: str,
    op_name: str,
    number: int | None,
    task: int,
    stream: int | None,
    time: int,
    rest: tuple[int, int, int, int | None] | None,
) -> None:
    if number is not None:
        # Runtimes that number their dumps write the stream, and nothing behind the time.
        stream, rest = stream or 0, None
    name = names.DumpName(op_type, op_name, task, stream, time, names.Task(*rest) if rest else None, number)
    after = rest or (None, None, None, None)
    assert parse_name(str(name)) == DumpName(op_type, op_name, task, stream, time, number, *after)


@given(st.text(max_size=80))
def test_random_names_are_parsed_or_none(text: str) -> None:
    parsed = parse_name(text)
    assert parsed is None or parsed.op_name


USUAL_NAMES = st.tuples(WORDS, WORDS, IDS.map(str), IDS.map(str), TIMES.map(str)).map(".".join)
# Numbers around the limits between identifiers and timestamps, and around the limit of all fields. Names of exception
# dumps have numbers in place of an operator's name; other digits than those of ASCII are no numbers.
NUMBERS = st.sampled_from(["5", "9" * 13, "9" * 14, "\u0663"])
NEARLY_USUAL_NAMES = st.builds(
    lambda fields, more, suffix: ".".join([*fields, *more]) + suffix,
    st.tuples(
        st.sampled_from(["Add", "exception_info", "a b"]),
        st.sampled_from(["a", "12", "3x", "\u0663", ""]),
        NUMBERS,
        NUMBERS,
        st.sampled_from([str(T), "20250102030405678", "9" * 13, "9" * 14, "9" * 255, "9" * 256]),
    ),
    st.just([]) | st.lists(NUMBERS, max_size=4),
    st.just("") | st.sampled_from([".csv", ".npz", "_min_max.npz", "\n", "."]),
)


@settings(max_examples=300)
@example(f"exception_info.3.5.7.{T}")
@example(f"Add.a.{'9' * 14}.7.{T}")
@example(f"Add.a.5.{'9' * 14}.{T}")
@example(f"Add.a.5.7.{'9' * 256}")
@given(USUAL_NAMES | NEARLY_USUAL_NAMES | st.text(max_size=80))
def test_pattern_of_usual_names_gives_what_the_general_one_gives(name: str) -> None:
    found = parse_dump_name(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filename, "_USUAL_DUMP", re.compile("(?!)"))
        assert parse_dump_name(name) == found


@pytest.mark.parametrize(
    ("raw", "plain", "with_rules"),
    [
        ("conv", "conv", "conv"),
        ("conv_lxslice3", "conv", "conv"),
        ("conv_lxslice12", "conv", "conv"),
        ("partition0_rank2_sgt_graph_0_conv_lxslice3", "conv", "partition0_rank2_sgt_graph_0_conv"),
        ("a_sgt_graph_1_b_sgt_graph_22_conv", "conv", "conv"),
        ("a_sgt_graph_1_", "a_sgt_graph_1_", "a_sgt_graph_1_"),
        ("a_lxslice1_b_lxslice2", None, "a_b"),
        ("a_lxslice1_b", None, "a_b"),
    ],
)
def test_operator_name(raw: str, plain: str | None, with_rules: str) -> None:
    assert operator_name(raw) == plain
    assert operator_name(raw, with_rules=True) == with_rules


def test_properties_of_names() -> None:
    debug, other = parse_name(str(names.overflow_name(1, 2, T))), parse_name(f"Add.Node_OpDebug.1.2.{T}")
    assert isinstance(debug, DumpName)
    assert isinstance(other, DumpName)
    assert (debug.is_debug, other.is_debug) == (True, False)
    assert is_hashed("123456789012345678")
    assert is_hashed("123.npy")
    assert not is_hashed("12a")


@pytest.mark.parametrize(
    ("name", "number"),
    [(f"A.x.1.2.{T}.4.0.7.0", 7), (f"A.x_lxslice12.1.2.{T}.4.0.7.0", 12), (f"A.x.1.2.{T}.4.0.0.0", 0)],
)
def test_slice_number(name: str, number: int) -> None:
    parsed = parse_name(name)
    assert isinstance(parsed, DumpName)
    assert parsed.is_slice
    assert parsed.slice_number == number
    assert parsed.is_manual == ("lxslice" in name)
