"""The result table: header, rows, and protection against spreadsheet formulas."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from made_comparisons import (
    COLUMNS,
    comparison,
    comparisons,
    failed_operator,
    failed_tensor,
    label,
    measured,
    metrics,
    pairing,
    tensor,
    unpaired_operator,
    unpaired_tensor,
)
from opdiff.core.comparison import TableView
from opdiff.core.dump import DumpKind, side_tensor
from opdiff.core.reasons import quoted
from opdiff.core.tensor import Slot, TensorKey
from opdiff.report.cells import columns_of_rows, csv_lines, escape_formula, full_numbers, write_table
from opdiff.report.offline_table import EXTRA_COLUMNS, SelectedMetrics, offline_table, write_mapping
from opdiff.report.saved_json import load, save
from opdiff.report.table import write_csv

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison, Row

PAGE = Path(__file__).parent.parent.parent / "docs" / "formats" / "result-csv.md"
NOT_COMPARABLE = "not comparable,made up,,,unsure."
NPU, ARRAYS = DumpKind.NPU, DumpKind.ARRAYS
EXTRA = [*(title for columns in EXTRA_COLUMNS for title in columns.titles), "RunVerdict"]


def written(of: Comparison, folder: Path, columns: SelectedMetrics = COLUMNS) -> str:
    path = folder / "result.csv"
    write_csv(offline_table(of, columns), str(path))
    return path.read_bytes().decode()


def table(of: Comparison, folder: Path, columns: SelectedMetrics = COLUMNS) -> list[list[str]]:
    return list(csv.reader(io.StringIO(written(of, folder, columns), newline="")))


def cells(of: Comparison, folder: Path, columns: SelectedMetrics = COLUMNS) -> dict[str, str]:
    """Return the cells of the only row; the second column of a name is called `name#2`."""
    header, row = table(of, folder, columns)
    named: dict[str, str] = {}
    for name, cell in zip(header, row, strict=True):
        named[f"{name}#2" if name in named else name] = cell
    return named


HEADERS: dict[str, tuple[DumpKind, DumpKind, dict[str, bool], str]] = {
    "npu_arrays": (NPU, ARRAYS, {}, "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape"),
    "arrays": (ARRAYS, ARRAYS, {}, "Index,OpType,NPUDump,DataType,GroundTruth,DataType,TensorIndex,Shape"),
    "npu_npu": (NPU, NPU, {}, "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,Address,TensorIndex,Shape"),
    "arrays_npu": (ARRAYS, NPU, {}, "Index,OpType,NPUDump,DataType,GroundTruth,DataType,Address,TensorIndex,Shape"),
    "sequence": (
        ARRAYS,
        ARRAYS,
        {"sequence": True},
        "Index,OpSequence,OpType,NPUDump,DataType,GroundTruth,DataType,TensorIndex,Shape",
    ),
    "overflow": (
        NPU,
        ARRAYS,
        {"overflow": True},
        "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,TensorIndex,Shape,OverFlow",
    ),
    "arrays_cannot_overflow": (
        ARRAYS,
        ARRAYS,
        {"overflow": True},
        "Index,OpType,NPUDump,DataType,GroundTruth,DataType,TensorIndex,Shape",
    ),
}


@pytest.mark.parametrize(("target", "golden", "options", "start"), HEADERS.values(), ids=HEADERS)
def test_header(target: DumpKind, golden: DumpKind, options: dict[str, Any], start: str, tmp_path: Path) -> None:
    text = written(replace(comparison(target=target, golden=golden), view=TableView(**options)), tmp_path)
    assert text == f"{start},CosineSimilarity,StandardDeviation,CompareFailReason,{','.join(EXTRA)}\r\n"


# Rows


def test_a_compared_tensor(tmp_path: Path) -> None:
    row = measured(overflow=True, steps=(quoted("NC1HWC0 to NCHW"), quoted("cut")))
    shown = replace(comparison(row, golden=NPU), view=TableView(sequence=True, overflow=True))
    assert cells(shown, tmp_path) == {
        "Index": "3", "OpSequence": "12", "OpType": "Conv2D",
        "NPUDump": "conv1", "DataType": "float16", "Address": "20618000384000",
        "GroundTruth": "conv1", "DataType#2": "float32", "Address#2": "77",
        "TensorIndex": "conv1:output:0", "Shape": "[2,3]", "OverFlow": "YES",
        "CosineSimilarity": "0.500000", "StandardDeviation": "(0.0;6),(0.0;1.0)", "CompareFailReason": "",
        "GoldenTensor": "conv1:output:1", "MatchRule": "named in the rule file", "Confidence": "1.000000",
        "Conversion": "NC1HWC0 to NCHW; cut", "Elements": "6", "Equal": "NO", "NormRatio": "2.000000",
        "CentredCosine": "0.625000", "SNR(dB)": "-3.500000", "ErrorBias": "-0.500000", "Over1Permille": "0.250000",
        "Over5Permille": "0.125000", "MaxUlp": "7", "WorstIndex": "[1,1]", "WorstTarget": "-8.000000",
        "WorstGolden": "9",
        "FiniteElements": "6", "FiniteCosine": "0.875000", "TargetNaN": "0", "TargetInf": "1", "GoldenNaN": "2",
        "GoldenInf": "3", "SpecialMismatch": "4", "FirstSpecialMismatch": "[1,2]",
        "Level": "noise", "LevelRule": "made up", "Origin": "", "ErrorExcess": "", "RunVerdict": "unsure.",
    }  # fmt: skip


def test_a_tensor_that_cannot_be_measured(tmp_path: Path) -> None:
    row = measured(metrics=None, shape=(1, 1, 4, 4, 16), reason=quoted("the extents differ"))
    text = written(comparison(row), tmp_path).splitlines()[1]
    start = '3,Conv2D,conv1,NaN,20618000384000,conv1,NaN,conv1:output:0,"[1,1,4,4,16]",NaN,NaN,the extents differ,'
    assert text == f"{start}conv1:output:1,named in the rule file,1.000000{',' * 22}{NOT_COMPARABLE}"


def test_a_tensor_without_a_pair(tmp_path: Path) -> None:
    text = written(comparison(failed_tensor(target=tensor((2, 24))), golden=NPU), tmp_path).splitlines()[1]
    start = '3,Conv2D,conv1,NaN,20618000384000,conv1,NaN,NaN,conv1:input:0,"[2,24]",NaN,NaN,no golden file'
    assert text == f"{start}{',' * (len(EXTRA) - 4)}{NOT_COMPARABLE}"


def test_an_operator(tmp_path: Path) -> None:
    shown = replace(comparison(failed_operator(), golden=NPU), view=TableView(overflow=True))
    text = written(shown, tmp_path).splitlines()[1]
    start = "3,Conv2D,conv1,NaN,NaN,conv1,NaN,NaN,NaN,NaN,NaN,NaN,NaN,no dump file"
    assert text == f"{start}{',' * (len(EXTRA) - 4)}{NOT_COMPARABLE}"


def of_address(address: int | None) -> Row:
    return measured(pairing(target=side_tensor(TensorKey("conv1", Slot.OUTPUT, 0), tensor(address=address))))


# Rows, and some of their cells.
CELLS_OF_ROWS: dict[str, tuple[Row, dict[str, str]]] = {
    "operator of one side": (
        failed_operator(of=label("*", "Sigmoid_4", 11, "")),
        {"Index": "11", "OpType": "NaN", "NPUDump": "*", "GroundTruth": "Sigmoid_4"},
    ),
    "not UTF-8": (failed_operator(of=label("卷积", "\udcff")), {"NPUDump": "卷积", "GroundTruth": "\\udcff"}),
    "unknown address": (of_address(None), {"Address": "0"}),
    "scalar": (measured(shape=()), {"Shape": "[]"}),
    "one axis": (measured(shape=(1,)), {"Shape": "[1]"}),
    "no elements": (measured(shape=(0, 4)), {"Shape": "[0,4]"}),
    "overflow": (measured(overflow=True), {"OverFlow": "YES"}),
    "no overflow": (measured(overflow=False), {"OverFlow": "NO"}),
    "unknown overflow": (measured(overflow=None), {"OverFlow": "NaN"}),
    "missing values": (measured(metrics=metrics(snr_db=None, worst_index=None)), {"SNR(dB)": "", "WorstIndex": ""}),
    "NaN": (measured(metrics=metrics(norm_ratio=float("nan"))), {"NormRatio": "NaN"}),
    "reasons and notes once": (
        measured(
            metrics=metrics(notes=(quoted("it is a scalar."), quoted("all zero."))),
            custom=(("Mine", "1.5", "mine failed."),),
            notes=(quoted("it is a scalar."),),
        ),
        {"CompareFailReason": "it is a scalar.; all zero. mine failed."},
    ),
}


@pytest.mark.parametrize(("row", "expected"), CELLS_OF_ROWS.values(), ids=CELLS_OF_ROWS)
def test_cells(row: Row, expected: dict[str, str], tmp_path: Path) -> None:
    found = cells(replace(comparison(row), view=TableView(overflow=True)), tmp_path)
    assert {name: found[name] for name in expected} == expected


def test_custom_metrics(tmp_path: Path) -> None:
    rows = (measured(custom=(("Mine", "-1.5", ""), ("Text", "=1+1", ""))), failed_operator(), measured())
    header, *found = table(comparison(*rows), tmp_path, replace(COLUMNS, custom=("First",)))
    start = header.index("StandardDeviation") + 1
    assert header[start : start + 4] == ["First", "Mine", "Text", "CompareFailReason"]
    assert [row[start : start + 3] for row in found] == [["NaN", "-1.5", "'=1+1"], ["NaN"] * 3, ["NaN"] * 3]


def test_rows_keep_their_order(tmp_path: Path) -> None:
    rows = [failed_operator(of=label(f"op{number}", index=number)) for number in (5, 1, 3)]
    assert [row[0] for row in table(comparison(*rows), tmp_path)[1:]] == ["5", "1", "3"]


# As a file


def test_quotes_only_where_needed(tmp_path: Path) -> None:
    row = failed_operator(quoted('he message "no",\nand left'), label('a,b"c', "plain"))
    line = written(comparison(row), tmp_path).split("\r\n")[1]
    assert line.startswith('3,Conv2D,"a,b""c",NaN,NaN,plain,NaN,NaN,NaN,NaN,NaN,"he message ""no"",\\nand left",')


# Cells, and their escaped form.
FORMULAS = {
    "=1+1": "'=1+1", "+cmd": "'+cmd", "-x": "'-x", "@sum": "'@sum", "%x": "'%x", "＝1": "'＝1", "－x": "'－x",  # noqa: RUF001
    "＋x": "'＋x", "％x": "'％x", "＠x": "'＠x",   # noqa: RUF001
    "  =1": "'  =1", "a;=1": "a;'=1", "a; -x": "a;' -x", "-1+1": "'-1+1", "-1 ": "'-1 ",
    # After characters that are not visible.
    "\ufeff=1+1": "'\ufeff=1+1", "\u200b@SUM(A1)": "'\u200b@SUM(A1)", " \u2060\u200e -2+3": "' \u2060\u200e -2+3",
    "a;\ufeff+1+1": "a;'\ufeff+1+1",
}  # fmt: skip
CONTROLS = {
    "\x1b[31mred": "\\x1b[31mred", "conv\x1b]0;title\x07": "conv\\x1b]0;title\\x07", "\x7f": "\\x7f",
    "a\x9b2J": "a\\x9b2J",
    "a\0b": "a\\x00b", "\t=1": "\\t=1", "\rx": "\\rx", "a\n=1": "a\\n=1", "=\x08": "'=\\x08", "a;=\x1b": "a;'=\\x1b",
}  # fmt: skip
PLAIN = [
    "", "conv1", "a=b", "a-b", "a@b", "*", "-1", "-1.5", "-1.5e-08", "+2", "-inf", "nan", "(-0.1;1.0),(0.1;1.0)", "a;b",
    "'", "50%", "block/conv-1:output:0", "\ufeffconv1",
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), (FORMULAS | CONTROLS | {text: text for text in PLAIN}).items(), ids=repr)
def test_formulas_and_controls_are_escaped(text: str, expected: str) -> None:
    assert escape_formula(text) == expected


def test_no_control_character_reaches_a_file(tmp_path: Path) -> None:
    """Columns of strings, columns of strings and numbers, and cells with the separator of columns."""
    path = tmp_path / "table.csv"
    for text in CONTROLS:
        write_table(str(path), [text, "b"], columns_of_rows([(text, 1), ("conv1", text), (text, "conv1")]))
        assert re.findall(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]", path.read_bytes().replace(b"\r\n", b"")) == []


def test_formulas_are_escaped_in_any_string(tmp_path: Path) -> None:
    of = label("=t", "=g", op_type="=o")
    row = measured(pairing(of, evidence=quoted("=r")), steps=(quoted("=s"),), notes=(quoted("=why"),))
    found = cells(comparison(row), tmp_path)
    names = ("OpType", "NPUDump", "GroundTruth", "TensorIndex", "GoldenTensor", "MatchRule", "Conversion")
    assert [found[name] for name in (*names, "CompareFailReason")] == [
        "'=o", "'=t", "'=g", "'=t:output:0", "'=g:output:1", "'=r", "'=s", "'=why"
    ]  # fmt: skip


@given(comparisons)
def test_any_table_can_be_read_back(tmp_path_factory: pytest.TempPathFactory, of: Comparison) -> None:
    """Any comparison gives a table with all its cells, none of which is a formula."""
    found = table(of, tmp_path_factory.mktemp("csv"))
    assert len(found) == 1 + len(of.rows)
    assert {len(row) for row in found} == {len(found[0])}
    assert [cell for row in found for cell in row if escape_formula(cell) != cell] == []


@given(comparisons)
def test_a_loaded_comparison_gives_the_same_table(tmp_path_factory: pytest.TempPathFactory, of: Comparison) -> None:
    folder = tmp_path_factory.mktemp("csv")
    save(of, str(folder / "saved.json"))
    first = written(of, folder)
    write_csv(offline_table(load(str(folder / "saved.json")), COLUMNS), str(folder / "again.csv"))
    assert (folder / "again.csv").read_bytes().decode() == first


# Any cells


ROW = (1.5e-8, 0.1, 3, None, "=1+1", 'a,"b"', "\udc80")


def test_cells_are_written(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_table(str(path), ["h"] * len(ROW), columns_of_rows([ROW]))
    assert path.read_bytes().split(b"\r\n")[1] == b'1.50000e-08,0.100000,3,,\'=1+1,"a,""b""",\\udc80'
    write_table(str(path), ["h"] * len(ROW), columns_of_rows([ROW]), full_numbers)
    assert path.read_bytes().split(b"\r\n")[1] == b'1.5e-08,0.1,3,,\'=1+1,"a,""b""",\\udc80'


