"""Saved comparisons: what is saved is loaded, and what is not one is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_comparisons import comparison, comparisons, failed_operator, measured, pairing
from opdiff.core.errors import InputError
from opdiff.core.reasons import because, quoted
from opdiff.report import load, save, saved

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Comparison


def strict(text: bytes) -> Any:
    """JSON as parsers read it that know no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


@given(comparisons)
def test_what_is_saved_is_loaded(tmp_path_factory: pytest.TempPathFactory, of: Comparison) -> None:
    path = tmp_path_factory.mktemp("json") / "saved.json"
    save(of, str(path), made_by="a test")
    # By their texts, since NaN is not equal to itself.
    assert repr(load(str(path))) == repr(saved(of))
    assert strict(path.read_bytes())["made_by"] == "a test"


def test_saving_again_changes_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    save(comparison(measured(), failed_operator()), str(first))
    save(load(str(first)), str(second))
    assert second.read_bytes() == first.read_bytes()


def test_every_row_has_its_line(tmp_path: Path) -> None:
    save(comparison(measured(), failed_operator()), str(tmp_path / "saved.json"))
    lines = (tmp_path / "saved.json").read_text().splitlines()
    assert len(lines) == 4
    assert json.loads(lines[1].removesuffix(","))["metrics"]["kl_divergence"] == 1.5e-8


def document() -> Any:
    return {
        "schema": "opdiff.comparison",
        "version": 2,
        "made_by": "",
        "target": {"path": "a", "kind": "npu", "quantized": False},
        "golden": {"path": "b", "kind": "npy", "quantized": False},
        "scenario": "x",
        "rows": [{"label": {"index": 1, "sequence": 2, "op_type": "t", "target": "t", "golden": "g"}}],
    }


def test_reasons_are_saved_as_code_facts_and_sentence(tmp_path: Path) -> None:
    evidence = because("pair.fused_from", name="conv1", originals=("conv", "bn"))
    save(comparison(measured(pairing(evidence=evidence))), str(tmp_path / "saved.json"))
    row = json.loads((tmp_path / "saved.json").read_text())["rows"][0]
    assert row["evidence"] == {
        "code": "pair.fused_from",
        "facts": {"name": "conv1", "originals": ["conv", "bn"]},
        "text": "conv1 is fused from conv, bn",
    }
    assert load(str(tmp_path / "saved.json")).rows[0].evidence == evidence


def test_sentences_of_version_1_are_quoted(tmp_path: Path) -> None:
    older = document() | {"version": 1}
    older["rows"][0] |= {"reason": "", "rule": "equal names"}
    (tmp_path / "saved.json").write_text(json.dumps(older))
    loaded = load(str(tmp_path / "saved.json"))
    (row,) = loaded.rows
    assert (loaded.scenario, row.reason, row.evidence) == (quoted("x"), None, quoted("equal names"))


def test_fields_with_a_default_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(json.dumps(document()))
    (row,) = load(str(tmp_path / "saved.json")).rows
    assert (row.label.target, row.metrics, row.steps) == ("t", None, ())


WRONG: dict[str, tuple[tuple[str | int, ...], object, str]] = {
    "schema": (("schema",), "other", "it does not say that its schema is 'opdiff.comparison'"),
    "version": (("version",), 3, "it is of version 3; versions 1 and 2 can be read"),
    "unknown_field": (("target", "more"), 1, "Side has not exactly its fields: more"),
    "kind": (("target", "kind"), "gpu", "'gpu' is not a valid DumpKind"),
    "not_an_object": (("target",), [], "[] stands where Side should"),
    "not_a_list": (("rows",), {}, "{} cannot be SavedComparison.rows"),
    "text_for_number": (("rows", 0, "label", "index"), "1", '"1" cannot be OpLabel.index'),
    "bool_for_number": (("rows", 0, "label", "index"), True, "true cannot be OpLabel.index"),
    "float_for_int": (("rows", 0, "target_address"), 1.5, "1.5 cannot be ReportRow.target_address"),
    "word_for_number": (("rows", 0, "confidence"), "many", '"many" cannot be ReportRow.confidence'),
    "reason": (("rows", 0, "reason"), {"code": 1}, '{"code": 1} cannot be ReportRow.reason'),
    "null": (("scenario",), None, "null cannot be SavedComparison.scenario"),
    "shape": (("rows", 0, "shape"), [1, "2"], '[1, "2"] cannot be ReportRow.shape'),
    "custom": (("rows", 0, "custom"), [["a", "b"]], '[["a", "b"]] cannot be ReportRow.custom'),
    "metrics": (("rows", 0, "metrics"), {}, "Metrics has not exactly its fields: count, cosine,"),
}


@pytest.mark.parametrize(("place", "value", "message"), WRONG.values(), ids=WRONG)
def test_wrong_documents_are_refused(place: tuple[str | int, ...], value: object, message: str, tmp_path: Path) -> None:
    whole = document()
    inner = whole
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    (tmp_path / "saved.json").write_text(json.dumps(whole))
    with pytest.raises(InputError) as caught:
        load(str(tmp_path / "saved.json"))
    assert str(caught.value).startswith(f"{tmp_path}/saved.json: is not a saved comparison: {message}")


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"\xff\xfe", b'{"schema": NaN}', b"[" * 100_000, b"null"], ids=lambda data: repr(data[:9])
)
def test_other_files_are_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_bytes(data)
    with pytest.raises(InputError, match="is not a saved comparison"):
        load(str(tmp_path / "saved.json"))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2)
)


@given(st.sampled_from([*document(), "rows.label", "rows.metrics", "rows.key", "rows.shape"]), _JSON)
def test_anything_is_loaded_or_refused(tmp_path_factory: pytest.TempPathFactory, place: str, value: object) -> None:
    whole = document()
    outer, _, inner = place.partition(".")
    if inner:
        whole["rows"][0][inner] = value
    else:
        whole[outer] = value
    path = tmp_path_factory.mktemp("json") / "saved.json"
    path.write_text(json.dumps(whole))
    try:
        load(str(path))
    except InputError as error:
        assert str(error).startswith(f"{path}: is not a saved comparison: ")
