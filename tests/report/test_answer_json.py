"""The answer for programs, in both modes and for all exit codes that have one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from command_line import Capture, run
from made_comparisons import measured
from made_reports import judged_comparison, many_tokens, not_compared, row, strange_names, with_judgement
from opdiff.core.comparison import Mode
from opdiff.report.answer_json import Answer, encode_answer, make_answer, make_failure
from opdiff.sample import write_sample
from opdiff.sample.graph_mode import write_graph_sample

if TYPE_CHECKING:
    from opdiff.sample import Sample

SCHEMA = Path(__file__).parents[2] / "docs" / "formats" / "answer.schema.json"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return write_sample(str(tmp_path_factory.mktemp("sample") / "s"))


def read(path: Path) -> Any:
    """Return the document after a strict check of its types."""
    data = path.read_bytes()
    assert isinstance(msgspec.json.decode(data, type=Answer), Answer)
    return json.loads(data)


def test_schema_matches_the_classes() -> None:
    assert json.loads(SCHEMA.read_text()) == msgspec.json.schema(Answer)


def test_an_offline_comparison(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    words = ["compare", sample.target, sample.golden, "--rules", sample.rules, "-o", tmp_path, "--no-html"]
    assert run(capsys, *words, "--fail-on", "wrong", "--json", tmp_path / "answer.json").code == 1
    answer = read(tmp_path / "answer.json")
    assert (answer["schema"], answer["version"], answer["mode"], answer["verdict"]) == (
        "opdiff-answer", 1, "offline", "wrong",
    )  # fmt: skip
    assert answer["coverage"]["by"] == "data"
    assert 50 < answer["coverage"]["compared"] <= answer["coverage"]["operators"]
    assert answer["findings"][0]["operator"] == "context/pool"
    assert answer["findings"][0]["kind"] == "permuted"
    (pool,) = [each for each in answer["tensors"] if each["tensor"] == "context/pool:output:0"]
    assert (pool["compared"], pool["level"], pool["origin"], pool["reason"]) == (True, "wrong", "born", None)
    assert pool["golden"].startswith("context_pool.0.")
    assert answer["outputs"]
    assert answer["advice"][0].startswith("The model's outputs differ slightly from the golden ones")
    assert answer["advice"][1].startswith("context/pool (MaxPoolV3) is proved to be at fault")
    assert (answer["agreement"], answer["findings"][0]["missing"]) == ("slight", None)


def test_the_suspect_is_the_operator_whose_dump_is_missing(tmp_path: Path, capsys: Capture) -> None:
    made = write_sample(str(tmp_path / "sample"))
    (pool,) = Path(made.target).glob("MaxPoolV3.context_pool.*")
    pool.unlink()
    words = ["compare", made.target, made.golden, "--rules", made.rules, "-o", tmp_path / "out", "--no-html"]
    done = run(capsys, *words, "--json", tmp_path / "answer.json")
    assert "context/pool (MaxPoolV3) is suspected: its own output was not compared" in done.out.replace("\n  ", " ")
    first, second, *_ = read(tmp_path / "answer.json")["findings"]
    assert (first["operator"], first["kind"], first["missing"]) == ("context/pool", "permuted", "core.all")
    assert first["share"] > 0.9
    assert (second["operator"], second["share"] < 0.1) == ("local/conv1local/conv1_relu", True)


def test_rules_of_another_model(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    rules = tmp_path / "other.json"
    rules.write_text(
        re.sub(r"(layer|local|context|head|gate|se)(?=[/_0-9])", r"other_\1", Path(sample.rules).read_text())
    )
    words = ["compare", sample.target, sample.golden, "--rules", rules, "-o", tmp_path / "out", "--no-html"]
    done = run(capsys, *words, "--json", tmp_path / "answer.json")
    assert (done.code, done.out.startswith("The rule file does not belong to these dumps")) == (3, True)
    answer = read(tmp_path / "answer.json")
    assert (answer["verdict"], answer["findings"]) == ("unsure", [])
    forced = run(capsys, *words, "--force", "--json", tmp_path / "answer.json")
    assert (forced.code, forced.out.startswith("Only ")) == (0, True)


def test_standard_output_has_only_the_answer(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    done = run(capsys, "compare", sample.target, sample.golden, "--rules", sample.rules, "-o", tmp_path, "--json", "-")
    assert json.loads(done.out)["verdict"] == "wrong"
    assert "result: " in done.err


def test_graph_mode(tmp_path: Path, capsys: Capture) -> None:
    made = write_graph_sample(str(tmp_path / "sample"))
    words = ["compare", made.target, made.golden, "-o", tmp_path / "out", "--no-html"]
    assert run(capsys, *words, "--json", tmp_path / "answer.json").code == 0
    answer = read(tmp_path / "answer.json")
    assert (answer["mode"], answer["verdict"]) == ("graph", "wrong")
    assert answer["findings"][0]["operator"] == "MatMul_1"
    assert answer["findings"][0]["units"][0] == {"rank": 0, "token": 1, "graph": None}
    tensors = {(each["unit"]["rank"], each["unit"]["token"], each["tensor"]): each for each in answer["tensors"]}
    assert tensors[1, 1, "MatMul_1:output:0"]["level"] == "wrong"
    assert tensors[1, 1, "MatMul_1:output:0"]["golden"].startswith("mm_1-aten.mm.default.OUTPUT.0.")
    assert {each["tensor"] for each in answer["outputs"]} == {"TopKV2:output:0", "TopKV2:output:1"}


@pytest.mark.parametrize(("mode", "by"), [("statistics", "statistics"), ("md5", "checksums")])
def test_coverage_has_the_weakest_data_mode(mode: str, by: str, tmp_path: Path, capsys: Capture) -> None:
    made = write_graph_sample(str(tmp_path / "sample"), ranks=1, tokens=1)
    words = ["compare", made.target, made.golden, "-o", tmp_path / "out", "--no-html", "--data_mode", mode]
    assert run(capsys, *words, "--json", tmp_path / "answer.json").code == 0
    assert read(tmp_path / "answer.json")["coverage"]["by"] == by


def test_inputs_that_cannot_be_used(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    words = ["compare", tmp_path / "empty", sample.golden, "--rules", sample.rules, "-o", tmp_path / "out"]
    assert run(capsys, *words, "--json", tmp_path / "answer.json").code == 3
    answer = read(tmp_path / "answer.json")
    assert (answer["verdict"], answer["coverage"]["compared"], answer["tensors"]) == ("unsure", 0, [])
    assert "empty" in answer["advice"][0]


def test_directory_of_rules_is_rejected(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    done = run(capsys, "compare", sample.target, sample.golden, "-fr", tmp_path, "--json", tmp_path / "answer.json")
    assert done.code == 2
    assert "--json is about one comparison" in done.err
    assert not (tmp_path / "answer.json").exists()


def test_verdicts() -> None:
    good = row("a")
    assert make_answer(judged_comparison(good)).verdict == "clean"
    assert make_answer(judged_comparison(good, not_compared("b"))).verdict == "unsure"
    assert make_answer(judged_comparison(good, not_compared("b"), not_compared("c"))).verdict == "unsure"
    assert make_answer(judged_comparison(not_compared("b"))).verdict == "unsure"
    assert make_answer(with_judgement()).verdict == "wrong"
    assert make_answer(many_tokens(1, 2, 3)).verdict == "wrong"


def test_reasons_are_codes_and_operators_without_tensors_have_their_names() -> None:
    (tensor,) = make_answer(judged_comparison(not_compared("b"))).tensors
    assert (tensor.tensor, tensor.compared, tensor.golden, tensor.reason) == ("b", False, None, "core.text")


def test_names_outside_utf8_and_non_finite_numbers() -> None:
    made = make_answer(strange_names(["a\udcff", "<b>"]))
    assert json.loads(encode_answer(made))["tensors"][0]["tensor"] == "a\\udcff:output:0"
    failure = json.loads(encode_answer(make_failure(Mode.GRAPH, "torn\udcff")))
    assert (failure["mode"], failure["advice"]) == ("graph", ["torn\\udcff"])
    assert measured().golden_path == "/golden/file"
