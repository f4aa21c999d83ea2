"""Saved comparisons: saving and loading, rejection of other files, and older versions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_comparisons import comparison, comparisons, failed_operator, measured, pairing
from made_reports import many_tokens, with_judgement
from opdiff.core.comparison import Comparison, DataMode, Mode, Row
from opdiff.core.dump import Unit
from opdiff.core.errors import InputError
from opdiff.core.judgement import Level
from opdiff.core.reasons import because, quoted
from opdiff.report.html_page import write_html
from opdiff.report.saved_json import load, save
from opdiff.report.saved_json_v1 import load_v1
from opdiff.workflows.compare.saved import load_saved

V1 = Path(__file__).parent / "saved_v1"


@given(comparisons)
def test_loading_restores_the_comparison(tmp_path_factory: pytest.TempPathFactory, of: Comparison) -> None:
    path = str(tmp_path_factory.mktemp("json") / "saved.json")
    save(of, path)
    # Compared as strings, since NaN is not equal to itself.
    assert repr(load(path)) == repr(of)


@pytest.mark.parametrize("made", [with_judgement(), many_tokens(2, 2, 3)], ids=["offline", "graph mode"])
def test_judgements_and_units_are_saved(made: Comparison, tmp_path: Path) -> None:
    save(made, str(tmp_path / "saved.json"))
    assert load(str(tmp_path / "saved.json")) == made


def test_saving_again_changes_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    save(comparison(measured(), failed_operator()), str(first))
    save(load(str(first)), str(second))
    assert second.read_bytes() == first.read_bytes()


def test_every_row_is_a_line(tmp_path: Path) -> None:
    save(comparison(measured(), failed_operator()), str(tmp_path / "saved.json"))
    lines = (tmp_path / "saved.json").read_text().splitlines()
    assert len(lines) == 4
    names = json.loads("\n".join(lines))["row_fields"]
    assert dict(zip(names, json.loads(lines[2]), strict=True))["label"][3] == "conv1"


def test_reasons_are_saved_as_code_facts_and_sentence(tmp_path: Path) -> None:
    evidence = because("core.in_file", path="a", problem=because("core.text", text="torn"))
    save(comparison(measured(pairing(evidence=evidence))), str(tmp_path / "saved.json"))
    row = json.loads((tmp_path / "saved.json").read_text())["rows"][0]
    assert row[Row._fields.index("evidence")] == {
        "code": "core.in_file",
        "facts": {"path": "a", "problem": {"code": "core.text", "facts": {"text": "torn"}, "text": "torn"}},
        "text": "a: torn",
    }
    assert load(str(tmp_path / "saved.json")).rows[0].evidence == evidence


def document(tmp_path: Path) -> Any:
    save(comparison(measured()), str(tmp_path / "saved.json"))
    return json.loads((tmp_path / "saved.json").read_text())


WRONG: dict[str, tuple[tuple[str | int, ...], object, str]] = {
    "schema": (("schema",), "other", "its schema is not 'opdiff.comparison'"),
    "version": (("version",), 3, "it is of version 3, and only versions 1 and 2 are known"),
    "kind": (("target", 1), "gpu", "Invalid enum value 'gpu' - at `$.target[1]`"),
    "not_an_array": (("target",), {}, "Expected `array`, got `object` - at `$.target`"),
    "text_for_number": (("rows", 0, 0, 0), "1", "Expected `int`, got `str` - at `$.rows[0][0][0]`"),
    "null": (("scenario",), None, "Expected `object`, got `null` - at `$.scenario`"),
    "missing": (("rows", 0, 7), [], "Expected `array` of length 33 to 47, got 0 - at `$.rows[0][7]`"),
}


@pytest.mark.parametrize(("keys", "value", "message"), WRONG.values(), ids=WRONG)
def test_invalid_documents_are_rejected(
    keys: tuple[str | int, ...], value: object, message: str, tmp_path: Path
) -> None:
    inner = whole = document(tmp_path)
    for step in keys[:-1]:
        inner = inner[step]
    inner[keys[-1]] = value
    (tmp_path / "saved.json").write_text(json.dumps(whole))
    with pytest.raises(InputError) as caught:
        load(str(tmp_path / "saved.json"))
    assert str(caught.value) == f"{tmp_path}/saved.json: is not a saved comparison: {message}"


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b"null"], ids=lambda data: repr(data[:9]))
def test_other_files_are_rejected(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_bytes(data)
    for read in (load, lambda path: load_v1([path]), lambda path: load_saved([path])):
        with pytest.raises(InputError, match="is not a saved comparison"):
            read(str(tmp_path / "saved.json"))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2)
)


@given(st.sampled_from(["target", "scenario", "judgement", "view", "graphs", "rows", 0, 1, 3, 5, 7, 10]), _JSON)
def test_any_document_is_loaded_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, keys: str | int, value: object
) -> None:
    folder = tmp_path_factory.mktemp("json")
    whole = document(folder)
    outer = whole["rows"][0] if isinstance(keys, int) else whole
    outer[keys] = value
    (folder / "saved.json").write_text(json.dumps(whole))
    try:
        load(str(folder / "saved.json"))
    except InputError as error:
        assert str(error).startswith(f"{folder}/saved.json: is not a saved comparison: ")


# Version 1


def test_an_offline_comparison_of_version_1(tmp_path: Path) -> None:
    found = load_saved([str(V1 / "offline.json")])
    assert (found.mode, found.scenario) == (Mode.OFFLINE, quoted("NPU dump against the original model"))
    levels = {str(row.key): verdict.level for row, verdict in zip(found.rows, found.judgement.verdicts, strict=True)}
    assert levels["context/pool:output:0"] is Level.WRONG
    row = next(row for row in found.rows if str(row.key) == "context/pool:output:0")
    assert row.metrics is not None
    assert (row.target_dtype, row.golden_dtype, row.is_compared) == ("float16", "float32", True)
    assert row.evidence is not None
    assert found.judgement.findings
    save(found, str(tmp_path / "again.json"))
    assert repr(load(str(tmp_path / "again.json"))) == repr(found)
    write_html(found, str(tmp_path / "report.html"))


def test_comparison_saved_without_a_judgement_is_judged(tmp_path: Path) -> None:
    whole = json.loads((V1 / "offline.json").read_text())
    del whole["judgement"]
    (tmp_path / "old.json").write_text(json.dumps(whole))
    found = load_saved([str(tmp_path / "old.json")])
    assert len(found.judgement.verdicts) == len(found.rows)


def test_the_tables_of_a_run_in_graph_mode_of_version_1(tmp_path: Path) -> None:
    for path in V1.glob("msprobe*.json"):
        shutil.copy(path, tmp_path)
    found = load_saved([str(tmp_path)])
    assert found.mode is Mode.GRAPH
    assert found.units[0] == Unit(0, 0, None)
    assert {unit.rank for unit in found.units} == {0, 1}
    assert len(found.judgement.documented) == len(found.rows) == 16
    assert {row.by for row in found.rows} == {DataMode.REAL}
    assert str(found.rows[0].golden_key).startswith("mm-aten.mm.default:")
    assert found.graphs[0].nodes
    write_html(found, str(tmp_path / "report.html"))


def test_tables_of_two_runs_of_version_1_are_rejected(tmp_path: Path) -> None:
    paths = sorted(map(str, V1.glob("msprobe*.json")))
    with pytest.raises(InputError, match="two of the files are about the same"):
        load_saved([paths[0], paths[0]])
    other = json.loads(Path(paths[1]).read_text()) | {"target": "/elsewhere"}
    (tmp_path / "other.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match="give the files of one run"):
        load_saved([paths[0], str(tmp_path / "other.json")])
    with pytest.raises(InputError, match="several files make one report in graph mode only"):
        load_saved([str(V1 / "offline.json")] * 2)
