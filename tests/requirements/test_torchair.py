"""`msprobe compare --mode torchair`: GE against FX, GE against GE with fusion off, three modes of data."""

from __future__ import annotations

import colorsys
import csv
import json
import os
import signal
import subprocess
import zlib
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import openpyxl
import pytest
from msgspec.structs import replace

from documented_script import make_environment, write_script
from dump_files import npy_file
from dumpdata_proto import DumpData
from opdiff.judge.graph.criteria import documented_results
from opdiff.report.saved_json import load as load_comparison
from opdiff.sample.graph_mode import FAULTY_OPERATOR, FAULTY_TOKEN, GraphSample
from requirements.graph_mode_runs import (
    Converted,
    Run,
    converted_names,
    extremes_of,
    load,
    msprobe,
    second_run,
    sides,
    write_layout,
    write_pairs,
)
from requirements.requirement import requires

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opdiff.core.codes import AnyArray
    from requirements.graph_mode_runs import Extremes

# Of both tensors, target first.
REAL: dict[str, Callable[[AnyArray, AnyArray], float]] = {
    "Cosine": lambda n, b: float(n @ b / np.linalg.norm(n) / np.linalg.norm(b)),
    "EucDist": lambda n, b: float(np.linalg.norm(n - b)),
    "MaxAbsErr": lambda n, b: float(np.abs(n - b).max()),
    "MaxRelativeErr": lambda n, b: float(np.abs((n - b)[b != 0] / b[b != 0]).max(initial=0)),
    "One Thousandth Err Ratio": lambda n, b: float(np.mean(np.abs(n - b) < 0.001 * np.abs(b) + (n == b))),
    "Five Thousandth Err Ratio": lambda n, b: float(np.mean(np.abs(n - b) < 0.005 * np.abs(b) + (n == b))),
}
STATISTICS: dict[str, Callable[[AnyArray], float]] = {
    "Max": np.max,
    "Min": np.min,
    "Mean": np.mean,
    "L2norm": lambda side: float(np.linalg.norm(side)),
}
NAMES = ("the largest values", "the smallest values", "the means", "the L2 norms")
HUES = {"red": (-20, 20), "yellow": (40, 65), "green": (90, 150)}
MODES = ("real", "statistics", "md5")
LISTING = """
# File "/home/u/net.py", line 12, in forward    y = x @ w
## FX Code: mm = torch.ops.aten.mm.default(x, w)
MatMul_0 = ge.MatMul(x, w, node_name="MatMul")
"""
COMPARE = "msprobe compare --target_path ${dump_path}/msprobe_ge_dump --golden_path "
COMMANDS = {
    "new": COMPARE + "${dump_path}/msprobe_fx_dump --mode torchair",
    "7.1.0": COMPARE + "${dump_path}/msprobe_fx_dump/data_dump --mode torchair",
    "old": COMPARE + "data_dump --mode torchair",
}


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The documented commands, each with dumps in its layout. In one of them, the source code is listed."""
    found = {}
    for version, command in COMMANDS.items():
        root = tmp_path_factory.mktemp("layout")
        dump = write_layout(root, version)
        if version == "new":
            (dump / "msprobe_ge_dump" / "dynamo_original_graph_1_rank_0_pid_9_ts_9.py").write_text(LISTING)
        found[version] = msprobe(command, root, dump_path=dump)
    return found


@pytest.fixture(scope="module")
def new(layouts: dict[str, Run]) -> Run:
    """GE against FX as 7.1.0 or later writes them."""
    return layouts["new"]


@pytest.fixture(scope="module")
def modes(new: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The same dumps by data, by statistics and by checksums."""
    found = {"real": new}
    for mode in ("statistics", "md5"):
        command = f"{COMMANDS['new']} --data_mode {mode} --no-html --replay none"
        found[mode] = msprobe(command, tmp_path_factory.mktemp(mode), dump_path=new.folder / "dump")
    return found


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """The operators of `PAIRS`, by data, by statistics and by checksums, with a workbook."""
    root = tmp_path_factory.mktemp("pairs")
    write_pairs(root)
    command = f"{COMMANDS['new']} --xlsx --no-html --replay none --data_mode "
    return {mode: msprobe(command + mode, tmp_path_factory.mktemp(mode), dump_path=root) for mode in MODES}


