"""The page about layouts: its examples run, and it names every built-in layout."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from opdiff.align import LAYOUTS, convert
from opdiff.align.custom import load_conversions
from opdiff.core.dtypes import INT16
from opdiff.core.tensor import TensorSpec

if TYPE_CHECKING:
    import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "formats" / "layouts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_custom_conversion_of_the_page(tmp_path: Path) -> None:
    name = BLOCKS[0].splitlines()[0].removeprefix("# ")
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(BLOCKS[0])
    codes = np.arange(24, dtype="<i2").reshape(1, 2, 3, 4)
    spec = TensorSpec(INT16, codes.shape, "FSR_NCHW")
    aligned = convert(codes, spec, "NCHW", custom=load_conversions(str(tmp_path)))
    np.testing.assert_array_equal(aligned.codes, codes[:, :, ::-1])


def test_plugin_of_the_page_passes_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "\n".join(BLOCKS[1:])
    assert "check_layout(mirrored" in source
    module = ModuleType("my_package")
    # The class must be found where it says it is, or it cannot be pickled.
    monkeypatch.setitem(sys.modules, "my_package", module)
    exec(compile(source, "layouts.md", "exec"), module.__dict__)  # noqa: S102 (our own page)


def test_page_lists_all_builtin_layouts() -> None:
    rows = re.findall(r"^\| (.*?) \| .*? \| .*? \|$", PAGE.split("## What can be converted")[0], re.MULTILINE)
    assert set(LAYOUTS.names()) <= {name.strip() for row in rows for name in row.split(",")}
