"""Exchanged sides and rule files, wrong and mixed directories: refused or warned about, with a command that runs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from command_line import Outcome, run
from made_dumps import Case, describe, numbers, rule
from opdiff.core.remote import store
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import GraphSample, write_graph_sample
from opdiff.workflows.compare.input_checks import golden_origin_notes

X = numbers(3, 5)
ON = (rule("ab", originals=("a", "b"), outputs=(describe("b", 0),)), rule("c", outputs=(describe("c", 0),)))
OFF = tuple(rule(name, outputs=(describe(name, 0),)) for name in ("a", "b", "c"))


@pytest.fixture
def fusion(case: Case) -> Case:
    """A model with fusion on as the target, with fusion off as the golden side."""
    for name in ("ab", "c"):
        case.npu(name, X)
    for name in ("a", "b", "c"):
        case.npu_golden(name, X)
    case.rules(*ON, file="on.json")
    case.rules(*OFF, file="off.json")
    return case


def follow(capsys: pytest.CaptureFixture[str], told: str, out: Path) -> Outcome:
    """Run the command that a message has, which must not be refused; return its outcome."""
    (command,) = re.findall(r"(?:: |^  )(opdiff compare .*)$", told, re.MULTILINE)
    done = run(capsys, *shlex.split(command)[1:], "-o", out, "--no-html")
    assert done.code == 0, done
    assert "Warning" not in done.out
    return done


@pytest.mark.parametrize(
    ("sides", "rules", "code", "told"),
    [
        pytest.param(("target", "golden"), ("on", "off"), 0, "", id="right"),
        pytest.param(("golden", "target"), ("on", "off"), 3, "Exchange -tp and -gp: ", id="sides"),
        pytest.param(("target", "golden"), ("off", "on"), 3, "Exchange -fr and -cfr: ", id="rules"),
        pytest.param(("golden", "target"), ("off", "on"), 0, "Exchange the sides and the rule files:", id="both"),
    ],
)
def test_fusion_on_and_off(
    fusion: Case, sides: tuple[str, str], rules: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    given = [word for option, name in zip(("-fr", "-cfr"), rules, strict=False) for word in (option, f"{name}.json")]
    words = [tmp_path / word if word.endswith("json") else word for word in given]
    done = run(fusion.capsys, "compare", *(tmp_path / side for side in sides), *words, "-o", fusion.out, "--no-html")
    assert done.code == code, done
    said = done.err if code else done.out
    assert told in said.replace("\n  ", " ")
    assert said.startswith("Warning: ") == bool(told and not code)
    if code:
        forced = run(
            fusion.capsys, "compare", *(tmp_path / side for side in sides), *words, "--force", "-o", fusion.out
        )
        assert forced.out.startswith("Warning: ")
    if told:
        follow(fusion.capsys, said, fusion.out)


def replace_c(fusion: Case) -> None:
    """Make the result of operator c of the run with fusion on another one."""
    for path in fusion.target.glob("Op.c.*"):
        path.unlink()
    fusion.npu("c", 3 * X)


@pytest.mark.parametrize(
    ("sides", "told"),
    [
        (("target", "golden"), "ab of the target consists of a, b of the golden dump"),
        (("golden", "target"), "ab of the golden dump consists of a, b of the target"),
    ],
    ids=["target fused", "golden fused"],
)
def test_other_fusion_without_rules(fusion: Case, sides: tuple[str, str], told: str, tmp_path: Path) -> None:
    """No operator is blamed: operator c differs, but its tensors need not be the same."""
    replace_c(fusion)
    compare = ("compare", *(tmp_path / side for side in sides), "-o", fusion.out, "--no-html")
    done = run(fusion.capsys, *compare, "--json", tmp_path / "answer.json", "--remedies", tmp_path / "remedies")
    text = done.out.replace("\n  ", " ")
    assert done.code == 3
    assert text.startswith("Warning: the models were compiled with different fusion: " + told)
    assert f"opdiff compare {tmp_path / 'target'} {tmp_path / 'golden'} -fr FUSION_ON.json -cfr FUSION_OFF.json" in text
    assert "No operator can be judged" in text
    assert "--soc_version=SOC_VERSION --output=fusion_off --fusion_switch_file=fusion_switch_all_off.cfg" in text
    assert "at fault" not in text
    answer = json.loads((tmp_path / "answer.json").read_bytes())
    assert (answer["verdict"], answer["findings"]) == ("unsure", [])
    assert '"ALL": "off"' in (tmp_path / "remedies" / "fusion_switch_all_off.cfg").read_text()
    again = run(fusion.capsys, "judge", fusion.out).out
    assert "No operator can be judged" in again
    assert "at fault" not in again
    assert "unsure: the inputs do not fit together" in run(fusion.capsys, *compare, "-q").out


def test_other_fusion_is_judged_with_force(fusion: Case) -> None:
    replace_c(fusion)
    done = run(fusion.capsys, "compare", fusion.target, fusion.golden, "-o", fusion.out, "--no-html", "--force")
    assert done.code == 0
    assert done.out.startswith("Warning: the models were compiled with different fusion")
    assert "c (Op) is at fault" in done.out


@pytest.mark.parametrize("copied", [False, True], ids=["one_path", "equal_files"])
@pytest.mark.parametrize(
    ("golden", "code", "told"),
    [
        (("ab", "c"), 0, "so that both runs are taken for runs of it"),
        (("ab", "c", "d"), 0, "which does not have 1 operator of the golden dump (d)"),
        (("a", "b", "c"), 3, "which does not have 2 operators of the golden dump (a, b)"),
    ],
    ids=["same_operators", "one_unknown", "fusion_off"],
)
def test_one_model_as_both_rule_files(
    case: Case, golden: tuple[str, ...], code: int, told: str, *, copied: bool
) -> None:
    for name in ("ab", "c"):
        case.npu(name, X)
    for name in golden:
        case.npu_golden(name, X)
    first, second = (case.rules(*ON, file=name) for name in ("on.json", "copy.json" if copied else "on.json"))
    case.rules(*OFF, file="off.json")
    done = case.run("-fr", first, "-cfr", second, "--no-html")
    said = (done.err if code else done.out).replace("\n  ", " ")
    assert done.code == code
    assert f"-fr and -cfr describe the same model, {told}" in said
    assert said.startswith("Warning: ") == (not code)
    if code:
        follow(case.capsys, said.replace("FUSION_OFF.json", str(case.root / "off.json")), case.out)


def test_a_warning_is_part_of_every_report(fusion: Case) -> None:
    answer = fusion.root / "answer.json"
    assert fusion.run("--json", answer, "--no-html").out.startswith("Warning: the models were compiled with different")
    assert '"Warning: the models were compiled with different fusion' in answer.read_text()
    judged = run(fusion.capsys, "judge", fusion.out)
    assert judged.out.startswith("Warning: the models were compiled with different fusion")
    assert run(fusion.capsys, "judge", fusion.out, "--lang", "zh").out.startswith("警告：")  # noqa: RUF001


def test_fusion_and_quantization_rules_exchanged(case: Case) -> None:
    names = ("a_quant_layer", "a", "a_dequant_layer")
    case.npu("a_quant_layer", X)
    case.npu("aa_dequant_layer", X)
    case.npy("a", X)
    compiled = rule("aa_dequant_layer", originals=names[1:], outputs=(describe("a_dequant_layer", 0),))
    network = case.rules(rule("a_quant_layer", originals=("a_quant_layer",)), compiled, file="network.json")
    quantized = (rule(name, originals=("a",), outputs=(describe("a", 0),)) for name in names)
    quant = case.rules(*quantized, file="quant.json")
    assert case.run("-fr", network, "-qfr", quant).code == 0
    done = case.run("-fr", quant, "-qfr", network)
    assert done.code == 3
    assert f"{quant}: the rule files are exchanged: {network} describes the compiled model" in done.err
    follow(case.capsys, done.err, case.out)


@pytest.mark.parametrize("option", ["-v", "-q"])
@pytest.mark.parametrize("above", [False, True])
def test_one_dump_on_both_sides(case: Case, *, above: bool, option: str) -> None:
    case.npu("a", X)
    folder = case.root if above else case.target
    done = run(case.capsys, "compare", case.target, folder, "-o", case.out, option)
    assert done.code == 0
    assert done.out.startswith("Warning: target and golden are the same dump: ")


@pytest.mark.parametrize("is_equal", [True, False])
def test_a_copy_of_the_target_as_golden(case: Case, *, is_equal: bool) -> None:
    case.npu("a", X)
    copy = shutil.copytree(case.target, case.root / "copy")
    if not is_equal:
        case.npu("a", 2 * X)
    done = run(case.capsys, "compare", case.target, copy, "-o", case.out)
    assert done.out.startswith("Warning: target and golden are the same dump: ") == is_equal


@pytest.fixture
def graphs(tmp_path: Path) -> GraphSample:
    return write_graph_sample(str(tmp_path / "graphs"), ranks=1, tokens=1)


class Compare:
    """Comparisons of graphs, without a page."""

    def __init__(self, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._out, self._capsys = out, capsys

    def __call__(self, target: object, golden: object, mode: str = "") -> Outcome:
        words = ("-m", mode) if mode else ()
        return run(self._capsys, "compare", target, golden, *words, "-o", self._out, "--no-html")

    def follow(self, told: str) -> Outcome:
        """Run the command that a message has."""
        return follow(self._capsys, told, self._out)


@pytest.fixture
def compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    return Compare(tmp_path / "out", capsys)


@pytest.mark.parametrize(
    ("target", "golden", "told"),
    [
        ("fx", "ge", "target and golden are exchanged: this is an FX dump"),
        ("fx", "fx", "this is an FX dump; the target is a dump of the graph engine (GE), FX is the golden"),
        ("ge_off", "ge", "Add_1Mul_1 of the golden dump consists of Add_1, Mul_1 of the target"),
        ("ge", ".", "there are several dumps here; give one of them: "),
        (".", "fx", "there are several dumps here; give one of them: "),
    ],
)
def test_directories_of_graph_mode(graphs: GraphSample, target: str, golden: str, told: str, compare: Compare) -> None:
    root = Path(graphs.target).parents[1]
    done = compare(root / target, root / golden, "torchair")
    assert done.code == 3
    assert told in done.err
    if "opdiff compare" in done.err:
        compare.follow(done.err)


def test_a_golden_directory_above_both_dumps(graphs: GraphSample, tmp_path: Path, compare: Compare) -> None:
    root = tmp_path / "graphs"
    shutil.move(root / "ge_off", tmp_path / "ge_off")
    done = compare(graphs.target, root, "torchair")
    assert done.code == 3
    assert "the golden directory contains the dump of the target" in done.err
    assert "GE with fusion on against FX" in compare.follow(done.err).out
    ambiguous = compare(tmp_path / "ge_off", root, "torchair")
    assert f"give one of them: {graphs.target}, {graphs.golden}" in ambiguous.err
    # The target can only be the dump of the graph engine.
    assert compare(root, graphs.golden, "torchair").code == 0


@pytest.mark.parametrize("copied", [False, True])
def test_one_dump_of_graph_mode_on_both_sides(
    graphs: GraphSample, tmp_path: Path, compare: Compare, *, copied: bool
) -> None:
    golden = shutil.copytree(graphs.target, tmp_path / "copy") if copied else graphs.target
    assert "Warning: target and golden are the same dump: " in compare(graphs.target, golden).out


MIXED = "Warning: FX dumps of several runs or processes are mixed: "


def test_two_fx_runs_in_one_directory(graphs: GraphSample, tmp_path: Path, compare: Compare) -> None:
    assert "Warning" not in compare(graphs.target, graphs.golden).out
    for path in (tmp_path / "graphs" / "fx").rglob("*.npy"):
        stem, time, _ = path.name.rsplit(".", 2)
        shutil.copy(path, path.with_name(f"{stem}.{int(time) + 7_000_000}.npy"))
    assert MIXED in compare(graphs.target, graphs.golden).out


@pytest.mark.parametrize("version", ["7.1.0", "old"])
@pytest.mark.parametrize("part", ["*.npy", "relu-*.npy"])
def test_two_fx_runs_in_one_directory_without_numbers_of_graphs(
    tmp_path: Path, compare: Compare, version: str, part: str
) -> None:
    """The second run is wrong, so that it is seen which of them is compared."""
    made = write_graph_sample(str(tmp_path), ranks=1, tokens=1, faulty=False, version=version)
    (first,) = (tmp_path / made.golden / "1").iterdir()
    second = first.with_name("gm_99990130064151000000_dump")
    second.mkdir()
    paths = list(first.glob(part))
    for path in paths:
        stem, time, _ = path.name.rsplit(".", 2)
        np.save(second / f"{stem}.{int(time) + 7_000_000}.npy", np.load(path) * 2)
    done = compare(made.target, made.golden, "torchair").out
    assert (
        f"{MIXED}{len(paths)} tensors in folders such as {second} were dumped more than once; the latest are"
        in " ".join(done.split())
    )
    assert "no tensor fails" not in done


def test_two_graphs_of_one_fx_run_without_numbers(tmp_path: Path, compare: Compare) -> None:
    made = write_graph_sample(str(tmp_path), ranks=1, tokens=1, faulty=False, version="old")
    (first,) = (tmp_path / made.golden / "1").iterdir()
    shutil.copytree(first, first.with_name("gm_99990130064151000000_dump"))
    for text in (tmp_path / made.target).glob("*.txt"):
        shutil.copy(text, text.with_name(text.name.replace("graph_1", "graph_2")))
    assert MIXED not in compare(made.target, made.golden, "torchair").out


def test_two_fx_runs_below_one_directory(graphs: GraphSample, tmp_path: Path, compare: Compare) -> None:
    runs = tmp_path / "runs"
    for name in ("first", "second"):
        shutil.copytree(graphs.golden, runs / name)
    done = compare(graphs.target, runs, "torchair")
    assert done.code == 3
    assert "there are several dumps here; give one of them: " in done.err
    assert {str(runs / "first"), str(runs / "second")} == set(done.err.strip().rpartition(": ")[2].split(", "))


def test_the_mode_of_the_other_kind_of_dump(graphs: GraphSample, tmp_path: Path, compare: Compare) -> None:
    for golden in (graphs.golden, graphs.fusion_off):
        done = compare(graphs.target, golden, "offline_data")
        assert done.code == 3
        assert "this is a dump of graph mode, which is compared by: " in done.err
        compare.follow(done.err)
    first, second = (write_sample(str(tmp_path / name)) for name in ("first", "second"))
    (Path(second.target) / "Flatten.head_flatten.53.3.1700000100008823").unlink()
    done = compare(first.target, second.target, "torchair")
    assert done.code == 3
    assert "this is a dump of an offline model, not of graph mode" in done.err
    compare.follow(done.err)
    done = compare(first.target, first.golden, "torchair")
    assert "dumps of offline models are compared with -m offline_data" in done.err


def test_graph_mode_is_detected_one_folder_above_its_dump(graphs: GraphSample, compare: Compare) -> None:
    root = Path(graphs.target).parents[1]
    assert "GE with fusion on" in compare(root / "ge", root / "fx").out


def test_a_store_that_refuses_the_manifest_costs_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_origin: str) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(store, "connect", refuse)
    (note,) = golden_origin_notes("memory://refusing/golden", [])
    assert note.code == "compare.golden_manifest_unreadable"
    assert "Permission denied" in str(note)