@pytest.fixture(scope="module")
def fusion(torchair: GraphSample, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """GE with fusion against GE without, one rank and token."""
    command = "msprobe compare --target_path ${on} --golden_path ${off} --mode torchair --rank 0 --token 0 --no-html"
    return msprobe(command, tmp_path_factory.mktemp("fusion"), on=torchair.target, off=torchair.fusion_off)


# Overview, dump paths


@requires("Overview", "the inputs and outputs of every dumped operator are compared")
def test_every_tensor_has_a_row(new: Run) -> None:
    dumped: set[str] = set()
    for path in (new.folder / "dump" / "msprobe_ge_dump").rglob("*.*.*.*.*"):
        raw = path.read_bytes()
        header = DumpData.FromString(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        dumped |= {f"{path},inputs,{number}" for number, _ in enumerate(header.input)}
        dumped |= {f"{path},outputs,{number}" for number, _ in enumerate(header.output)}
    inserted = {path for path in dumped if "TransData" in path and ",inputs," in path}
    assert len(inserted) == 2
    # Of a conversion that the compiler inserted, the input is the golden side of the output.
    assert {row["my_data_path"] for row in new.rows if row["my_data_path"]} == dumped - inserted


@requires("Overview", "the operators on which both runs differ are found, and the first of them is named")
def test_the_first_operator_that_differs_is_named(new: Run) -> None:
    assert f"Start with {FAULTY_OPERATOR} (rank 0, token {FAULTY_TOKEN})." in new.outcome.out
    (summary,) = new.folder.glob("msprobe_cmp_summary_*.json")
    assert json.loads(summary.read_text())["first_bad_tensor"] == f"{FAULTY_OPERATOR}.output.0"
    failed = [row["API Name"] for row in new.rows if row["Result"] == "FAIL"]
    assert failed[0] == f"{FAULTY_OPERATOR}.output.0"


@requires("Overview", "which of the two comparisons is meant is found from the golden dump")
def test_the_kind_of_golden_dump_is_found(new: Run, fusion: Run) -> None:
    assert new.outcome.out.startswith("GE with fusion on against FX\n")
    assert fusion.outcome.out.startswith("GE with fusion on against GE with fusion off\n")


@requires(
    "Additional Constraints", "two GE dumps in one path are noticed in every layout, and the later one is compared"
)
@pytest.mark.parametrize("version", COMMANDS)
def test_two_ge_runs_in_one_path_are_noticed(tmp_path: Path, version: str) -> None:
    dump = write_layout(tmp_path, version)
    second_run(dump / "msprobe_ge_dump")
    run = msprobe(COMMANDS[version] + " --no-html --replay none", tmp_path, dump_path=dump)
    assert (
        "token 0 of graph_1_0 was dumped at 20240130064151 and again at 20240130064152; the later dump is"
        in run.outcome.out
    )
    assert all("/20240130064152/" in row["my_data_path"] for row in run.rows if row["my_data_path"])


@requires(
    "Additional Constraints", "two FX dumps in one path are noticed in every layout, and the later one is compared"
)
@pytest.mark.parametrize("version", COMMANDS)
def test_two_fx_runs_in_one_path_are_noticed(tmp_path: Path, version: str) -> None:
    dump = write_layout(tmp_path, version)
    second_run(tmp_path / "data_dump" if version == "old" else dump / "msprobe_fx_dump")
    run = msprobe(COMMANDS[version] + " --no-html --replay none", tmp_path, dump_path=dump)
    assert "Warning: FX dumps of several runs or processes are mixed: 48 tensors" in run.outcome.out
    goldens = [row["golden_data_path"] for row in run.compared if row["golden_data_path"].endswith(".npy")]
    assert len(goldens) == 40
    assert all(".202401300641520" in golden for golden in goldens)


# Commands


@requires(
    "GE against FX, command",
    "7.1.0 or later: the folders of both dumps below the dump path are compared",
    "7.1.0: the golden side is data_dump in the folder of the FX dump",
    "before 7.1.0: the golden side is data_dump in the folder where the model ran",
)
@pytest.mark.parametrize("version", COMMANDS)
def test_the_commands_of_all_versions(layouts: dict[str, Run], version: str) -> None:
    run = layouts[version]
    assert run.outcome.code == 0, run.outcome
    assert Counter(row["Result"] for row in run.rows) == {"PASS": 33, "FAIL": 9, "N/A": 2}
    assert {row["token_id"] for row in run.rows if row["Result"] == "FAIL"} == {str(FAULTY_TOKEN)}


@requires("GE against FX, note", "before 7.1.0 the token is the number of its folder less one")
@pytest.mark.parametrize("version", ["7.1.0", "old"])
def test_tokens_of_data_dump_are_one_less_than_their_folders(layouts: dict[str, Run], version: str) -> None:
    assert folders_by_token(layouts[version], -3) == {"0": {"1"}, "1": {"2"}}


@requires("GE against FX, note", "in later versions the folder has the number of the token")
def test_tokens_of_new_versions_are_their_folders(new: Run) -> None:
    assert folders_by_token(new, -2) == {"0": {"0"}, "1": {"1"}}


def folders_by_token(run: Run, part: int) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in run.compared:
        if row["golden_data_path"].endswith(".npy"):
            found.setdefault(row["token_id"], set()).add(row["golden_data_path"].split("/")[part])
    return found


@requires("GE against FX, output_path", "the result is written to this folder")
@requires("GE against GE, output_path", "the result is written to this folder, which is made if it is not there")
@requires("GE against FX, command", "the options may be in any order")
@pytest.mark.parametrize("golden", ["golden", "fusion_off"])
def test_the_result_is_in_the_given_folder(torchair: GraphSample, tmp_path: Path, golden: str) -> None:
    command = (
        "msprobe compare --mode torchair --rank 0 --token 0 --output_path made/out --no-html --golden_path ${golden} "
    )
    run = msprobe(
        command + "--target_path ${target}", tmp_path, target=torchair.target, golden=getattr(torchair, golden)
    )
    assert run.outcome.code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    (table,) = (tmp_path / "made" / "out").glob("*.csv")
    assert f"result: made/out/{table.name}" in run.outcome.out


@requires("GE against FX, output_path", "without the option, the result is in the current folder")
@requires("GE against GE, output_path", "without the option, the result is in the current folder")
@requires("Result File Location", "the table is in the current folder by default; the command names it")
def test_the_default_is_the_current_folder(new: Run, fusion: Run) -> None:
    for run in (new, fusion):
        assert run.path.parent == run.folder
        assert f"result: ./{run.path.name}\n" in run.outcome.out


# GE with fusion against GE without


@requires("GE against GE, command", "the dump of the run with fusion is compared with the dump of the run without")
def test_fusion_on_is_compared_with_fusion_off(fusion: Run) -> None:
    assert fusion.outcome.code == 0
    assert "/ge/msprobe_ge_dump/" in fusion.of("MatMul")["my_data_path"]
    assert "/ge_off/msprobe_ge_dump/" in fusion.of("MatMul")["golden_data_path"]
    assert {row["Result"] for row in fusion.rows} <= {"PASS", "N/A"}


@requires("GE against GE", "the output of a fused operator is compared with that of the last operator in it")
def test_outputs_of_fused_operators(fusion: Run) -> None:
    assert "/Mul.Mul_1." in fusion.of("Add_1Mul_1")["golden_data_path"]


@requires("GE against GE", "an input of a fused operator is compared with that of the operator that reads it")
def test_inputs_of_fused_operators(fusion: Run) -> None:
    readers = [fusion.of("Add_1Mul_1", f"input.{index}")["golden_data_path"] for index in range(3)]
    assert [reader.rpartition("/")[2].split(".")[1] for reader in readers] == ["Add_1", "Add_1", "Mul_1"]
    assert [reader[-9:] for reader in readers] == [",inputs,0", ",inputs,1", ",inputs,1"]


# convert.py


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Dumps of both layouts, each converted by a command of the appendix, with the import that `--install` provides."""
    root = tmp_path_factory.mktemp("convert")
    python = make_environment(tmp_path_factory.mktemp("python"))
    script = write_script(tmp_path_factory.mktemp("script"))
    for version in ("new", "old"):
        write_layout(root / version, version)
    (root / "new" / "dump" / "msprobe_fx_dump" / "done_min_max.npy").write_bytes(npy_file(np.zeros(2)))
    extremes: dict[str, Extremes] = {}
    for path in (*root.rglob("msprobe_*/**/*"), *root.rglob("data_dump/**/*")):
        if path.is_file() and path.suffix != ".txt":
            extremes[str(path.relative_to(root))] = extremes_of(path)
    subprocess.run([python, "-m", "opdiff", "compat-path", "--install"], check=True, capture_output=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    commands = {"msprobe_ge_dump": "new/dump", "msprobe_fx_dump": "new/dump", "data_dump": "old"}
    started = [
        subprocess.Popen(
            [python, "-u", script, name], cwd=root / folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        for name, folder in commands.items()
    ]
    printed: list[str] = []
    for process in started:
        with process:
            assert process.stdout is not None
            for line in process.stdout:
                printed.append(line)
                if line.startswith("Waiting"):
                    process.send_signal(signal.SIGTERM)
                    break
    return Converted(root, extremes, printed)


@requires("Converting Dump Data", "GE: python3 convert.py msprobe_ge_dump runs as written, the import included")
@requires(
    "Converting Dump Data", "GE: a file becomes FILE_min_max.npz with lowest and highest value of each input and output"
)
def test_ge_dumps_are_converted(converted: Converted) -> None:
    names = dict(converted_names(converted, "new/dump/msprobe_ge_dump"))
    assert len(names) == 16
    for name, (inputs, outputs) in names.items():
        with np.load(converted.root / f"{name}_min_max.npz") as found:
            assert found["inputs"].tolist() == inputs
            assert found["outputs"].tolist() == outputs


@requires("Converting Dump Data", "FX of 7.1.0 or later: python3 convert.py msprobe_fx_dump runs as written")
@requires("Converting Dump Data", "FX before 7.1.0: python3 convert.py data_dump runs as written")
@requires("Converting Dump Data", "FX: an array becomes NAME_min_max.npy with its lowest and highest value")
@pytest.mark.parametrize("part", ["new/dump/msprobe_fx_dump", "old/data_dump"])
def test_fx_dumps_are_converted(converted: Converted, part: str) -> None:
    names = dict(converted_names(converted, part))
    assert len(names) == 48
    for name, (_, (extremes,)) in names.items():
        path = converted.root / f"{name.removesuffix('.npy')}_min_max.npy"
        assert np.load(path).tolist() == extremes


@requires("Converting Dump Data", "the original data is deleted")
def test_the_originals_are_deleted(converted: Converted) -> None:
    names = [name for part in ("new/dump", "old/data_dump") for name, _ in converted_names(converted, part)]
    assert converted.files.keys().isdisjoint(names)
    assert len([line for line in converted.printed if line.startswith("Converted: ")]) == len(names)


@requires("Converting Dump Data", "graph texts and data that was converted before are left as they are")
def test_other_files_are_left_alone(converted: Converted) -> None:
    assert sum(name.startswith("new/dump/msprobe_ge_dump/dynamo_") for name in converted.files) == 2
    assert np.load(converted.root / "new/dump/msprobe_fx_dump/done_min_max.npy").tolist() == [0, 0]


@requires(
    "Converting Dump Data", "parse_torchair_dump_data of components.utils.acc_cmp returns inputs and outputs of a file"
)
@requires("Converting Dump Data", "the script shows what it converts, and waits for more in the background")
def test_the_script_names_its_files(converted: Converted) -> None:
    line = next(line for line in converted.printed if "MatMulV2.MatMul." in line)
    before, arrow, after = line.removeprefix("Converted: ").split()
    assert (arrow, after) == ("->", f"{before}_min_max.npz")
    assert converted.printed.count("Waiting...\n") == 3


@requires("Converting Dump Data", "converted dumps are compared with each other: by lowest and highest values")
def test_converted_dumps_are_compared(converted: Converted, tmp_path: Path) -> None:
    run = msprobe(COMMANDS["new"] + " --no-html", tmp_path, dump_path=converted.root / "new" / "dump")
    assert run.outcome.code == 0, run.outcome
    row = run.of(FAULTY_OPERATOR, token=FAULTY_TOKEN)
    with np.load(row["my_data_path"].partition(",")[0]) as reduced:
        ((low, high),) = reduced["outputs"]
    golden_low, golden_high = np.load(row["golden_data_path"])
    assert float(row["Max diff"]) == pytest.approx(high - golden_high)
    assert float(row["Min diff"]) == pytest.approx(low - golden_low)
    assert (row["Mean diff"], row["NormRelativeErr"], row["Result"]) == ("N/A", "N/A", "FAIL")


# The table


@requires("Comparison Result File Format", "the result is a CSV file in which each column is there once")
@requires("Basic Information", "API Name has the operator, input or output, and its number")
@requires("Basic Information", "Data Name has the names of both sides: [data of the NPU, golden data]")
def test_names_of_rows(new: Run) -> None:
    header = next(csv.reader(new.path.read_text().splitlines()))
    assert len(set(header)) == len(header)
    for row in new.compared:
        operator, slot, number = row["API Name"].rsplit(".", 2)
        ours, theirs = (row[f"{side}_data_path"].rpartition("/")[2] for side in ("my", "golden"))
        assert (ours.split(".")[1], ours.split(",")[1:]) == (operator, [f"{slot}s", number])
        assert row["Data Name"] == f"[{ours}, {theirs}]"


@requires(
    "Basic Information", "Stack Info has the line of source code, where a listing of the graph is beside its text"
)
@requires("Basic Information", "Stack Info has the module, where the graph text has it")
def test_stack_info(new: Run, pairs: dict[str, Run]) -> None:
    assert new.of("MatMul")["Stack Info"] == 'File "/home/u/net.py", line 12, in forward'
    assert new.of("Relu")["Stack Info"] == "N/A"
    assert pairs["real"].of("Equal")["Stack Info"] == "module net.fc (torch.nn.Linear)"


@requires(
    "Metrics in Real Data Mode",
    "Cosine is the similarity of the directions of both tensors",
    "EucDist is the Euclidean distance",
    "MaxAbsErr is the largest absolute error",
    "MaxRelativeErr is the largest relative error",
    "One Thousandth Err Ratio is the share of elements with a relative error below 0.001",
    "Five Thousandth Err Ratio is the share of elements with a relative error below 0.005",
)
def test_metrics_of_real_data(new: Run, pairs: dict[str, Run]) -> None:
    rows = [*new.compared, *(pairs["real"].of(name) for name in ("Equal", "BelowLimit", "LowCosine", "AtShares"))]
    assert len(rows) == 46
    for row in rows:
        found = [float(row[name]) for name in REAL]
        assert found == pytest.approx([compute(*sides(row)) for compute in REAL.values()], rel=1e-9), row["API Name"]
    shares = pairs["real"].of("AtShares")
    assert [shares[f"{name} Thousandth Err Ratio"] for name in ("One", "Five")] == ["0.25", "0.75"]


@requires("Metrics in Real Data Mode", "metrics of a right tensor are in their normal ranges")
def test_normal_ranges(new: Run) -> None:
    for row in new.compared:
        if row["token_id"] != str(FAULTY_TOKEN):
            assert 0.99 <= float(row["Cosine"]) <= 1.0
            assert float(row["MaxRelativeErr"]) < 0.01


@requires(
    "Metrics in Real Data Mode",
    "Requires_grad Consistent: dumps do not record gradients, so N/A, which a note says once",
)
def test_gradients(new: Run) -> None:
    assert {row["Requires_grad Consistent"] for row in new.rows} == {"N/A"}
    assert new.outcome.out.count("Requires_grad Consistent is N/A") == 1
    assert not any("equires_grad" in row["Err_message"] for row in new.rows)


@requires(
    "Metrics in Statistics Mode",
    *(f"{name} diff is the difference of {text}" for name, text in zip(STATISTICS, NAMES, strict=True)),
    *(
        f"{name.replace('L2n', 'N')}RelativeErr is the relative error of {text}"
        for name, text in zip(STATISTICS, NAMES, strict=True)
    ),
)
def test_metrics_of_statistics(modes: dict[str, Run]) -> None:
    rows = modes["statistics"].compared
    assert len(rows) == 42
    for row in rows:
        for name, statistic in STATISTICS.items():
            ours, theirs = map(statistic, sides(row))
            assert float(row[f"{name} diff"]) == pytest.approx(ours - theirs, rel=1e-6, abs=1e-12)
            relative = abs(ours / theirs - 1) if ours != theirs else 0
            shown = row[f"{name.replace('L2n', 'N')}RelativeErr"].removesuffix("%")
            assert float(shown) / 100 == pytest.approx(relative, rel=1e-6, abs=1e-12)


@requires("Metrics in MD5 Mode", "NPU MD5 is the CRC-32 of the target", "BENCH MD5 is the CRC-32 of the golden tensor")
def test_checksums(modes: dict[str, Run]) -> None:
    rows = modes["md5"].compared
    assert len(rows) == 42
    for row in rows:
        for title, side in (("NPU MD5", "my"), ("BENCH MD5", "golden")):
            assert int(row[title], 16) == zlib.crc32(load(row[f"{side}_data_path"]).tobytes())


# Results


@requires("Result Information", "Result is PASS or FAIL; N/A for golden operators that nothing was compared with")
@requires("Result Information", "Accuracy Reached or Not is Yes or No")
@requires("Result Information", "Err_message says why a tensor was not compared")
def test_results(new: Run, pairs: dict[str, Run]) -> None:
    for row in (*new.rows, *pairs["real"].rows):
        assert row["Result"] in (("PASS", "FAIL") if row["my_data_path"] else ("N/A",))
        assert row["Accuracy Reached or Not"] in (("Yes", "No") if row["my_data_path"] else ("N/A",))
    real = pairs["real"]
    assert (real.of("Equal")["Accuracy Reached or Not"], real.of("NotANumber")["Accuracy Reached or Not"]) == (
        "Yes",
        "No",
    )
    assert "Alone" not in {row["API Name"] for row in real.compared}
    assert "the target has shape [3], the golden [2]; not compared" in real.of("OtherCount")["Err_message"]


@requires("Determination in Real Data Mode", "PASS: cosine of at least 0.99 and relative error below 0.01, else FAIL")
@requires("Determination in Statistics Mode", "PASS: differences in the acceptable range; FAIL: larger ones")
@requires("Determination in MD5 Mode", "PASS: checksums are equal; FAIL: they differ")
@pytest.mark.parametrize(
    ("mode", "passed", "failed"),
    [
        ("real", ["Equal", "BelowLimit", "Scalar"], ["AtLimit", "LowCosine", "GoldenZero", "NotANumber"]),
        ("statistics", ["Equal", "WithinRange", "NearZero", "LowCosine"], ["OutOfRange", "GoldenZero"]),
        ("md5", ["Equal", "Scalar"], ["BelowLimit", "WithinRange", "NotANumber"]),
    ],
)
def test_pass_and_fail(pairs: dict[str, Run], mode: str, passed: list[str], failed: list[str]) -> None:
    found = {name: pairs[mode].of(name)["Result"] for name in (*passed, *failed)}
    assert found == dict.fromkeys(passed, "PASS") | dict.fromkeys(failed, "FAIL")


@requires("Determination in Real Data Mode", "the limits: 0.99 is a good cosine, 0.01 is a bad relative error")
@pytest.mark.parametrize(
    ("cosine", "relative", "result"), [(0.99, 0.0099, "PASS"), (0.9899, 0, "FAIL"), (1, 0.01, "FAIL")]
)
def test_limits_of_real_data(new: Run, cosine: float, relative: float, result: str) -> None:
    (path,) = new.folder.glob("result_*.json")
    row = load_comparison(str(path)).rows[0]
    assert row.documented is not None
    made = replace(row, documented=replace(row.documented, cosine=cosine, max_relative=relative))
    assert [each.result for each in documented_results([made])] == [result]


@requires("Color Marks", "red: abnormal", "yellow: suspicious", "green: normal")
def test_colours(pairs: dict[str, Run]) -> None:
    marks = {"red": ["LowCosine", "NotANumber"], "yellow": ["AtLimit"], "green": ["Equal", "BelowLimit"]}
    (path,) = pairs["real"].folder.glob("*.xlsx")
    heading, *lines = openpyxl.load_workbook(path).active.iter_rows()
    column = [cell.value for cell in heading].index("color")
    shown: dict[str, set[str]] = {}
    for line in lines:
        shown.setdefault(str(line[column].value), set()).update(cell.fill.fgColor.rgb for cell in line)
    for colour, names in marks.items():
        assert {pairs["real"].of(name)["color"] for name in names} == {colour}
        (fill,) = shown[colour]
        hue = 360 * colorsys.rgb_to_hsv(*bytes.fromhex(fill[-6:]))[0]
        assert HUES[colour][0] <= (hue + 60) % 360 - 60 <= HUES[colour][1]


# Special values


@requires("Special Value Processing", "N/A: the metric cannot be calculated")
@requires("Special Value Processing", "NaN: the result is not a number, because the data has NaN")
@requires("Special Value Processing", "inf: the result is infinite, because of a division by zero")
@requires(
    "Special Value Processing",
    "zeros and NaN in the data give inf or NaN as relative error, and are no error of the run",
)
def test_special_values(pairs: dict[str, Run]) -> None:
    real, statistics = pairs["real"], pairs["statistics"]
    assert real.outcome.code == statistics.outcome.code == 0
    assert [real.of("OtherCount")[name] for name in REAL] == ["N/A"] * 6
    assert real.of("Scalar")["Cosine"] == "N/A"
    assert [real.of("NotANumber")[name] for name in REAL] == ["NaN"] * 6
    assert statistics.of("NotANumber")["Max diff"] == "NaN"
    assert real.of("GoldenZero")["MaxRelativeErr"] == "inf"
    assert (statistics.of("NearZero")["Max diff"][:6], statistics.of("NearZero")["MaxRelativeErr"]) == ("0.0010", "inf")
