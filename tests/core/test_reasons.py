"""Reasons are values; the catalogue has both sentences of every code that the program uses."""

from __future__ import annotations

import ast
import json
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opdiff.core.reasons import (
    Language,
    Reason,
    all_of,
    because,
    catalogue,
    is_known,
    kind_of,
    quoted,
    render,
    render_all,
    show,
    template,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[2] / "src" / "opdiff"


def reasons_in(path: Path) -> Iterator[ast.Call]:
    """The calls of `because` in a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "because":
            yield node


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_codes_and_facts_in_the_source_are_those_of_the_catalogue(path: Path) -> None:
    facts: dict[str, set[str]] = {}
    for call in reasons_in(path):
        strings = [each.value for each in ast.walk(call.args[0]) if isinstance(each, ast.Constant)]
        assert {code for code in strings if isinstance(code, str)} <= set(catalogue())
        if isinstance(call.args[0], ast.Constant) and all(keyword.arg for keyword in call.keywords):
            facts.setdefault(str(strings[0]), set()).update(str(keyword.arg) for keyword in call.keywords)
    for code, given in facts.items():
        assert {name for _, name, _ in template(code, Language.ENGLISH) if name} <= given, code


@pytest.mark.parametrize("code", sorted(catalogue()))
def test_templates_of_both_languages_have_the_same_facts(code: str) -> None:
    english, chinese = ({name for _, name, _ in template(code, language) if name} for language in Language)
    assert english == chinese
    assert set(catalogue()[code]) == set(Language)


@pytest.mark.parametrize("path", sorted((SOURCE / "core" / "catalogue").glob("*.json")), ids=lambda path: path.stem)
def test_no_code_is_in_the_catalogue_twice(path: Path) -> None:
    def codes(pairs: list[tuple[str, object]]) -> list[str]:
        return [name for name, _ in pairs]

    found = json.loads(path.read_text(), object_pairs_hook=codes)
    assert sorted(found) == sorted(set(found))


def test_reasons_are_joined_in_their_language() -> None:
    first, second = quoted("a"), quoted("b")
    reason = all_of([first, second, first])
    assert all_of([first, first]) == first
    assert str(reason) == render_all([first, second, first]) == "a; b"
    assert render(reason, Language.CHINESE) == "a\uff1bb"
    assert (reason.fact("reasons"), reason.fact("other")) == ((first, second), None)


def test_reasons_are_picklable_and_hashable() -> None:
    reason = because("core.text", text="a")
    assert pickle.loads(pickle.dumps(reason)) == reason  # noqa: S301  our own bytes
    assert {reason: 1}[because("core.text", text="a")] == 1


@pytest.mark.parametrize(
    ("fact", "spec", "text"),
    [
        (None, "", ""),
        (0.012345, ".3g", "0.0123"),
        (0.5, ".2%", "50.00%"),
        ((1, 16), "shape", "[1, 16]"),
        ((), "shape", "[]"),
        (((1, 16), (2,)), "shape", "[1, 16], [2]"),
        ((), "", "none"),
        ((quoted("a"), quoted("b")), "", "a; b"),
        ("input", "word", "input"),
        ("no such word", "word", "no such word"),
        (("a", "b"), "", "a, b"),
        (1, "plural element", "1 element"),
        (3, "plural element", "3 elements"),
        ("not a number", ".3g", "not a number"),
    ],
)
def test_facts_are_formatted_by_the_template(fact: object, spec: str, text: str) -> None:
    assert show(fact, spec) == text  # type: ignore[arg-type]  # one of each kind


def test_unknown_code_is_rendered_with_its_facts() -> None:
    assert str(Reason("later.code", (("count", 3),))) == "later.code (count: 3)"


def test_words_are_translated() -> None:
    reason = because("pair.no_file", side="golden", name="conv1")
    assert render(reason, Language.CHINESE) == "标杆转储中没有算子 conv1 的文件"


def test_kind_ignores_names_and_numbers() -> None:
    def reason(name: str, index: int) -> Reason:
        missing = because("pair.no_file", side="golden", name=name)
        return because("pair.but", evidence=because("pair.output_is", index=index, origin="x:0"), problem=missing)

    assert kind_of(reason("a", 0)) == kind_of(reason("b", 1)) == ("pair.but", "pair.output_is", "pair.no_file")
    assert kind_of(all_of([reason("a", 0), quoted("b")])) != kind_of(all_of([reason("a", 0), quoted("c")]))


def test_integers_too_long_for_python_to_write_are_shown_by_magnitude() -> None:
    reason = because("workflows.too_few_bytes", needed=4 * (2**63 - 1) ** 300, stored=16)
    for language in Language:
        assert "2^18902" in render(reason, language)


CODES_OF_FILES = {
    "file": "{folder}/secret.key",
    "relative path": "../../../../../../../../..{folder}/secret.key",
    "pipe": "{folder}/pipe.key",
    "surrogate": "\ud800.key",
    "null": "a\0.key",
    "attribute": "{{facts.__class__}}",
    "width": "{{text:>99999999999}}.key",
    "old format": "%(text)99999999999s",
    "word": "word.{{text}}",
    "no word": "word.",
    "point": ".",
    "empty": "",
    "long": "a" * 5000 + ".key",
}


@pytest.mark.parametrize("code", CODES_OF_FILES.values(), ids=CODES_OF_FILES)
def test_a_code_of_a_file_names_no_other_file_and_no_format(code: str, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"key": {"en": "private {text:>99}", "zh": "private"}}')
    os.mkfifo(tmp_path / "pipe.json")
    code = code.format(folder=tmp_path)
    assert not is_known(code)
    for language in Language:
        assert render(Reason(code, (("text", 1),)), language) == f"{code} (text: 1)"
        assert show(code, "word", language) == code


def test_facts_are_no_formats() -> None:
    assert str(quoted("{0.__class__} {x:>99} %s")) == "{0.__class__} {x:>99} %s"
    assert str(because("core.text", text=(("{a}", None), 1))) == "{a}, , 1"