def test_rows_of_several_parts(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_table(str(path), ["number", "name"], columns_of_rows((number, "a") for number in range(4001)))
    assert path.read_text().splitlines()[1:] == [f"{number},a" for number in range(4001)]


def test_failure_leaves_no_file(tmp_path: Path) -> None:
    def rows() -> list[tuple[str]]:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        write_table(str(tmp_path / "table.csv"), ["h"], columns_of_rows(row for _ in "a" for row in rows()))
    assert not list(tmp_path.iterdir())


CELLS = st.none() | st.floats() | st.integers() | st.text() | st.sampled_from(["", '"', "a,b", "=1", "-", "\r", "a\nb"])


@given(st.integers(2, 4).flatmap(lambda width: st.lists(st.tuples(*[CELLS] * width), max_size=5)))
def test_lines_are_those_of_the_standard_library(rows: list[tuple[str | float | None, ...]]) -> None:
    file = io.StringIO(newline="")
    escaped = [[escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    csv.writer(file).writerows(escaped)
    assert b"".join(csv_lines(columns, full_numbers) for columns in columns_of_rows(rows)) == file.getvalue().encode(
        "utf-8", "backslashreplace"
    )


@given(st.lists(st.floats() | st.floats(-1, 1) | st.sampled_from([1e-4, 9.9e-5, 1e16, 9e15, -1e-5, 0.0, -0.0, 1e300])))
def test_numbers_have_all_their_digits(numbers: list[float]) -> None:
    assert full_numbers(numbers) == [str(number) for number in numbers]


# The table of pairs

PAIR_HEADER = "OpType,NPUDump,GroundTruth,TensorIndex,NPUDumpPath,GroundTruthPath,MatchRule,Confidence,Reason"


def test_every_kind_of_row(tmp_path: Path) -> None:
    rows = (
        pairing(confidence=0.5),
        pairing(),
        unpaired_tensor(target=tensor(path="/target/other")),
        unpaired_operator(of=label("=op", "*", 4, "")),
    )
    write_mapping(rows, str(tmp_path / "mapping.csv"))
    assert (tmp_path / "mapping.csv").read_bytes().decode().split("\r\n") == [
        f"Index,{PAIR_HEADER}",
        "3,Conv2D,conv1,conv1,conv1:output:0,/target/file,/golden/file,named in the rule file,0.500000,",
        "3,Conv2D,conv1,conv1,conv1:output:0,/target/file,/golden/file,named in the rule file,1.000000,",
        "3,Conv2D,conv1,conv1,conv1:input:0,/target/other,NaN,,,no golden file",
        "4,NaN,'=op,*,NaN,NaN,NaN,,,no dump file",
        "",
    ]


def test_sequence_column(tmp_path: Path) -> None:
    write_mapping((unpaired_operator(),), str(tmp_path / "mapping.csv"), sequence=True)
    assert (tmp_path / "mapping.csv").read_text().splitlines() == [
        f"Index,OpSequence,{PAIR_HEADER}",
        "3,12,Conv2D,conv1,conv1,NaN,NaN,NaN,,,no dump file",
    ]


# The page


def test_every_column_is_documented(tmp_path: Path) -> None:
    shown = replace(comparison(target=NPU, golden=NPU), view=TableView(sequence=True, overflow=True))
    header = table(shown, tmp_path, SelectedMetrics(()))[0]
    assert re.findall(r"^\| `([A-Za-z0-9()]+)` \|", _columns_of_page(), re.MULTILINE) == header


def _columns_of_page() -> str:
    text = PAGE.read_text()
    return text[text.index("### Documented columns") : text.index("### Rows without numbers")]
