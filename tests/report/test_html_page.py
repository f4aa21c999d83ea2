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
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.core.reasons import Language, because, render
from opdiff.report.changes import find_changes
from opdiff.report.html_page import write_html
from opdiff.report.payload import pack
from report.test_packing import numbers, raw_document, sentences, unpacked

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison


def column(found: tuple[dict[str, Any], bytes], *names: str) -> list[Any]:
    document, data = found
    packed: Any = document
    for name in names:
        packed = packed[name]
    return numbers(packed, data)


def texts(found: tuple[dict[str, Any], bytes], *names: str) -> list[str]:
    return [found[0]["texts"][number] for number in column(found, *names)]


def test_rows_levels_and_metrics_are_included() -> None:
    found = unpacked(pack(judged_comparison(row("a"), not_compared("b"), row("c", **BAD))))
    assert texts(found, "rows", "target") == ["a", "b", "c"]
    assert column(found, "rows", "level") == [2, 5, 4]
    assert column(found, "metrics", "rows") == [0, 2]
    assert column(found, "metrics", "columns", "cosine") == [0.999999, 0.5]
    assert texts(found, "rows", "reason")[1] == "no dump file"
    assert found[0]["edges"] == {"relative": list(RELATIVE_EDGES), "ulp": list(ULP_EDGES)}
    assert found[0]["story"]["first"] == "c"
    # Data of graph mode is absent from offline reports.
    assert "graphMode" not in found[0]


def test_the_reasons_of_rows_have_their_chinese_sentences() -> None:
    evidence, reason = because("pair.output_is", index=0, origin="a:0"), because("pair.no_tensor")
    step = because("align.padding_cut", count=3)
    rows = replace(row("a"), evidence=evidence, steps=(step,)), failed_operator(reason)
    document = raw_document(pack(judged_comparison(*rows)))
    chinese = [sentence for text in document["texts"] if isinstance(text, list)
               for sentence in sentences(text, document, Language.CHINESE)]  # fmt: skip
    for found in (evidence, reason, step):
        assert render(found, Language.CHINESE) in chinese
    scenario = sentences(document["scenario"], document, Language.CHINESE)
    assert scenario == [render(because("pair.scenario_original"), Language.CHINESE)]


def test_levels_are_those_of_the_judgement() -> None:
    found = unpacked(pack(with_judgement()))
    assert column(found, "rows", "level") == [0, 4, 4, 2]
    assert column(found, "rows", "origin") == [0, 1, 2, 0]
    assert column(found, "rows", "excess") == [None, 7.5, None, None]
    (finding,) = found[0]["story"]["findings"]
    assert (finding["kind"], finding["share"], finding["path"]) == ("scale", 0.93, ["b", "c"])
    # The card of the finding says it; the headline does not repeat it.
    assert found[0]["story"]["advice"] == []
    assert sentences(finding["remedies"], found[0], Language.CHINESE) == [render(FAULT.remedies[0], Language.CHINESE)]
    assert column(found, "graph", "fanIn") == [0, 2, 1, 2]
    assert column(found, "graph", "inputs") == [0, -1, 1, 2, 0]


@pytest.mark.parametrize("is_proved", [False, True])
def test_findings_are_marked_as_proved(is_proved: bool) -> None:
    comparison = with_judgement()
    judgement = replace(comparison.judgement, findings=(replace(FAULT, is_proved=is_proved),))
    found = unpacked(pack(replace(comparison, judgement=judgement)))
    assert [finding["proved"] for finding in found[0]["story"]["findings"]] == [is_proved]


def test_changes_are_included_if_given() -> None:
    old, new = judged_comparison(row("a")), judged_comparison(row("a", **BAD))
    found = unpacked(pack(new, find_changes(old, new)))
    assert texts(found, "changes", "kind") == ["worse"]
    assert "changes" not in unpacked(pack(new))[0]


@given(comparisons)
def test_every_comparison_can_be_packed(made: Comparison) -> None:
    document, _ = unpacked(pack(made))
    assert document["rows"]["count"] == len(made.rows)


def test_page_contains_the_data(tmp_path: Path) -> None:
    write_html(judged_comparison(row("</script><script>alert(1)")), str(tmp_path / "report.html"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="text/plain" id="data">([A-Za-z0-9+/=]+)</script>', page)
    assert unpacked(base64.b64decode(data))[0]["rows"]["count"] == 1
    assert "alert(1)" not in page


def test_reports_are_small(tmp_path: Path) -> None:
    write_html(many_rows(3000), str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").stat().st_size < 1_000_000 + 300 * 3000
