"""The page of the report: built from its source, and safe."""

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
from opdiff.core.reasons import Language, Reason, because, catalogue, quoted, render, template
from opdiff.report.html_page import PAGE
from opdiff.report.page_text import ReasonEncoder, page_text

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
