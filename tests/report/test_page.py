"""The HTML report: its page is built from its source, and safe; its data is complete and small."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from msgspec.structs import replace

from made_comparisons import comparisons, failed_operator
from made_reports import BAD, FAULT, judged_comparison, many_rows, not_compared, row, with_judgement
from opdiff.core.comparison import Mode
from opdiff.core.dump import Unit
from opdiff.core.judgement import Colour, DocumentedResult, ErrorKind
from opdiff.core.metrics import RELATIVE_EDGES, ULP_EDGES
from opdiff.core.reasons import Language, Reason, because, catalogue, quoted, render, template
from opdiff.core.tensor import Slot, TensorKey
from opdiff.report.changes import find_changes
from opdiff.report.html_page import PAGE, write_html
from opdiff.report.page_text import ReasonEncoder, page_text
from page_data import PageData, pack, raw_document, sentences

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "web"
PAGE_TEXT = Path(PAGE).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with its build tools."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here: the page of the report cannot be built again")
    folder = tmp_path_factory.mktemp("web") / "web"
    shutil.copytree(WEB, folder, ignore=shutil.ignore_patterns("node_modules"))
    done = subprocess.run([npm, "ci", "--silent", "--ignore-scripts"], cwd=folder, check=False, capture_output=True)
    if done.returncode:
        pytest.skip("npm cannot get its packages here: the page of the report cannot be built again")
    return folder


def node(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["node", *arguments], cwd=folder, check=False, capture_output=True, text=True)  # noqa: S607  the one of this machine
    assert done.returncode == 0, done.stdout + done.stderr


def test_page_is_built_from_the_source(build_folder: Path) -> None:
    node(build_folder, "build.mjs", "built.html")
    assert (build_folder / "built.html").read_text(encoding="utf-8") == PAGE_TEXT, "run `make web`, and commit the page"


def test_source_passes_its_checks(build_folder: Path) -> None:
    node(build_folder, "node_modules/typescript/bin/tsc", "--noEmit")
    node(build_folder, "--test")


REASONS = (
    because("core.text", text="one"),
    because("judge.relative_error_allowed", error=0.012345, allowed=0.5),
    because("core.all", reasons=(quoted("one"), quoted("two"))),
    *(Reason(code, tuple((name, f"<{name}>") for _, name, _ in template(code, Language.ENGLISH) if name))
      for code in sorted(catalogue())),
)  # fmt: skip


@pytest.mark.parametrize("language", list(Language))
def test_page_renders_the_same_sentences_as_python(build_folder: Path, language: Language) -> None:
    encoder = ReasonEncoder()
    known = [reason for reason in REASONS if reason.code in catalogue()]
    encoded = {
        "reasons": [encoder.encode(reason) for reason in known],
        "templates": encoder.templates,
        "language": language,
    }
    (build_folder / "reasons.json").write_text(json.dumps(encoded))
    (build_folder / "say.mjs").write_text("""
        import { readFileSync, writeFileSync } from "node:fs";
        import { build } from "esbuild";
        await build({ entryPoints: ["src/sentences.ts"], bundle: true, format: "esm", outfile: "sentences.mjs" });
        const { sentence } = await import("./sentences.mjs");
        const { reasons, templates, language } = JSON.parse(readFileSync("reasons.json", "utf8"));
        writeFileSync("shown.json", JSON.stringify(reasons.map((each) => sentence(each, templates, language))));
    """)
    node(build_folder, "say.mjs")
    shown = json.loads((build_folder / "shown.json").read_text(encoding="utf-8"))
    assert shown == [page_text(render(reason, language)) for reason in known]


def test_content_security_policy() -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', PAGE_TEXT)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for name, pattern in (("script-src", r"<script>(.*?)</script>"), ("style-src", r"<style>(.*?)</style>")):
        (content,) = re.findall(pattern, PAGE_TEXT, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_page_has_no_external_addresses() -> None:
    assert not re.search(r"https?://|//[a-z]+\.[a-z]", PAGE_TEXT)
    assert PAGE_TEXT.count("@@data@@") == 1
    assert len(PAGE_TEXT) < 200_000


def test_source_never_parses_strings_as_html() -> None:
    sources = sorted(WEB.glob("src/**/*.ts"))
    assert len(sources) > 15
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path.name
        assert len(text.splitlines()) <= 400, path.name


def test_every_kind_of_error_has_a_name_on_the_page() -> None:
    named = re.findall(r"finding_([a-z]+): ", (WEB / "src" / "texts.ts").read_text(encoding="utf-8"))
    assert sorted(named) == sorted([*ErrorKind, *ErrorKind])  # in both languages


def test_packages_are_pinned_and_name_no_registry() -> None:
    lock = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert '"integrity": "sha512-' in lock
    assert "resolved" not in lock
    assert "://" not in lock.replace("https://opencollective", "")


# Data of a report


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
