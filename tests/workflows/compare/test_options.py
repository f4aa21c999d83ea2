"""Options of `compare`: their effect on the result, and rejection of invalid ones."""

from __future__ import annotations

import csv
import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run, run_outside
from made_dumps import DOCUMENTED, Case, assert_measured, describe, expected, numbers, perturbed, read_result, rule
from opdiff.measure.kernel import library as native

if TYPE_CHECKING:
    from pathlib import Path

    from made_dumps import Result

GOLDEN = tuple(numbers(4, 6, seed=seed) for seed in range(6))
TARGET = tuple(perturbed(golden, seed=seed) for seed, golden in enumerate(GOLDEN))


def chain(case: Case) -> Path:
    """Write operators `op0` … `op5` in sequence; `op3` and `op4` are parts of one original."""
    for number, (target, golden) in enumerate(zip(TARGET, GOLDEN, strict=True)):
        case.npu(f"op{number}", target)
        case.npy("op3" if number == 4 else f"op{number}", golden)
    parts = (rule(f"op{number}", originals=("op3",), outputs=(describe("op3", 0),)) for number in (3, 4))
    return case.rules(rule("op0"), rule("op1"), rule("op2"), *parts, rule("op5"))


def one(case: Case) -> Path:
    return case.one(TARGET[0], GOLDEN[0])


def documented(result: Result) -> list[str]:
    """Return the titles between the shape and the reason."""
    return result.header[result.header.index("Shape") + 1 : result.header.index("CompareFailReason")]


# Spellings


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("-m offline_data -tp T -gp G -fr R -o O", id="short"),
        pytest.param(
            "--mode offline_data --target_path T --golden_path G --fusion_rule_file R --output_path O", id="long"
        ),
        pytest.param(
            "--mode=offline_data --target_path=T --golden_path=G --fusion_rule_file=R --output_path=O", id="with ="
        ),
        pytest.param("-tp T -gp G -fr R -o O", id="without mode"),
        pytest.param("T G --rules R -o O", id="modern"),
        pytest.param("T G --rules=R --output-dir=O", id="modern with ="),
        pytest.param("--rules R -o O T G", id="paths last"),
    ],
)
def test_spellings(case: Case, words: str) -> None:
    paths = {"T": case.target, "G": case.golden, "R": one(case), "O": case.out}
    arguments = []
    for word in words.split():
        option, equals, value = word.partition("=")
        if equals and value in paths:
            arguments.append(f"{option}={paths[value]}")
        else:
            arguments.append(str(paths.get(word, word)))
    outcome = run(case.capsys, "compare", *arguments)
    assert outcome.code == 0, outcome
    (path,) = case.results()
    assert f"result: {path}" in outcome.out
    assert_measured(read_result(path).row("a:output:0"), TARGET[0], GOLDEN[0])


