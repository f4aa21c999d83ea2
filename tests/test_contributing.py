"""The examples of CONTRIBUTING.md work as printed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from command_line import run
from opdiff import __version__, align, read, report
from opdiff.align import Layout, convert
from opdiff.cli import report_options
from opdiff.core import dtypes
from opdiff.core.errors import DumpError
from opdiff.core.registry import Registry
from opdiff.core.tensor import TensorSpec
from opdiff.sample import write_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    Example = Callable[[str], ModuleType]

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def source_of(section: str) -> str:
    """Return the Python blocks of a section, in order."""
    (text,) = (part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(f"{section}\n"))
    return "\n".join(_BLOCK.findall(text))


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Example:
    """Return a function that executes the blocks of a section as a module, whose values can be pickled."""

    def execute(section: str) -> ModuleType:
        module = ModuleType("example")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(source_of(section), "CONTRIBUTING.md", "exec"), module.__dict__)  # noqa: S102 (our own page)
        return module

    return execute


def test_reader(
    example: Example, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "READERS", (example("Add a reader").VECTOR, *read.READERS))
    path = tmp_path / "Add.sum.1.2.1700000000000000"
    path.write_bytes(b"VEC1" + (3).to_bytes(4, "little") + np.array([1, 2, 4], "<f4").tobytes())
    operator = read.read_operator(str(path))
    np.testing.assert_array_equal(operator.outputs[0].array(), [1, 2, 4])
    outcome = run(capsys, "inspect", path)
    assert outcome.code == 0
    assert "vector dump" in outcome.out


def test_reader_rejects_a_truncated_file(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "READERS", (example("Add a reader").VECTOR, *read.READERS))
    path = tmp_path / "Add.sum.1.2.1700000000000000"
    path.write_bytes(b"VEC1" + (3).to_bytes(4, "little") + bytes(11))
    with pytest.raises(DumpError, match="header and tensors take 20 bytes, but the file has 19"):
        read.read_operator(str(path))


def test_layout(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = example("Add a layout").BOTTOM_UP
    monkeypatch.setattr(align, "LAYOUTS", Registry[Layout]("layout", (*align._BUILTIN, layout)))
    codes = np.arange(120, dtype="<i2").reshape(2, 3, 4, 5)
    aligned = convert(codes, TensorSpec(dtypes.INT16, codes.shape, layout.name), "NHWC")
    np.testing.assert_array_equal(aligned.codes, codes[:, :, ::-1].transpose(0, 2, 3, 1))


def test_metric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = source_of("Add a metric")
    path = tmp_path / "custom" / source.splitlines()[0].removeprefix("# ")
    path.parent.mkdir(parents=True)
    path.write_text(source)
    sample = write_sample(str(tmp_path / "sample"))
    sides = (sample.target, sample.golden, "--rules", sample.rules)
    outcome = run(capsys, "compare", *sides, "--custom", tmp_path / "custom", "-o", tmp_path)
    assert outcome.code == 0
    (table,) = tmp_path.glob("*.csv")
    assert "LargestError" in table.read_text().splitlines()[0]


def test_report_form(
    example: Example, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = example("Add a report form")
    monkeypatch.setitem(sys.modules, "opdiff.report.worst_list", module)
    forms = (*report.FORMS, module.WORST_LIST)
    monkeypatch.setattr(report, "FORMS", forms)
    monkeypatch.setattr(report_options, "FORMS", forms)
    sample = write_sample(str(tmp_path / "sample"))
    sides = (sample.target, sample.golden, "--rules", sample.rules)
    outcome = run(capsys, "compare", *sides, "--worst-list", "-o", tmp_path)
    assert outcome.code == 0
    (path,) = tmp_path.glob("result_*.txt")
    assert "context/pool:output:0: " in path.read_text()


def test_make_targets_are_documented() -> None:
    targets = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets
    assert [name for name in targets[1].split() if f"make {name}`" not in PAGE] == [
        "demo",
        "conformance",
        "real",
        "clean",
    ]


def test_changelog_starts_with_the_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == __version__


def test_ci_runs_documented_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    first_screen = (ROOT / "README.md").read_text().split("## ", maxsplit=1)[0]
    commands = re.findall(r"^make \w+$", script, re.MULTILINE)
    assert commands == ["make test", "make check"]
    assert "\nmake test " in first_screen
    assert [command for command in commands if f"`{command}`" not in PAGE] == []
