"""The page about Python, run as a notebook."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from command_line import run_outside
from opdiff.sample import write_sample
from opdiff.sample.stages import write_stage_sample

if TYPE_CHECKING:
    from collections.abc import Iterator

nbclient: Any = pytest.importorskip("nbclient")
nbformat: Any = pytest.importorskip("nbformat")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PAGE = Path(__file__).parent.parent / "docs" / "python.md"


def code_of(page: Path) -> Iterator[str]:
    """Yield the blocks marked as `python`; those marked as `py` need files of the reader."""
    yield from re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("notebook")
    write_sample(str(folder / "opdiff-demo"))
    write_stage_sample(str(folder / "opdiff-stages"), ["conversion"])
    for command in re.findall(r"^\$ opdiff (.*)$", PAGE.read_text(), re.MULTILINE):
        assert run_outside(*shlex.split(command), cwd=folder).code == 0
    # The gate is red: the sample has errors.
    gate = "import pytest\nwith pytest.raises(AssertionError, match='context/pool'):\n    test_the_model_is_accurate()"
    cells = [nbformat.v4.new_code_cell(source) for source in (*code_of(PAGE), gate)]
    made = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(made, timeout=60, kernel_name="python3", resources=resources).execute()


def outputs(notebook: Any, kind: str) -> list[str]:
    found = (output.get("data", {}).get(kind) for cell in notebook.cells for output in cell.outputs)
    return [data for data in found if data]


def test_every_cell_runs_and_comparisons_are_shown(notebook: Any) -> None:
    assert len(notebook.cells) >= 4
    assert any("<svg" in html and "context/pool" in html for html in outputs(notebook, "text/html"))


def test_plots_are_pictures(notebook: Any) -> None:
    assert outputs(notebook, "image/png")
