"""The command line as a whole: help, exit codes, streams and memory."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import COMMAND, Capture, run, run_outside
from dump_files import TIME, add, dump, numbered, tensor
from opdiff import __version__
from opdiff.cli import cmd_inspect, main
from opdiff.cli.exit_codes import ExitCode
from opdiff.cli.parsers import COMMANDS, command_parser
from opdiff.measure.kernel import library

# Help


def test_help_lists_the_commands(capsys: Capture) -> None:
    outcome = run(capsys, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    for command in COMMANDS:
        assert f"\n    {command} " in outcome.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(capsys: Capture, command: str) -> None:
    outcome = run(capsys, command, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: {os.path.basename(sys.argv[0])} {command} [-h]")
    examples, _, summary = outcome.out.rpartition("exit codes: ")
    assert re.search(rf"\nexamples?:\n(  .*\n)*  .*\b(opdiff|msprobe) {command}\b", examples)
    assert re.findall(r"(?:^|, |,\n *)(\d+) ", summary) == [str(code.value) for code in ExitCode]


def test_exit_codes_are_on_their_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text()
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == [str(code.value) for code in ExitCode]


@pytest.mark.parametrize(("columns", "width"), [("70", 68), ("130", 128), ("", 78), ("0", 78), ("wide", 78)])
def test_help_has_the_width_that_the_environment_sets(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    usage = run(capsys, "compare", "--help").out.partition("\n\n")[0]
    assert width - 12 < max(map(len, usage.splitlines())) <= width


def test_no_command_shows_help_or_version(capsys: Capture) -> None:
    outcome = run(capsys)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("usage: ")


@pytest.mark.parametrize(
    ("selected", "kernel"),
    [("", "native, "), ("numpy", "NumPy)"), ("missing", "NumPy, because the native one is missing)")],
)
def test_the_version_names_the_kernel(
    selected: str, kernel: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPDIFF_KERNEL", "" if selected == "missing" else selected)
    if selected == "missing":
        monkeypatch.setattr("opdiff.measure.kernel.library._LIBRARY", "/nowhere/_kernel.so")
    elif not selected and library.find_library() is None:
        pytest.skip("the native kernel was not built")
    outcome = run(capsys, "--version")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"opdiff {__version__} (kernel: {kernel}")


def test_a_wrong_kernel_is_an_error_of_usage(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPDIFF_KERNEL", "/nowhere/kernel.so")
    outcome = run(capsys, "--version")
    assert (outcome.code, outcome.out) == (2, "")
    assert "OPDIFF_KERNEL: /nowhere/kernel.so is not a kernel of this version" in outcome.err


@pytest.mark.parametrize(("selected", "is_told"), [("", True), ("numpy", False)], ids=["missing", "chosen"])
def test_a_comparison_says_once_that_the_kernel_is_missing(
    selected: str, *, is_told: bool, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opdiff.measure.kernel.library._LIBRARY", "/nowhere/_kernel.so")
    monkeypatch.setenv("OPDIFF_KERNEL", selected)
    for folder in ("a", "b"):
        add(tmp_path / folder, f"Add.x.1.2.{TIME}", dump(tensor([1.0, 2.0])))
    outcome = run(capsys, "compare", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "out", "--no-html")
    assert outcome.code == 0
    speed = r"NumPy measures: on this machine [\d.]+ [KMG]i?B per second and core\. In opdiff's benchmark, "
    told = rf"opdiff: note: the native kernel is missing, so {speed}comparisons took 4 to 8 times as long with NumPy\. "
    assert len(re.findall(told, outcome.err)) == is_told


def test_a_comparison_goes_on_without_memory_for_the_speed_of_numpy(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> float:
        raise MemoryError

    monkeypatch.setattr("opdiff.measure.kernel.library._LIBRARY", "/nowhere/_kernel.so")
    monkeypatch.setattr("opdiff.measure.reference.speed.measure_speed", refuse)
    for folder in ("a", "b"):
        add(tmp_path / folder, f"Add.x.1.2.{TIME}", dump(tensor([1.0, 2.0])))
    outcome = run(capsys, "compare", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "out", "--no-html")
    assert (outcome.code, outcome.err) == (0, "")
    assert list((tmp_path / "out").glob("*.csv"))


MISTAKES = {
    "command": ("comapre a b", "unknown command 'comapre'; did you mean compare?"),
    "no such command": ("transmogrify", "unknown command 'transmogrify'; --help lists the commands"),
    "option first": ("-q compare a b", "-q: the command comes first, then its options"),
    "option of the program": ("--verison", "unknown option --verison; did you mean --version?"),
    "option": ("convert a --tpye npy", "unknown option --tpye; did you mean --type?"),
    "beginning of an option": ("compare a b --fusion x", "unknown option --fusion; did you mean --fusion-rule-file?"),
    "option with a value": ("compare a b --rule=x", "unknown option --rule; did you mean --rules?"),
    "option of a required value": ("golden net.onnx --ouput x", "unknown option --ouput; did you mean --output?"),
    "no such option": ("inspect a --zzzzz", "unknown option --zzzzz\n"),
    "short option": ("topn a b -x", "unknown option -x"),
    "too many": ("inspect a b", "unrecognized arguments: b"),
    "too few": ("inspect", "the following arguments are required: PATH"),
}


@pytest.mark.parametrize(("words", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(capsys: Capture, words: str, message: str) -> None:
    outcome = run(capsys, *words.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert f"error: {message}" in outcome.err
    assert len(outcome.err.splitlines()) == 2


def test_long_options_may_have_underscores(capsys: Capture, tmp_path: Path) -> None:
    path = add(tmp_path, f"Add.a_b.1.2.{TIME}", numbered(2))
    outcome = run(capsys, "convert", f"--dump_file={path}", "--output_dir", tmp_path / "a_b", "--output_tensor=0")
    assert (outcome.code, os.listdir(tmp_path / "a_b")) == (0, [f"Add.a_b.1.2.{TIME}.output.0.npy"])
    assert "--a_b: no such file" in run(capsys, "inspect", "--", "--a_b").err


@pytest.mark.parametrize("name", COMMANDS)
def test_one_vocabulary_of_options(name: str) -> None:
    """Dashes in long options, `-o` with `--output`, and a file for JSON that may be left out."""
    actions = [action for action in command_parser(name).actions if action.option_strings]
    assert [option for action in actions for option in action.option_strings if re.match("--.*_", option)] == []
    for action in actions:
        assert ("-o" in action.option_strings) == ("--output" in action.option_strings)
        assert "--json" not in action.option_strings or (action.nargs, action.const) == ("?", "-")


def test_json_goes_to_a_file(capsys: Capture, tmp_path: Path) -> None:
    path = add(tmp_path, "a")
    printed = run(capsys, "inspect", path, "--json")
    written = run(capsys, "inspect", path, "--json", tmp_path / "a.json")
    assert written.out.endswith(f"result: {tmp_path / 'a.json'}\n")
    assert json.loads((tmp_path / "a.json").read_bytes()) == printed.json


@pytest.mark.parametrize("content", [b"\0dump", b'{"schema": "opdiff.comparison", '], ids=["dump", "saved comparison"])
def test_json_replaces_no_other_file(capsys: Capture, tmp_path: Path, content: bytes) -> None:
    first, second = add(tmp_path, "a", content), add(tmp_path, "b", content)
    outcome = run(capsys, "convert", "--json", first, second)
    assert (outcome.code, Path(first).read_bytes()) == (2, content)
    assert f"{first} exists and would be replaced; for JSON on standard output, put --json last" in outcome.err
    assert "would be replaced" in run(capsys, "inspect", "--json", tmp_path, first).err


def test_inspecting_a_file_does_not_need_numpy(tmp_path: Path) -> None:
    code = "import sys\nfrom opdiff.cli import main\nmain(sys.argv[1:])\nassert 'numpy' not in sys.modules\n"
    arguments = ["inspect", add(tmp_path, "a"), "--json"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", [True, False], ids=["python_m", "script"])
def test_separate_process(tmp_path: Path, *, module: bool) -> None:
    script = os.path.join(os.path.dirname(sys.executable), "opdiff")
    command = COMMAND if module or not os.path.exists(script) else (script,)
    path = add(tmp_path, "a")
    done = subprocess.run([*command, "convert", path], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 of 1 file converted: 1 result from 43 B in ")
    assert done.stdout.endswith(" s, to ./\n")


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_garbage_collector_setting_is_restored(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, *, enabled: bool
) -> None:
    during: list[bool] = []

    def look(_args: object) -> int:
        during.append(gc.isenabled())
        return 0

    monkeypatch.setattr(cmd_inspect, "run", look)
    (gc.enable if enabled else gc.disable)()
    try:
        run(capsys, "inspect", "x")
        assert (during, gc.isenabled()) == ([False], enabled)
    finally:
        gc.enable()


# Errors and exit codes


def test_usage_error_of_a_command(capsys: Capture) -> None:
    outcome = run(capsys, "convert")
    assert (outcome.code, outcome.out, outcome.err) == (2, "", "opdiff: give a dump file or a directory\n")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (KeyboardInterrupt(), 130, "opdiff: interrupted\n"),
        (OSError(28, "No space left on device"), 3, "opdiff: No space left on device\n"),
        (PermissionError(13, "Permission denied", "/x\x1b"), 3, "opdiff: /x\\x1b: Permission denied\n"),
        (
            ZeroDivisionError("a mistake"),
            70,
            "ZeroDivisionError: a mistake\nopdiff: this is a defect of opdiff; please report it with the lines above\n",
        ),
    ],
    ids=["interrupt", "disk_full", "no_permission", "defect"],
)
def test_only_defects_show_a_traceback(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, text: str
) -> None:
    def stopped(_args: object) -> int:
        raise error

    monkeypatch.setattr(cmd_inspect, "run", stopped)
    outcome = run(capsys, "inspect", "x")
    assert (outcome.code, outcome.err.endswith(text)) == (code, True)
    assert (outcome.err == text) == (code != 70)


@pytest.mark.parametrize(
    ("words", "prints_steps"),
    [(["-q"], False), ([], False), (["-q", "-v"], False), (["-q", "-vv"], True), (["-v"], True)],
    ids=["q", "plain", "q_v", "q_vv", "v"],
)
def test_verbosity(tmp_path: Path, capsys: Capture, words: list[str], *, prints_steps: bool) -> None:
    path = add(tmp_path, "a\x1b[31mb", dump(tensor(np.ones((1, 1)))))
    outcome = run(capsys, "convert", path, "-f", "NCHW", "-out", tmp_path / "out", *words)
    steps = f"opdiff: {tmp_path}/a\\x1b[31mb: output:0: NCHW with 2 axes is treated as ND\n"
    assert (outcome.code, outcome.err) == (0, steps if prints_steps else "")


# Names and paths


@pytest.mark.parametrize("name", ["a b", "ü 算 é", "[red]x[/red]", "-x", "a,b", "$(id)", "a\nb"], ids=repr)
def test_any_path(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    add(tmp_path / name, f"Add.a.1.2.{TIME}")
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "convert", f"./{name}", "-out", f"./{name} out").code == 0
    assert os.listdir(f"{name} out") == [f"Add.a.1.2.{TIME}.output.0.npy"]
    assert run(capsys, "inspect", f"./{name}", "--json").json["path"] == f"./{name}"


def test_any_path_in_a_separate_process(tmp_path: Path) -> None:
    add(tmp_path / "ü 算", f"Add.a.1.2.{TIME}")
    assert run_outside("convert", "ü 算", "-out", "ü out", "-j", 2, cwd=tmp_path).code == 0
    assert os.listdir(tmp_path / "ü out") == [f"Add.a.1.2.{TIME}.output.0.npy"]


UNSAFE_NAMES = [
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "[red]x[/red]",
    "[link=http://x]y[/link]",
    ":smile:",
    "a\rb",
    "a\nb\x9b",
]


@pytest.mark.parametrize("name", UNSAFE_NAMES, ids=repr)
def test_names_are_printed_safely(tmp_path: Path, capsys: Capture, name: str) -> None:
    """File names, names in headers, and columns of statistics are escaped."""
    op_name = f"net/{name}"
    good = add(tmp_path / "in", f"good{name.replace('/', '_')}", dump(tensor([1.0]), op_name=op_name))
    bad = add(tmp_path / "in", f"bad{name.replace('/', '_')}", b"")
    empty = add(tmp_path / "in", f"none{name.replace('/', '_')}", dump())
    rows = (
        f"Input/Output,Index,{name}\nInput,0,1\n" if "\n" not in name and "\r" not in name else "Input/Output,Index\n"
    )
    statistics = add(tmp_path / "in", f"Add.a.1.2.{TIME}.csv", rows.encode())
    outcomes = [
        run(capsys, "inspect", good, "--stats"),
        run(capsys, "inspect", bad),
        run(capsys, "inspect", statistics),
        run(capsys, "inspect", tmp_path / "in", "--all"),
        run(capsys, "convert", tmp_path / "in", "-out", tmp_path / "out"),
        run(capsys, "convert", empty, "-out", tmp_path / "out"),
        run(capsys, "inspect", tmp_path / f"missing{name.replace('/', '_')}"),
    ]
    assert [outcome.code for outcome in outcomes] == [0, 3, 0, 0, 0, 0, 3]
    text = "".join(outcome.out + outcome.err for outcome in outcomes)
    assert [char for char in text if not char.isprintable() and char != "\n"] == []
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name)
    assert f"operator: net/{shown}" in outcomes[0].out
    assert shown.replace("/", "_") in outcomes[1].err
    assert shown.replace("/", "_") in outcomes[4].err


def test_main_reads_the_arguments_of_the_process(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["opdiff", "inspect", add(tmp_path, "a", numbered(2))])
    assert main() == 0
    assert "output:0" in capsys.readouterr().out