@pytest.mark.parametrize("words", [(), ("-o",), ("-o", ".")], ids=["no -o", "-o alone", "-o ."])
def test_the_result_is_in_the_current_directory_by_default(
    case: Case, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = one(case)
    case.out.mkdir()
    monkeypatch.chdir(case.out)
    outcome = run(case.capsys, "compare", "-tp", case.target, "-gp", case.golden, "-fr", rules, *words)
    assert outcome.code == 0, outcome
    assert len(case.results("result_*.csv")) == 1


def test_relative_paths_in_a_separate_process(case: Case) -> None:
    one(case)
    outcome = run_outside("compare", "target", "golden", "--rules", "network.json", "-o", "a/b c", cwd=case.root)
    assert outcome.code == 0, outcome
    assert len(list((case.root / "a" / "b c").glob("result_*.csv"))) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("", "no path was given; give a target and a golden directory", id="nothing"),
        pytest.param("T", "1 path given (", id="one path"),
        pytest.param("T G G", "3 paths given (", id="three paths"),
        pytest.param("T G R", "; a rule file is given by -fr", id="a rule file as path"),
        pytest.param("T -gp G", "give a target and a golden directory", id="both ways"),
        pytest.param("-tp T", "give a target and a golden directory", id="no golden"),
        pytest.param("-m online -tp T -gp G", "invalid choice: 'online'", id="unknown mode"),
        pytest.param("T G --nonsense", "--nonsense", id="unknown option"),
        pytest.param("T G -fr R -j zero", "zero", id="jobs is a word"),
        pytest.param("T G -fr R -j 0", "0", id="no jobs"),
        pytest.param("T G -fr R --memory much", "'much' is not a size such as 512M or 4G", id="memory"),
        pytest.param("T G -fr R --metrics Best", "there is no metric 'Best'; choose from all, 0 Cosine", id="metric"),
        pytest.param("T G -fr R -r 1,2", "three numbers `start,end,step` are expected", id="short range"),
        pytest.param("T G -fr R -s 77,99", "all numbers are larger than 5", id="select"),
        pytest.param("T G -fr R -s 1 -r 1,2,1", "not allowed with", id="range and select"),
        pytest.param("T T -s 1", "give -fr too", id="select without rules"),
        pytest.param("T G -fr R -c nowhere", "nowhere: no such directory", id="own metrics"),
    ],
)
def test_invalid_options_are_rejected_with_usage(case: Case, words: str, message: str) -> None:
    paths = {"T": case.target, "G": case.golden, "R": chain(case)}
    arguments = [str(paths.get(word, word)) for word in words.split()]
    outcome = run(case.capsys, "compare", *arguments, "-o", case.out)
    assert outcome.code == 2, outcome
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert case.leftovers() == []


# Metrics


@pytest.mark.parametrize(
    ("selection", "titles"),
    [
        pytest.param(["all"], DOCUMENTED, id="all"),
        pytest.param(["ALL"], DOCUMENTED, id="ALL"),
        pytest.param(["1,0"], ("MaxAbsoluteError", "CosineSimilarity"), id="numbers in their order"),
        pytest.param(["3", "4"], ("RelativeEuclideanDistance", "KullbackLeiblerDivergence"), id="with blanks"),
        pytest.param(["cosinesimilarity,5,0"], ("CosineSimilarity", "StandardDeviation"), id="names, each once"),
        pytest.param(["9,all"], (DOCUMENTED[9], *DOCUMENTED[:9]), id="one of all first"),
    ],
)
@pytest.mark.parametrize("option", ["--metrics", "-alg", "--algorithm"])
def test_selected_metrics_in_order(case: Case, option: str, selection: list[str], titles: tuple[str, ...]) -> None:
    result = case.compared("-fr", one(case), option, *selection)
    assert documented(result) == list(titles)
    row = result.row("a:output:0")
    values = expected(TARGET[0], GOLDEN[0])
    for title in titles:
        if title in values:
            assert float(row[title]) == pytest.approx(values[title], rel=1e-5, abs=1e-9), title


def test_mean_and_deviation_of_both_sides(case: Case) -> None:
    row = case.compared("-fr", one(case), "--metrics", "StandardDeviation").row("a:output:0")
    sides = (side.astype(np.float64) for side in (TARGET[0], GOLDEN[0]))
    deviations = ",".join(f"({side.mean():.3f};{side.std():.3f})" for side in sides)
    assert row["StandardDeviation"] == deviations


def test_custom_metrics(case: Case) -> None:
    folder = case.root / "own" / "algorithm"
    folder.mkdir(parents=True)
    (folder / "alg_Sum.py").write_text(
        "def compare(my, golden, args):\n    return f'{float(my.sum()):.3f}', 'summed'\n"
    )
    (folder / "alg_Broken.py").write_text("def compare(my, golden, args):\n    raise ValueError('no')\n")
    result = case.compared("-fr", one(case), "-c", case.root / "own")
    assert documented(result) == [*DOCUMENTED, "Broken", "Sum"]
    row = result.row("a:output:0")
    assert float(row["Sum"]) == pytest.approx(float(TARGET[0].sum()), abs=2e-3)
    assert row["Broken"] == "NaN"
    assert "summed" in row["CompareFailReason"]
    assert "Broken failed: ValueError('no')" in row["CompareFailReason"]
    assert_measured(row, TARGET[0], GOLDEN[0])


