"""The page of the report: built from its source, safe by itself, filled quickly."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from opdiff.core.judgement import ErrorKind
from opdiff.core.sentences import TABLE, in_chinese
from opdiff.pair.scenario import Scenario
from opdiff.report.html_page import PAGE

ROOT = Path(__file__).parent.parent.parent
WEB = ROOT / "web"
PAGE_TEXT = Path(PAGE).read_text(encoding="utf-8")
SENTENCES = [
    text for text in json.loads(Path(TABLE).read_text(encoding="utf-8"))["sentences"] if "{SOURCE}" not in text
]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the tools that build it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here: the page of the report cannot be built again")
    folder = tmp_path_factory.mktemp("web") / "web"
    shutil.copytree(WEB, folder, ignore=shutil.ignore_patterns("node_modules"))
    table = folder.parent / "src" / "opdiff" / "sentences.json"
    table.parent.mkdir(parents=True)
    shutil.copy(TABLE, table)
    done = subprocess.run([npm, "ci", "--silent", "--ignore-scripts"], cwd=folder, check=False, capture_output=True)
    if done.returncode:
        pytest.skip("npm cannot get its packages here: the page of the report cannot be built again")
    return folder


def node(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["node", *arguments], cwd=folder, check=False, capture_output=True, text=True)  # noqa: S607  the one of this machine
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_is_what_the_source_builds(workshop: Path) -> None:
    node(workshop, "build.mjs", "built.html")
    assert (workshop / "built.html").read_text(encoding="utf-8") == PAGE_TEXT, "run `make web`, and commit the page"


def test_the_source_is_sound(workshop: Path) -> None:
    node(workshop, "node_modules/typescript/bin/tsc", "--noEmit")
    node(workshop, "--test")


SAID = [
    "the target is 2 times the golden tensor",
    "conv1 is fused from a, b; output 0 is c:0, but the golden side has no file of c; the nearest name is d",
    "input 0 comes from cast, which passes on trans, which passes on images:0",
    "/a/b.npy: the data ends inside field the section of inputs (byte 12)",
    "NC1HWC0 [1, 1, 4, 4, 16] -> NCHW [1, 3, 4, 4], 208 padding elements cut",
    "relative error 0.5, centred cosine not defined",
    "12.50% of the indices are unequal, 1.00% allowed",
    "a word of your own: nothing that is known",
    "",
]


def test_the_page_says_in_chinese_what_python_says(workshop: Path) -> None:
    (workshop / "said.json").write_text(json.dumps([*SAID, *(sentence.format(*"abcdef") for sentence in SENTENCES)]))
    (workshop / "say.mjs").write_text("""
        import { readFileSync, writeFileSync } from "node:fs";
        import { build } from "esbuild";
        await build({ entryPoints: ["src/sentences.ts"], bundle: true, format: "esm", outfile: "told.mjs" });
        const { inChinese } = await import("./told.mjs");
        writeFileSync("told.json", JSON.stringify(JSON.parse(readFileSync("said.json", "utf8")).map(inChinese)));
    """)
    node(workshop, "say.mjs")
    said = json.loads((workshop / "said.json").read_text())
    told = json.loads((workshop / "told.json").read_text(encoding="utf-8"))
    assert told == [in_chinese(text) for text in said]


def test_only_its_own_script_and_style_may_run() -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', PAGE_TEXT)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for name, pattern in (("script-src", r"<script>(.*?)</script>"), ("style-src", r"<style>(.*?)</style>")):
        (content,) = re.findall(pattern, PAGE_TEXT, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_the_page_names_no_other_place() -> None:
    assert not re.search(r"https?://|//[a-z]+\.[a-z]", PAGE_TEXT)
    assert PAGE_TEXT.count("@@data@@") == 1
    assert len(PAGE_TEXT) < 200_000


def test_nothing_in_the_source_makes_elements_of_texts() -> None:
    sources = sorted(WEB.glob("src/**/*.ts"))
    assert len(sources) > 15
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path.name
        assert len(text.splitlines()) <= 400, path.name


def test_every_kind_of_error_has_a_name_on_the_page() -> None:
    named = re.findall(r"finding_([a-z]+): ", (WEB / "src" / "texts.ts").read_text(encoding="utf-8"))
    assert sorted(named) == sorted([*ErrorKind, *ErrorKind])  # in both languages


def test_every_scenario_has_a_name_in_chinese() -> None:
    source = (WEB / "src" / "texts.ts").read_text(encoding="utf-8")
    assert [scenario for scenario in Scenario if f'"{scenario.reason}": "' not in source] == []


def test_packages_are_pinned_and_come_from_no_named_place() -> None:
    lock = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert '"integrity": "sha512-' in lock
    assert "resolved" not in lock
    assert "://" not in lock.replace("https://opencollective", "")
