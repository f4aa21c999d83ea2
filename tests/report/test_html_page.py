"""Data of the HTML report: complete, small, and written quickly."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from made_comparisons import comparisons, failed_operator
from made_reports import BAD, FAULT, judged_comparison, many_rows, not_compared, row, with_judgement
from opdiff.core.comparison import Mode
from opdiff.core.dump import Unit
from opdiff.core.judgement import Colour, DocumentedResult
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.core.reasons import Language, because, render
from opdiff.core.tensor import Slot, TensorKey
from opdiff.report.changes import find_changes
from opdiff.report.html_page import write_html
from opdiff.report.payload import pack
from opdiff.report.printable import printable
from report.test_packing import numbers, raw_document, sentences, unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison
    from opdiff.report.changes import Changes


Unpacked = tuple[dict[str, Any], bytes]


class Page:
    """The unpacked data of a page: of all rows, and of each block. Strings of blocks follow those of all rows."""

    def __init__(self, comparison: Comparison, changes: Changes | None = None) -> None:
        blocks: list[bytes] = []
        self.all = unpacked(pack(comparison, blocks.append, changes))
        self.blocks = [unpacked(block) for block in blocks]

    def column(self, *names: str) -> list[Any]:
        """Return a column of all rows."""
        return _column(self.all, names)

    def texts(self, *names: str) -> list[str]:
        return [self.all[0]["texts"][number] for number in self.column(*names)]

    def block_column(self, *names: str) -> list[Any]:
        """Return a column of the rows of all blocks."""
        return [value for block in self.blocks for value in _column(block, names)]

    def block_texts(self, *names: str) -> list[str]:
        return [self._text(block[0], number) for block in self.blocks for number in _column(block, names)]

    def _text(self, block: dict[str, Any], number: int) -> str:
        shared = block["shared"]
        text: str = self.all[0]["texts"][number] if number < shared else block["texts"][number - shared]
        return text


def _column(found: Unpacked, names: tuple[str, ...]) -> list[Any]:
    document, data = found
    packed: Any = document
    for name in names:
        packed = packed[name]
    return numbers(packed, data)


def test_rows_levels_and_metrics_are_included() -> None:
    page = Page(judged_comparison(row("a"), not_compared("b"), row("c", **BAD)))
    assert page.block_texts("rows", "target") == ["a", "b", "c"]
    assert page.column("rows", "level") == [2, 5, 4]
    assert page.block_column("metrics", "rows") == [0, 2]
    assert page.block_column("metrics", "columns", "cosine") == [0.999999, 0.5]
    assert page.block_texts("rows", "reason")[1] == "no dump file"
    document = page.all[0]
    assert document["edges"] == {"relative": list(RELATIVE_EDGES), "ulp": list(ULP_EDGES)}
    assert (document["story"]["first"], document["story"]["only"]) == ("c", "c")
    assert document["blocks"] == [3]
    # Data of graph mode is absent from offline reports.
    assert "graphMode" not in document
    assert "graphMode" not in page.blocks[0][0]


def test_kinds_of_reasons_are_counted_for_all_rows() -> None:
    rows = [failed_operator(because("align.padding_cut", count=count)) for count in (1, 2)]
    page = Page(judged_comparison(*rows, row("a"), not_compared("b", "lost"), not_compared("c", "lost")))
    assert page.column("missing", "kind") == [0, 0, 1, 1]
    examples = [sentences(kind, page.all[0]) for kind in page.all[0]["missing"]["kinds"]]
    assert examples == [[render(because("align.padding_cut", count=1))], ["lost"]]


def test_the_reasons_of_rows_have_their_chinese_sentences() -> None:
    evidence, reason = because("pair.output_is", index=0, origin="a:0"), because("pair.no_tensor")
    step = because("align.padding_cut", count=3)
    rows = replace(row("a"), evidence=evidence, steps=(step,)), failed_operator(reason)
    document = raw_document(pack(judged_comparison(*rows), list[bytes]().append))
    chinese = [sentence for text in document["texts"] if isinstance(text, list)
               for sentence in sentences(text, document, Language.CHINESE)]  # fmt: skip
    for found in (evidence, reason, step):
        assert render(found, Language.CHINESE) in chinese
    scenario = sentences(document["scenario"], document, Language.CHINESE)
    assert scenario == [render(because("pair.scenario_original"), Language.CHINESE)]


def test_levels_are_those_of_the_judgement() -> None:
    page = Page(with_judgement())
    assert page.column("rows", "level") == [0, 4, 4, 2]
    assert page.column("rows", "origin") == [0, 1, 2, 0]
    assert page.block_column("rows", "excess") == [None, 7.5, None, None]
    document = page.all[0]
    (finding,) = document["story"]["findings"]
    assert (finding["kind"], finding["share"], finding["path"]) == ("scale", 0.93, ["b", "c"])
    assert document["findings"] == [{"units": [], "row": 1}]
    # The card of the finding says it; the headline does not repeat it.
    assert document["story"]["advice"] == []
    assert sentences(finding["remedies"], document, Language.CHINESE) == [render(FAULT.remedies[0], Language.CHINESE)]
    assert page.column("graph", "fanIn") == [0, 2, 1, 2]
    assert page.column("graph", "inputs") == [0, -1, 1, 2, 0]


@pytest.mark.parametrize("is_proved", [False, True])
def test_findings_are_marked_as_proved(is_proved: bool) -> None:
    comparison = with_judgement()
    judgement = replace(comparison.judgement, findings=(replace(FAULT, is_proved=is_proved),))
    document, _ = unpacked(pack(replace(comparison, judgement=judgement), list[bytes]().append))
    assert [finding["proved"] for finding in document["story"]["findings"]] == [is_proved]


def test_changes_are_included_if_given() -> None:
    old, new = judged_comparison(row("a")), judged_comparison(row("a", **BAD))
    assert Page(new, find_changes(old, new)).texts("changes", "kind") == ["worse"]
    assert "changes" not in Page(new).all[0]


@given(comparisons)
def test_every_comparison_can_be_packed(made: Comparison) -> None:
    page = Page(made)
    assert sum(page.all[0]["blocks"]) == len(page.column("rows", "level")) == len(made.rows)
    assert page.block_texts("rows", "target") == [printable(row.label.target) for row in made.rows]


@pytest.mark.parametrize(
    ("lengths", "blocks"),
    [
        # Units of a thousand rows and more have blocks of their own; smaller ones share one.
        ((1000, 1000), [1000, 1000]),
        ((999, 1, 999), [1000, 999]),
        ((400, 400, 400, 400), [1200, 400]),
        # A longer unit is divided.
        ((20_500, 700), [20_000, 1200]),
        ((0,), [0]),
    ],
)
def test_blocks_end_with_units(lengths: tuple[int, ...], blocks: list[int]) -> None:
    made = many_units(lengths)
    page = Page(made)
    document = page.all[0]
    assert document["blocks"] == blocks
    units = [unit for unit, count in document["unitRuns"] for _ in range(count)]
    assert units == [number for number, length in enumerate(lengths) for _ in range(length)]
    assert page.block_texts("rows", "target") == [row.label.target for row in made.rows]
    assert page.block_column("rows", "index") == [row.label.index for row in made.rows]


def test_strings_of_the_first_block_are_shared_with_the_others() -> None:
    page = Page(many_units((1000, 1000, 1000)))
    assert [len(block["texts"]) for block, _ in page.blocks] == [0, 1, 1]
    assert page.block_texts("rows", "operator") == 3 * [f"op_{number}" for number in range(1000)]


def many_units(lengths: tuple[int, ...]) -> Comparison:
    """Return a comparison in graph mode; operators have the same names in all units but for the first one."""
    template = row("x")
    rows = [
        replace(
            template,
            label=replace(template.label, index=number, target=f"op_{number}" if number else f"first_{token}"),
            key=TensorKey(f"op_{number}", Slot.OUTPUT, 0),
            unit=Unit(0, token, 1),
        )
        for token, length in enumerate(lengths)
        for number in range(length)
    ]
    made = judged_comparison(*rows)
    documented = tuple(DocumentedResult("PASS", "", Colour.NONE) for _ in rows)
    return replace(made, mode=Mode.GRAPH, judgement=replace(made.judgement, documented=documented))


def test_page_contains_the_data(tmp_path: Path) -> None:
    write_html(judged_comparison(row("</script><script>alert(1)")), str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for name in ("data", "block-0"):
        (data,) = re.findall(rf'<script type="text/plain" id="{name}">([A-Za-z0-9+/=]+)</script>', page)
        assert unpacked(base64.b64decode(data))[0]["rows"]
    assert "alert(1)" not in page


def test_reports_are_small(tmp_path: Path) -> None:
    write_html(many_rows(3000), str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size < 1_000_000 + 300 * 3000