# Parts of a network


@pytest.mark.parametrize(
    ("words", "numbers_taken"),
    [
        pytest.param(("-r", "1,2,1"), [1, 2], id="range"),
        pytest.param(("-r", "1,5,2"), [1, 3, 4, 5], id="range with a step takes groups whole"),
        pytest.param(("-r", ",,"), [1, 2, 3, 4, 5], id="open range"),
        pytest.param(("-r", "2,-1,3"), [2, 5], id="range to the last"),
        pytest.param(("--range=1,1,1",), [1], id="long form"),
        pytest.param(("-s", "5,0"), [0, 5], id="select"),
        pytest.param(("-s", "4"), [3, 4], id="select takes groups whole"),
        pytest.param(("--select=1, 1 ,99",), [1], id="select long form"),
    ],
)
def test_parts_of_a_network(case: Case, words: tuple[str, ...], numbers_taken: list[int]) -> None:
    result = case.compared("-fr", chain(case), *words)
    assert result.header[:2] == ["Index", "OpSequence"]
    assert [row["OpSequence"] for row in result.rows] == [str(number) for number in numbers_taken]
    assert [row["TensorIndex"] for row in result.rows] == [f"op{number}:output:0" for number in numbers_taken]
    for row, number in zip(result.rows, numbers_taken, strict=True):
        if number not in (3, 4):
            assert_measured(row, TARGET[number], GOLDEN[number])


# The table of pairs


def test_mapping(case: Case) -> None:
    rules = chain(case)
    outcome = case.run("-fr", rules, "--mapping")
    assert outcome.code == 0, outcome
    assert case.results() == []
    (path,) = case.results("mapping_*.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    head = ["Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath"]
    assert list(rows[0])[:7] == head
    assert [row["TensorIndex"] for row in rows] == [f"op{number}:output:0" for number in range(6)]
    for row in rows:
        assert os.path.basename(row["NPUDumpPath"]).startswith(f"Op.{row['TensorIndex'].partition(':')[0]}.")
        assert os.path.basename(row["GroundTruthPath"]).startswith(f"{row['GroundTruth']}.0.")
        assert row["MatchRule"]
    assert "6 of 6 rows are paired" in outcome.out


def test_mapping_of_a_part(case: Case) -> None:
    assert case.run("-fr", chain(case), "-map", "-s", "2").code == 0
    (path,) = case.results("mapping_*.csv")
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["OpSequence"], row["TensorIndex"]) == ("2", "op2:output:0")


# Manual pairs


def pairs_file(case: Case, text: str) -> Path:
    path = case.root / "pairs.toml"
    path.write_text(text)
    return path


def test_manual_pairs_override_only_their_tensors(case: Case) -> None:
    rules = chain(case)
    pairs = pairs_file(case, '[[pair]]\ntarget = "op1"\ngolden = "op5:output:0"\n')
    plain = case.compared("-fr", rules)
    result = case.compared("-fr", rules, "--pairs", pairs)
    row = result.row("op1:output:0")
    assert (row["GoldenTensor"], row["MatchRule"]) == ("op5:output:0", "paired by the user")
    assert_measured(row, TARGET[1], GOLDEN[5])
    judged = dict.fromkeys(("LevelRule", "ErrorExcess", "RunVerdict"), "")
    others = [[row | judged for row in each.rows if row["NPUDump"] != "op1"] for each in (result, plain)]
    assert others[0] == others[1]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        pytest.param('[[pair]]\ntarget = "op1"\n', 3, "pair 1: both target and golden have to be given", id="half"),
        pytest.param('[[pair]]\ntarget = "op1"\ngolden = "x"\n', 2, "the golden dump has no operator x", id="golden"),
    ],
)
def test_invalid_manual_pairs(case: Case, text: str, code: int, message: str) -> None:
    rules = chain(case)
    assert message in case.refused("-fr", rules, "--pairs", pairs_file(case, text), code=code)


