"""Data of the HTML report: complete, small, and written quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from opdiff.report.page_text import page_text
from page_data import PageData, pack, raw_document, sentences

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison


def test_rows_levels_and_metrics_are_included() -> None:
    page = PageData.of(judged_comparison(row("a"), not_compared("b"), row("c", **BAD)))
    assert page.block_texts("rows", "target") == ["a", "b", "c"]
    assert page.column("rows", "level") == [2, 5, 4]
    assert page.block_column("metrics", "rows") == [0, 2]
    assert page.block_column("metrics", "columns", "cosine") == [0.999999, 0.5]
    assert page.block_texts("rows", "reason")[1] == "no dump file"
    document = page.document
    assert document["edges"] == {"relative": list(RELATIVE_EDGES), "ulp": list(ULP_EDGES)}
    assert (document["story"]["first"], document["story"]["only"]) == ("c", "c")
    assert document["blocks"] == [3]
    # Data of graph mode is absent from offline reports.
    assert "graphMode" not in document
    assert "graphMode" not in page.blocks[0][0]


def test_kinds_of_reasons_are_counted_for_all_rows() -> None:
    rows = [failed_operator(because("align.padding_cut", count=count)) for count in (1, 2)]
    page = PageData.of(judged_comparison(*rows, row("a"), not_compared("b", "lost"), not_compared("c", "lost")))
    assert page.column("missing", "kind") == [0, 0, 1, 1]
    examples = [sentences(kind, page.document) for kind in page.document["missing"]["kinds"]]
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
    made = with_judgement()
    proved = replace(made.judgement, findings=(replace(FAULT, is_proved=True),))
    assert PageData.of(replace(made, judgement=proved)).document["story"]["findings"][0]["proved"]
    page = PageData.of(made)
    assert page.column("rows", "level") == [0, 4, 4, 2]
    assert page.column("rows", "origin") == [0, 1, 2, 0]
    assert page.block_column("rows", "excess") == [None, 7.5, None, None]
    document = page.document
    (finding,) = document["story"]["findings"]
    assert (finding["kind"], finding["share"], finding["path"]) == ("scale", 0.93, ["b", "c"])
    assert not finding["proved"]
    assert document["findings"] == [{"units": [], "row": 1}]
    # The card of the finding says it; the headline does not repeat it.
    assert document["story"]["advice"] == []
    assert sentences(finding["remedies"], document, Language.CHINESE) == [render(FAULT.remedies[0], Language.CHINESE)]
    assert page.column("graph", "fanIn") == [0, 2, 1, 2]
    assert page.column("graph", "inputs") == [0, -1, 1, 2, 0]


def test_changes_are_included_if_given() -> None:
    old, new = judged_comparison(row("a")), judged_comparison(row("a", **BAD))
    assert PageData.of(new, find_changes(old, new)).texts("changes", "kind") == ["worse"]
    assert "changes" not in PageData.of(new).document


@given(comparisons)
def test_every_comparison_can_be_packed(made: Comparison) -> None:
    page = PageData.of(made)
    assert sum(page.document["blocks"]) == len(page.column("rows", "level")) == len(made.rows)
    assert page.block_texts("rows", "target") == [page_text(row.label.target) for row in made.rows]


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
    page = PageData.of(made)
    document = page.document
    assert document["blocks"] == blocks
    assert page.units() == [number for number, length in enumerate(lengths) for _ in range(length)]
    assert page.block_texts("rows", "target") == [row.label.target for row in made.rows]
    assert page.block_column("rows", "index") == [row.label.index for row in made.rows]
    assert page.rows_with("metrics") == list(range(len(made.rows)))


def test_strings_of_the_first_block_are_shared_with_the_others() -> None:
    page = PageData.of(many_units((1000, 1000, 1000)))
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
    page = PageData.read(tmp_path / "report.html")
    assert page.column("rows", "level") == [2]
    assert page.block_texts("rows", "target") == ["</script><script>alert(1)"]
    assert "alert(1)" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_reports_are_small(tmp_path: Path) -> None:
    write_html(many_rows(3000), str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size < 1_000_000 + 300 * 3000
