"""Reports on the command line: of `compare` and of `report`, gates, and changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from command_line import Capture, run
from made_reports import BAD, GOOD, OFF, judged_comparison, not_compared, row
from opdiff import __version__
from opdiff.cli.result_text import curve_lines, styled
from opdiff.core.reasons import quoted
from opdiff.report.saved_json import load, save
from opdiff.report.summary_text import SummaryLine, Tone
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from pathlib import Path

    from opdiff.core.comparison import Row
    from opdiff.sample import Sample

EVERY = ["--xlsx", "--parquet", "--junit", "--model-explorer"]
ENDINGS = {".csv", ".json", ".html", ".xlsx", ".parquet", ".xml"}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return write_sample(str(tmp_path_factory.mktemp("reports")))


def sides(sample: Sample) -> list[str]:
    return [sample.target, sample.golden, "--rules", sample.rules]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A saved comparison of one good tensor."""
    save(judged_comparison(row("a")), str(tmp_path / "result_1.json"))
    return tmp_path / "result_1.json"


def test_all_forms_or_none(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    done = run(capsys, "compare", *sides(sample), "-o", tmp_path / "all", *EVERY, "--fail-on", "wrong")
    assert (done.code, "gate violated" in done.err) == (1, True)
    assert {path.suffix for path in (tmp_path / "all").iterdir()} == ENDINGS
    assert not list((tmp_path / "all").glob(".*"))
    (report,), (result,) = (tmp_path / "all").glob("report_*.html"), (tmp_path / "all").glob("result_*.csv")
    assert f"report: {report}" in done.out
    assert report.stem == result.stem.replace("result", "report")
    made = load(str(result.with_suffix(".json"))).environment
    assert made.python.startswith("3.")
    assert (made.opdiff, made.kernel in ("native", "NumPy")) == (__version__, True)
    same = [sample.target, sample.target, "-o", tmp_path / "none", "--no-html", "--fail-on", "suspicious"]
    assert run(capsys, "compare", *same).code == 0
    assert {path.suffix for path in (tmp_path / "none").iterdir()} == {".csv", ".json"}


def test_reports_of_saved_comparisons(saved: Path, capsys: Capture) -> None:
    assert run(capsys, "report", saved, *EVERY).code == 0
    assert {path.name for path in saved.parent.iterdir()} == {
        "result_1.json", "report_1.html", "result_1.xlsx", "result_1.parquet", "result_1.junit.xml",
        "model-explorer_1.json",
    }  # fmt: skip
    run(capsys, "report", saved, "-o", saved.with_name("here.html"))
    assert saved.with_name("here.html").exists()


REJECTED = {
    "other file": (("report", "x.json"), 3, "is not a saved comparison"),
    "name of no report": (
        ("report", "result_1.json", "--no-html", "-o", "x.html"),
        2,
        "opdiff: -o is the path of the HTML report; it cannot be combined with --no-html\n",
    ),
    "report over its comparison": (
        ("report", "result_1.json", "-o", "./result_1.json"),
        2,
        "would replace the saved comparison",
    ),
    "changes over their comparison": (
        ("diff", "result_1.json", "result_1.json", "--html", "result_1.json"),
        2,
        "would replace a saved comparison",
    ),
    "no such folder": (
        ("report", "result_1.json", "-o", "nowhere/x.html"),
        3,
        "opdiff: nowhere/x.html: No such file or directory\n",
    ),
}


@pytest.mark.parametrize(("words", "code", "message"), REJECTED.values(), ids=REJECTED)
def test_unusable_files_are_rejected(
    saved: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(saved.parent)
    saved.with_name("x.json").write_text("{}")
    before = saved.read_bytes()
    done = run(capsys, *words)
    assert (done.code, message in done.err) == (code, True), done.err
    assert saved.read_bytes() == before


@pytest.mark.parametrize(
    ("metrics", "gate", "code"),
    [(GOOD, "wrong", 0), (OFF, "wrong", 0), (OFF, "suspicious", 1), (BAD, "wrong", 1), (BAD, "suspicious", 1)],
)
def test_gate_violations(tmp_path: Path, capsys: Capture, metrics: dict[str, Any], gate: str, code: int) -> None:
    save(judged_comparison(row("a", **metrics)), str(tmp_path / "result.json"))
    assert run(capsys, "report", tmp_path / "result.json", "--no-html", "--fail-on", gate).code == code


def test_gate_fails_if_nothing_was_compared(tmp_path: Path, capsys: Capture) -> None:
    save(judged_comparison(not_compared("a")), str(tmp_path / "result.json"))
    done = run(capsys, "report", tmp_path / "result.json", "--no-html", "--fail-on", "wrong")
    assert (done.code, done.err) == (3, "opdiff: nothing was compared, so the gate cannot be passed\n")
    assert run(capsys, "report", tmp_path / "result.json", "--no-html").code == 0


LOOSE = """
[dtype.float16]
noise = 1.0
peak = 1e6
distance = 1e6
cosine = -1.0
[dtype.float32]
noise = 1.0
peak = 1e6
distance = 1e6
cosine = -1.0
"""
STRICT = """
[dtype.float32]
noise = 1e-9
peak = 1e-9
distance = 1e-6
"""


@pytest.mark.parametrize(("limits", "metrics", "code"), [(STRICT, GOOD, 1), (LOOSE, BAD, 0)])
def test_gate_with_its_own_limits(
    tmp_path: Path, capsys: Capture, limits: str, metrics: dict[str, Any], code: int
) -> None:
    made = judged_comparison(row("a", **metrics | {"snr_db": 20.0}))
    save(made, str(tmp_path / "result.json"))
    (tmp_path / "gate.toml").write_text(limits)
    done = run(capsys, "report", tmp_path / "result.json", "--junit", "--fail-on", tmp_path / "gate.toml")
    assert done.code == code
    assert (f"tensors that are wrong by {tmp_path / 'gate.toml'}" in done.err) == bool(code)
    # Reports use the usual limits.
    (junit,) = tmp_path.glob("*.junit.xml")
    assert ("<failure" in junit.read_text()) == (metrics is BAD)


def test_limits_of_a_gate_do_not_affect_the_judgement(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    loose = tmp_path / "loose.toml"
    loose.write_text(LOOSE)
    assert run(capsys, "compare", *sides(sample), "-o", tmp_path / "a", "--fail-on", "wrong").code == 1
    done = run(capsys, "compare", *sides(sample), "-o", tmp_path / "b", "--fail-on", loose)
    # NaN and infinities are wrong by any limits.
    assert done.code == 1
    judgements = [load(str(next((tmp_path / name).glob("*.json")))).judgement for name in "ab"]
    assert judgements[0] == judgements[1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is neither one of wrong, suspicious nor an existing file of limits"),
        ("[dtype.float16]\nnoise = 7\n", "dtype.float16: Expected `float` <= 1.0 - at `$.noise`"),
        ("=", "is not a valid limits file"),
    ],
    ids=["no file", "out of range", "not TOML"],
)
@pytest.mark.parametrize("command", ["compare", "report"])
def test_invalid_gate_is_rejected_before_any_work(
    tmp_path: Path, capsys: Capture, command: str, content: str | None, message: str
) -> None:
    gate = tmp_path / "worse"
    if content is not None:
        gate.write_text(content)
    given = {"compare": ("nothing", "nothing", "-o", tmp_path / "out"), "report": ("nothing.json",)}[command]
    done = run(capsys, command, *given, "--fail-on", gate)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "out").exists()


LOST = replace(row("b"), metrics=None, reason=quoted("the file was cut off"))


@pytest.mark.parametrize(
    ("before", "after", "losses"),
    [
        ([row("a")], [row("a"), row("b")], ""),
        ([row("a")], [row("a"), row("b", **BAD)], "new and bad: 1"),
        ([row("a"), row("b")], [row("a"), LOST], "not compared any more: 1"),
        ([row("a"), row("b")], [row("a")], "not compared any more: 1"),
    ],
    ids=["new", "new and bad", "not compared", "vanished"],
)
def test_gate_of_changes(tmp_path: Path, capsys: Capture, before: list[Row], after: list[Row], losses: str) -> None:
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    save(judged_comparison(*before), old)
    save(judged_comparison(*after), new)
    done = run(capsys, "diff", old, new, "--fail-on", "worse")
    assert (done.code, done.err) == ((1, f"opdiff: gate violated: {losses}\n") if losses else (0, ""))


def test_changes_are_printed(tmp_path: Path, capsys: Capture) -> None:
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    save(judged_comparison(row("a"), row("b", **BAD), row("c")), old)
    save(judged_comparison(row("a", **BAD), row("b"), row("d")), new)
    done = run(capsys, "diff", old, new)
    assert done.code == 0
    assert "worse: 1\n  a:output:0: noise -> wrong, cosine 0.999999 -> 0.500000" in done.out
    assert re.findall(r"^(\w+): \d", done.out, re.MULTILINE) == ["worse", "vanished", "appeared", "better"]
    assert run(capsys, "diff", old, new, "--fail-on", "worse").code == 1
    assert run(capsys, "diff", old, old, "--fail-on", "worse").code == 0
    found = run(capsys, "diff", old, new, "--json").json
    assert [change["kind"] for change in found["rows"]] == ["worse", "vanished", "appeared", "better"]
    run(capsys, "diff", old, new, "--html", tmp_path / "diff.html")
    assert (tmp_path / "diff.html").stat().st_size > 10_000


def test_long_lists_of_changes_are_shortened(tmp_path: Path, capsys: Capture) -> None:
    names = [f"op{number}" for number in range(30)]
    save(judged_comparison(*(row(name) for name in names)), str(tmp_path / "old.json"))
    save(judged_comparison(*(row(name, **BAD) for name in names)), str(tmp_path / "new.json"))
    assert "  and 10 more" in run(capsys, "diff", tmp_path / "old.json", tmp_path / "new.json").out


class Terminal:
    """A standard output that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


def test_lines_are_coloured_and_cut_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "  [89] " + "long/" * 30 + "name:output:0 0.922603"
    line = SummaryLine(text, Tone.BAD)
    assert styled(line) == text
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert re.fullmatch(r"\x1b\[31m  \[89\] long/.*….*0\.922603\x1b\[0m", styled(line))
    assert len(styled(line)) == 80 + len("\x1b[31m\x1b[0m")
    monkeypatch.setenv("NO_COLOR", "1")
    assert len(styled(line)) == 80
    assert styled(SummaryLine(text, must_be_whole=True)) == text


def test_curve_needs_an_encoding_with_its_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    made = judged_comparison(row("a"), row("b", **BAD))
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert curve_lines(made) == ("curve: ▅█",)
    monkeypatch.setattr(Terminal, "encoding", "ascii")
    assert curve_lines(made) == ()


def test_reports_and_answer_in_a_folder(saved: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "out").mkdir()
    outcome = run(capsys, "report", saved, "-o", tmp_path / "out", "--junit", "--json")
    assert outcome.json["schema"] == "opdiff-answer"
    assert sorted(file.suffix for file in (tmp_path / "out").iterdir()) == [".html", ".xml"]
    assert run(capsys, "judge", saved, "--json").json["verdict"] == "wrong"