# Further output


def test_overflow_column(case: Case) -> None:
    rules = one(case)
    assert "OverFlow" not in case.compared("-fr", rules).header
    for option in ("--overflow", "-overflow_detection"):
        assert case.compared("-fr", rules, option).row("a:output:0")["OverFlow"] == "NO"


def test_arrays_have_no_overflow(case: Case) -> None:
    case.npy("s_quant", TARGET[0], folder=case.target)
    case.npy("s", GOLDEN[0])
    rules = case.rules(rule("s_quant", originals=("s",), outputs=(describe("s", 0),)))
    done = case.run("-qfr", rules, "-overflow_detection")
    assert done.code == 0
    assert done.out.startswith("Warning: -overflow_detection does not apply: the target is arrays")
    (path,) = case.results()
    assert "OverFlow" not in read_result(path).header


def test_documented_file(case: Case) -> None:
    content = case.compared("-fr", one(case)).path.read_bytes()
    assert content.count(b"\r\n") == content.count(b"\n") == 2
    assert content.endswith(b"\r\n")


def test_an_installed_package_adds_a_metric(case: Case) -> None:
    packages = case.root / "packages"
    metadata = packages / "spread-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: spread\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[opdiff.metrics]\nspread = spread:Spread\n")
    (packages / "spread.py").write_text(
        "class Spread:\n    name = 'Spread'\n    compare = staticmethod(lambda my, golden, args: (str(len(my)), ''))\n"
    )
    sides = (case.target, case.golden, "--rules", one(case))
    tables = {}
    for selection in ("all", "all,spread"):
        options = ("-alg", selection, "-o", case.out / selection)
        outcome = run_outside("compare", *sides, *options, env={"PYTHONPATH": str(packages)})
        assert outcome.code == 0, outcome
        (path,) = (case.out / selection).glob("result_*.csv")
        tables[selection] = read_result(path)
    assert "Spread" not in tables["all"].header
    assert tables["all,spread"].row("a:output:0")["Spread"] == "24"


def test_quiet_run_prints_no_progress(case: Case) -> None:
    rules = one(case)
    outcome = run(case.capsys, "compare", "-q", case.target, case.golden, "--rules", rules, "-o", case.out)
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.skipif(native.find_library() is None, reason="no native kernel here")
def test_a_comparison_by_the_kernel_does_not_import_numpy(case: Case) -> None:
    # Bad tensors would be looked at more closely, by NumPy.
    rules = case.one(GOLDEN[0], GOLDEN[0])
    code = "import sys\nfrom opdiff.cli import main\nmain(sys.argv[1:])\nassert 'numpy' not in sys.modules\n"
    arguments = ["compare", *map(str, (case.target, case.golden, "--rules", rules, "-o", case.out))]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(case.results()) == 1


def test_help_has_every_documented_option(case: Case) -> None:
    outcome = run(case.capsys, "compare", "--help")
    assert outcome.code == 0
    for option in ("-m", "-tp", "-gp", "-fr", "-cfr", "-qfr", "-o", "--pairs", "--range", "--select", "--mapping"):
        assert f"{option}" in outcome.out


@pytest.mark.parametrize("mode", ["offline_data", "torchair"])
def test_an_output_folder_that_cannot_be_written_is_named_before_the_work(
    case: Case, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(case)

    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(case.out / ".hidden"))

    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    outcome = run(case.capsys, "compare", "missing rules", case.root, "-m", mode, "-o", case.out)
    assert "missing rules: no such file or directory" in outcome.err
    outcome = run(case.capsys, "compare", case.target, case.golden, "-m", mode, "-o", case.out)
    assert outcome.code == 3
    assert outcome.err == f"opdiff: {case.out}: results cannot be put here: Permission denied\n"


def test_an_output_folder_of_another_user_is_noted(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = one(case)
    assert "belongs to" not in case.run("-fr", rules).err
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    assert f"note: {case.out} belongs to user " in case.run("-fr", rules).err
