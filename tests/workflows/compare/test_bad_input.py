"""Unusable input: a message of one line, the exit code, and no result."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from command_line import run
from dump_files import TIME, numbered
from made_dumps import Case, assert_measured, describe, numbers, perturbed, rule
from opdiff import api

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOLDEN = numbers(4, 6)
TARGET = perturbed(GOLDEN)


@pytest.fixture
def rules(case: Case) -> Path:
    """Rules of valid sides with one operator, `a`."""
    return case.one(TARGET, GOLDEN)


@pytest.fixture(params=["target", "golden"])
def side(case: Case, request: pytest.FixtureRequest) -> Path:
    """The folder of one of two valid sides."""
    found: Path = getattr(case, request.param)
    return found


def emptied(folder: Path) -> Path:
    for path in folder.iterdir():
        path.unlink()
    return folder


# Directories


def test_a_missing_directory(case: Case, rules: Path, side: Path) -> None:
    emptied(side).rmdir()
    assert f"{side}: no such file or directory" in case.refused("-fr", rules, code=3)


def test_an_empty_directory(case: Case, rules: Path, side: Path) -> None:
    emptied(side)
    assert f"{side}: no files here" in case.refused("-fr", rules)


def test_file_instead_of_a_directory(case: Case, rules: Path, side: Path) -> None:
    emptied(side).rmdir()
    side.write_bytes(numbered(3))
    message = case.refused("-fr", rules)
    assert f"{side}: " in message
    assert "not a directory" in message


def test_a_directory_with_other_files(case: Case, rules: Path, side: Path) -> None:
    emptied(side)
    for name in ("readme.txt", "model.om", "photo.jpeg"):
        case.add(side, name, b"something")
    assert f"{side}: no dump files here (3 other files" in case.refused("-fr", rules)


def test_a_directory_that_cannot_be_listed(
    case: Case, rules: Path, side: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if os.fspath(path) == str(side):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert f"{side}: cannot be listed: Permission denied" in case.refused("-fr", rules)


def test_mixed_kinds_in_one_directory(case: Case, rules: Path, side: Path) -> None:
    case.npu("x", GOLDEN, folder=side)
    case.npy("y", GOLDEN, folder=side)
    message = case.refused("-fr", rules)
    assert f"{side}: " in message
    assert "are mixed here; keep them in two folders" in message


def test_several_folders_to_choose_from(case: Case, rules: Path) -> None:
    emptied(case.target)
    for step in ("1", "2"):
        case.npu("a", TARGET, folder=case.target / step)
    assert "several folders have dump files; give one of them: 1, 2" in case.refused("-fr", rules)


def test_unreadable_file_costs_only_its_row(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bad", "a"):
        case.npu(name, TARGET)
        case.npy(name, GOLDEN)
    opened = os.open

    def refuse(path: Any, *more: Any, **others: Any) -> int:
        if ".bad." in os.fspath(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, *more, **others)

    monkeypatch.setattr(os, "open", refuse)
    result = case.compared("-fr", case.rules(rule("bad"), rule("a")))
    assert_measured(result.row("a:output:0"), TARGET, GOLDEN)
    assert "Permission denied" in result.of("bad")["CompareFailReason"]


# Rule files


@pytest.mark.parametrize("option", ["-fr", "-qfr", "-cfr"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b'{"graph": [', "not valid JSON", id="cut"),
        pytest.param(b"\x80\x81\xfe\xff", "not a rule file; it should be", id="bytes"),
        pytest.param(b'{"x":' * 200_000, "nested too deeply", id="nested objects"),
        pytest.param(b"{}", "missing required field `graph`", id="no graphs"),
    ],
)
def test_a_malformed_rule_file(case: Case, rules: Path, option: str, content: bytes, expected: str) -> None:
    (case.root / "bad.json").write_bytes(content)
    words = () if option == "-fr" else ("-fr", rules)
    message = case.refused(option, case.root / "bad.json", *words)
    assert f"{case.root}/bad.json: " in message
    assert expected in message


@pytest.mark.parametrize("option", ["-fr", "-qfr", "-cfr", "--pairs"])
def test_a_missing_rule_file(case: Case, rules: Path, option: str) -> None:
    words = () if option == "-fr" else ("-fr", rules)
    expected = case.refused(option, case.root / "nowhere.json", *words)
    assert f"{case.root}/nowhere.json: " in expected
    assert "o such file" in expected


@pytest.mark.parametrize("option", ["-qfr", "-cfr"])
def test_directory_instead_of_a_rule_file(case: Case, rules: Path, option: str) -> None:
    assert "a directory, where one rule file is expected" in case.refused("-fr", rules, option, case.golden)


def test_rules_of_another_model_still_give_rows_with_reasons(case: Case) -> None:
    case.one(TARGET, GOLDEN)
    rules = case.rules(rule("conv9"), rule("conv10", inputs=("conv9:0",)))
    result = case.compared("-fr", rules, code=3)
    assert [row["NPUDump"] for row in result.rows] == ["conv9", "conv10", "a"]
    for row in result.rows[:2]:
        assert "the target dump has no file for operator conv" in row["CompareFailReason"]
    assert "the rule file does not contain this operator" in result.rows[2]["CompareFailReason"]
    assert {row["CosineSimilarity"] for row in result.rows} == {"NaN"}


def test_rules_without_operators(case: Case) -> None:
    case.one(TARGET, GOLDEN)
    result = case.compared("-fr", case.rules(), code=3)
    (row,) = result.rows
    assert (row["Index"], row["OpType"], row["NPUDump"], row["GroundTruth"]) == ("0", "Op", "a", "*")
    assert "the rule file does not contain this operator" in row["CompareFailReason"]


def test_cyclic_inputs(case: Case) -> None:
    case.one(TARGET, GOLDEN)
    case.npu("td_0", TARGET, inputs=(TARGET,), op_type="TransData")
    case.npu("td_1", TARGET, inputs=(TARGET,), op_type="TransData")
    case.npu("loop", TARGET, inputs=(TARGET,))
    case.npy("loop", GOLDEN)
    rules = case.rules(
        rule("a", outputs=(describe("a", 0),)),
        rule("td_0", "TransData", originals=(), inputs=("td_1:0",), outputs=(describe(),)),
        rule("td_1", "TransData", originals=(), inputs=("td_0:0",), outputs=(describe(),)),
        rule("loop", inputs=("loop:0",)),
    )
    result = case.compared("-fr", rules)
    for key in ("td_0:input:0", "td_0:output:0", "td_1:output:0"):
        assert "lead back to" in result.row(key)["CompareFailReason"], key
    assert_measured(result.row("a:output:0"), TARGET, GOLDEN)
    assert_measured(result.row("loop:output:0"), TARGET, GOLDEN)


@pytest.mark.parametrize("op_type", ["Cast", "Reshape", "Relu"])
@pytest.mark.parametrize("dumped", [True, False], ids=["dumped", "only the last is dumped"])
def test_a_chain_of_inserted_operators_is_not_repeated_by_every_row(case: Case, op_type: str, *, dumped: bool) -> None:
    """Time and size of the result grow with the rule file, not faster."""
    length = 400
    rules = [rule("a", outputs=(describe("a", 0),))]
    for number in range(length):
        reads = f"c{number - 1}:0" if number else "a:0"
        rules.append(rule(f"c{number}", op_type, originals=(), inputs=(reads,), outputs=(describe("a", 0),)))
        if dumped or number == length - 1:
            case.npu(f"c{number}", GOLDEN, inputs=(GOLDEN,), op_type=op_type)
    case.npu("a", GOLDEN)
    case.npy("a", GOLDEN)
    values = api.compare(case.target, case.golden, rules=case.rules(*rules)).values
    evidence = [str(row.evidence) for row in values.rows if row.evidence]
    assert len(evidence) >= 2
    assert max(map(len, evidence)) < 300
    assert max(len(str(row.reason or "")) for row in values.rows) < 400


# Names


def test_names_that_are_not_utf8(case: Case, rules: Path) -> None:
    """Files with such names are ignored; folders may have such names."""
    odd = os.fsencode(case.root) + b"/side \xff\xfe"
    os.rename(case.target, odd)
    with open(odd + b"/Op.\xff.1.3.1671234567890123", "wb") as file:
        file.write(numbered(3))
    case.target = case.root / os.fsdecode(b"side \xff\xfe")
    result = case.compared("-fr", rules)
    assert_measured(result.row("a:output:0"), TARGET, GOLDEN)


def test_unreadable_file_in_a_folder_with_a_name_that_is_not_utf8(case: Case, rules: Path) -> None:
    emptied(case.target)
    case.add(case.target, f"Op.a.1.3.{TIME}", b"\xff" * 40)
    os.rename(case.target, os.fsencode(case.root) + b"/\xff")
    case.target = case.root / os.fsdecode(b"\xff")
    assert "cannot be read" in case.compared("-fr", rules, code=3).of("a")["CompareFailReason"]


@pytest.mark.parametrize("name", ["a b", "ä (1)", "-x", "=x", "a'b\"c"])
def test_paths_with_blanks_and_signs(case: Case, rules: Path, name: str) -> None:
    os.rename(case.target, case.root / name)
    case.target = case.root / name
    case.out = case.root / f"out {name}"
    os.rename(rules, case.root / f"{name}.json")
    result = case.compared("-fr", case.root / f"{name}.json")
    assert_measured(result.row("a:output:0"), TARGET, GOLDEN)


# Output


@pytest.mark.parametrize("below", [False, True], ids=["a file", "below a file"])
def test_an_output_path_that_is_a_file(case: Case, rules: Path, below: bool) -> None:
    (case.root / "taken").write_text("mine")
    case.out = case.root / "taken" / "more" if below else case.root / "taken"
    expected = case.refused("-fr", rules)
    assert f"{case.root}/taken" in expected
    assert (case.root / "taken").read_text() == "mine"


def raiser(number: int) -> Callable[..., None]:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("call", ["replace", "link"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO], ids=["disk full", "quota", "broken disk"])
def test_full_disk_leaves_no_partial_files(
    case: Case, rules: Path, number: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, call, raiser(number))
    assert os.strerror(number) in case.refused("-fr", rules)


def test_an_output_folder_that_cannot_be_made(case: Case, rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "mkdir", raiser(errno.EROFS))
    assert "Read-only file system" in case.refused("-fr", rules)


def test_results_are_never_overwritten(case: Case, rules: Path) -> None:
    texts = [case.compared("-fr", rules).path.read_bytes() for _ in range(3)]
    assert len(case.results()) == 3
    assert len(set(texts)) == 1


def test_the_input_is_not_changed(case: Case, rules: Path) -> None:
    paths = [rules, *case.target.iterdir(), *case.golden.iterdir()]
    before = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    case.compared("-fr", rules)
    assert [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in paths] == before
    assert sorted(paths) == sorted([rules, *case.target.iterdir(), *case.golden.iterdir()])


def test_two_files_instead_of_directories(case: Case) -> None:
    case.one(TARGET, GOLDEN)
    outcome = run(case.capsys, "compare", *case.target.iterdir(), *case.golden.iterdir(), "-o", case.out)
    assert outcome.code == 3
    assert "not a directory" in outcome.err
