"""Saved comparisons: saving and loading, rejection of other files, and older versions."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from command_line import Capture, run
from made_comparisons import comparison, comparisons, failed_operator, measured
from made_reports import many_tokens, picture, with_judgement
from opdiff.core.comparison import Comparison, DataMode, Mode
from opdiff.core.dump import Unit
from opdiff.core.errors import InputError
from opdiff.core.judgement import Level, Verdict
from opdiff.core.reasons import Reason, Status, all_of, because, quoted, statuses_of
from opdiff.report import parts
from opdiff.report.html_page import write_html
from opdiff.report.packed_columns import pack_columns
from opdiff.report.saved_json import load, pack_pictures, save
from opdiff.report.saved_json_v1 import load_v1
from opdiff.workflows.compare.saved import load_saved

V1 = Path(__file__).parent / "saved_v1"


@given(comparisons)
def test_loading_restores_the_comparison(tmp_path_factory: pytest.TempPathFactory, of: Comparison) -> None:
    path = str(tmp_path_factory.mktemp("json") / "saved.json")
    save(of, path)
    # Compared as strings, since NaN is not equal to itself.
    assert repr(load(path)) == repr(of)


WITH_PICTURES = replace(comparison(measured()), pictures=(picture(0, (2, 3, 4)), picture(1, (5,))))


@pytest.mark.parametrize(
    "made", [with_judgement(), many_tokens(2, 2, 3), WITH_PICTURES], ids=["offline", "graph mode", "pictures"]
)
def test_judgements_units_and_pictures_are_saved(made: Comparison, tmp_path: Path) -> None:
    save(made, str(tmp_path / "saved.json"))
    assert load(str(tmp_path / "saved.json")) == made


def test_files_without_pictures_are_loaded(tmp_path: Path) -> None:
    content = document(tmp_path)
    del content["pictures"]
    (tmp_path / "saved.json").write_text(json.dumps(content))
    assert load(str(tmp_path / "saved.json")).pictures == ()


def test_saving_again_changes_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    save(comparison(measured(), failed_operator()), str(first))
    save(load(str(first)), str(second))
    assert second.read_bytes() == first.read_bytes()


def test_rows_are_lines_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_MIN_PART_ROWS", 1)
    monkeypatch.setattr(parts, "_MIN_JOB_ROWS", 6)
    made = many_tokens(2, 2, 3)
    save(made, str(tmp_path / "saved.json"))
    lines = (tmp_path / "saved.json").read_text().splitlines()
    assert len(lines) == 2 + len(made.rows) / 6
    assert load(str(tmp_path / "saved.json")) == made


def test_reasons_of_the_run_are_saved_as_code_facts_and_sentence(tmp_path: Path) -> None:
    note = because("core.in_file", path="a", problem=because("core.text", text="torn"))
    save(replace(comparison(measured()), notes=(note,)), str(tmp_path / "saved.json"))
    assert json.loads((tmp_path / "saved.json").read_text())["notes"] == [{
        "code": "core.in_file",
        "facts": {"path": "a", "problem": {"code": "core.text", "facts": {"text": "torn"}, "text": "torn"}},
        "text": "a: torn",
    }]  # fmt: skip
    assert load(str(tmp_path / "saved.json")).notes == (note,)


def test_the_status_of_reasons_is_saved(tmp_path: Path) -> None:
    note = because("core.in_file", path="a", problem=because("core.no_nan", Status.NOT_HERE))
    made = replace(comparison(failed_operator(because("core.no_nan", Status.NOT_IN_RULES))), notes=(note,))
    save(made, str(tmp_path / "saved.json"))
    loaded = load(str(tmp_path / "saved.json"))
    assert (loaded.rows[0].status, loaded.notes) == (Status.NOT_IN_RULES, (note,))


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (because("pair.no_file", side="target", name="x"), Status.NOT_DUMPED),
        (because("pair.no_file", side="golden", name="x"), Status.NO_GOLDEN_FILE),
        (all_of((because("pair.not_in_rules"), because("pair.nearest_name", name="x"))), Status.NOT_IN_RULES),
        (because("pair.no_file", side="golden", name="x", more=because("pair.constant")), Status.NO_COUNTERPART),
        (because("core.no_nan"), Status.OTHER),
    ],
    ids=lambda value: value if isinstance(value, Status) else "",
)
def test_fields_that_earlier_versions_did_not_save_come_from_codes(
    reason: Reason, status: Status, tmp_path: Path
) -> None:
    difference = because("compare.environment_differs", what="date", target=1, golden=2)
    made = comparison(failed_operator(reason), replace(measured(), evidence=because("pair.inserted")))
    notes = reason, because("compare.environments_differ", differences=(difference,))
    save(replace(made, notes=notes), str(tmp_path / "saved.json"))
    content = json.loads((tmp_path / "saved.json").read_text())
    del content["differences"], content["checksum"]
    (tmp_path / "saved.json").write_text(json.dumps(content))
    loaded = load(str(tmp_path / "saved.json"))
    assert [row.status for row in loaded.rows] == [status, Status.COMPARED]
    assert [row.is_own_input for row in loaded.rows] == [False, True]
    assert status in statuses_of(loaded.notes[0])
    assert loaded.differences == (difference,)


def test_a_row_takes_few_bytes(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    made = many_tokens(4, 10, 50)
    save(made, str(path))
    assert path.stat().st_size < 400 * len(made.rows)


def document(tmp_path: Path) -> Any:
    """Return a document to change, without its checksum."""
    save(comparison(measured()), str(tmp_path / "saved.json"))
    content = json.loads((tmp_path / "saved.json").read_text())
    del content["checksum"]
    return content


def test_changed_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    save(comparison(measured()), str(path))
    path.write_text(path.read_text().replace('"npu"', '"cpu"', 1))
    with pytest.raises(InputError, match="was changed or damaged after it was saved"):
        load(str(path))


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def block(**tables: list[Any]) -> list[str]:
    empty: dict[str, list[Any]] = {"rows": [], "verdicts": [], "documented": []}
    return [base64(pack_columns(empty | tables))]


WRONG: dict[str, tuple[tuple[str | int, ...], object, str]] = {
    "schema": (("schema",), "other", "its schema is not 'opdiff.comparison'"),
    "version": (("version",), 2, "it is of version 2, and only versions 1 and 3 are known"),
    "kind": (("target", "kind"), "gpu", "Invalid enum value 'gpu' - at `$.target.kind`"),
    "no_path": (("target",), {}, "Object missing required field `path` - at `$.target`"),
    "null": (("scenario",), None, "Expected `object`, got `null` - at `$.scenario`"),
    "no_rows": (("rows",), None, "Expected `array`, got `null` - at `$.rows`"),
    "no_base64": (("rows",), ["?"], "Invalid base64 encoded string - at `$.rows[0]`"),
    "no_columns": (
        ("graphs",),
        "AAAA",
        "its columns are damaged: Error -3 while decompressing data: unknown compression method",
    ),
    "text_for_row": (("rows",), block(rows=["1"]), "Expected `array`, got `str` - at `$[0]`"),
    "verdicts": (("rows",), block(verdicts=[Verdict(Level.NOISE, quoted(""))]), "it has 1 verdicts for 0 rows"),
    "cut_pictures": (("pictures",), base64(b"\x78\x9c"), "its pictures are cut, or larger than 1 GiB"),
    "no_checksum": (
        ("pictures",),
        base64(pack_pictures([picture(0, (2, 3))])[:-4]),
        "its pictures are cut, or larger than 1 GiB",
    ),
    "not_deflated": (
        ("pictures",),
        base64(b"nothing"),
        "its pictures are damaged: Error -3 while decompressing data: incorrect header check",
    ),
    "no_picture": (
        ("pictures",),
        base64(zlib.compress(b"\x91\x80")),
        "its pictures are damaged: Object missing required field `row` - at `$[0]`",
    ),
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


@given(st.sampled_from(["target", "scenario", "judgement", "view", "graphs", "rows"]), _JSON)
def test_any_document_is_loaded_or_rejected(tmp_path_factory: pytest.TempPathFactory, key: str, value: object) -> None:
    folder = tmp_path_factory.mktemp("json")
    whole = document(folder)
    whole[key] = value
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
    assert {row.data_mode for row in found.rows} == {DataMode.REAL}
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


def nested(levels: int) -> dict[str, Any]:
    reason: dict[str, Any] = {"code": "core.text", "facts": {"text": "x"}}
    for _ in range(levels):
        reason = {"code": "core.all", "facts": {"reasons": [reason]}}
    return reason


HOSTILE = {
    "file": {"code": "{folder}/secret.key", "facts": {"text": "x"}},
    "pipe": {"code": "{folder}/pipe.key", "facts": {}},
    "surrogate": {"code": "\ud800.x", "facts": {"\udcff": "\ud800"}},
    "escapes": {"code": "\x1b[31m.\0", "facts": {"text": "\x1b[31m"}},
    "format": {"code": "core.text", "facts": {"text": "{0.__class__:>99999999999}"}},
    "values of other kinds": {"code": "judge.cosine", "facts": {"value": "x", "limit": [[1, None], {"a": 1}]}},
    "nested": nested(48),
}


@pytest.mark.parametrize("reason", HOSTILE.values(), ids=HOSTILE)
def test_reasons_of_others_are_shown_as_they_are(reason: dict[str, Any], tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "secret.json").write_text('{"key": {"en": "private", "zh": "private"}}')
    os.mkfifo(tmp_path / "pipe.json")
    content = document(tmp_path)
    content["scenario"] = reason | {"code": reason["code"].replace("{folder}", str(tmp_path))}
    (tmp_path / "saved.json").write_text(json.dumps(content))
    forms = ("--xlsx", "--junit", "--parquet", "--model-explorer", "--json", tmp_path / "answer")
    (tmp_path / "out").mkdir()
    for language in ("en", "zh"):
        done = run(capsys, "report", tmp_path / "saved.json", "-o", tmp_path / "out", *forms, "--lang", language)
        assert done.code == 0, done.err
    assert not [file for file in (tmp_path / "out").iterdir() if b"private" in file.read_bytes()]


def test_deeply_nested_reasons_are_refused(tmp_path: Path) -> None:
    content = document(tmp_path)
    content["scenario"] = nested(60)
    (tmp_path / "saved.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="its reasons have more than 100 levels"):
        load(str(tmp_path / "saved.json"))
    content["scenario"] = nested(1)
    content["rows"] = block(rows=[failed_operator(because("core.all", reasons=deep_tuple(120)))])
    (tmp_path / "saved.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="its columns have more than 100 levels"):
        load(str(tmp_path / "saved.json"))


def deep_tuple(levels: int) -> Any:
    value: object = 1
    for _ in range(levels):
        value = (value,)
    return value
