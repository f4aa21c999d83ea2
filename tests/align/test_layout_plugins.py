"""Layouts of plug-ins, found by entry point, and the page about layouts."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff import align
from opdiff.align import LAYOUTS, Extents, Layout, Tile, convert
from opdiff.align.custom import load_conversions
from opdiff.align.plain import AxisOrder
from opdiff.core import dtypes
from opdiff.core.errors import LayoutError, PluginError
from opdiff.core.reasons import quoted, render_all
from opdiff.core.registry import Registry
from opdiff.core.tensor import TensorSpec
from opdiff.testing.layouts import check_layout

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape


@dataclass(frozen=True, slots=True)
class Backwards:
    """Rows in reverse order."""

    name: str = "HWCN_BACKWARDS"
    axes: str = "HWCN"

    def logical_shape(self, stored: Shape, origin: Shape, groups: int, prefer: str) -> Extents:
        return Extents(stored, None if origin or groups or prefer else quoted("never"))

    def unpack(self, stored: AnyArray, shape: Shape, groups: int) -> AnyArray:
        if stored.shape != shape or groups < 1:
            raise LayoutError(self.name, f"{stored.shape} is not {shape}")
        return stored[::-1]

    def pack(self, array: AnyArray, tile: Tile, groups: int) -> AnyArray:
        assert tile.c0
        assert groups
        return array[::-1]


backwards: Layout = Backwards()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Entry points of an installed package, to be filled in by the test."""
    values: list[str] = []

    def entry_points(group: str) -> tuple[importlib.metadata.EntryPoint, ...]:
        assert group == "opdiff.layouts"
        return tuple(importlib.metadata.EntryPoint("plug-in", value, group) for value in values)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(align, "LAYOUTS", Registry[Layout]("layout", (AxisOrder("NCHW"),)))
    return values


def test_plugin_passes_the_contract() -> None:
    check_layout(backwards, [np.arange(120).reshape(2, 3, 4, 5)])


def test_plugin_is_found_by_entry_point(installed: list[str]) -> None:
    installed.append(f"{__name__}:backwards")
    codes = np.arange(120, dtype="<i2").reshape(2, 3, 4, 5)
    there = convert(codes, TensorSpec(dtypes.INT16, codes.shape, "NCHW"), "HWCN_BACKWARDS")
    np.testing.assert_array_equal(there.codes, codes.transpose(2, 3, 1, 0)[::-1])
    assert render_all(there.steps) == "axes NCHW -> HWCN; packed to HWCN_BACKWARDS [4, 5, 3, 2]"
    back = convert(there.codes, TensorSpec(dtypes.INT16, there.codes.shape, "HWCN_BACKWARDS"), "NCHW")
    np.testing.assert_array_equal(back.codes, codes)


def test_builtin_layouts_do_not_read_entry_points(installed: list[str]) -> None:
    installed.append("no_such_module:layout")
    codes = np.arange(120, dtype="<i2").reshape(2, 3, 4, 5)
    assert convert(codes, TensorSpec(dtypes.INT16, codes.shape, "NCHW"), "NCHW").codes is codes
    with pytest.raises(PluginError, match="layout 'plug-in': cannot be loaded: ModuleNotFoundError"):
        convert(codes, TensorSpec(dtypes.INT16, codes.shape, "NCHW"), "HWCN_BACKWARDS")


# The page about layouts: its examples run, and it names every built-in layout

PAGE = (Path(__file__).parents[2] / "docs" / "formats" / "layouts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_custom_conversion_of_the_page(tmp_path: Path) -> None:
    name = BLOCKS[0].splitlines()[0].removeprefix("# ")
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_text(BLOCKS[0])
    codes = np.arange(24, dtype="<i2").reshape(1, 2, 3, 4)
    spec = TensorSpec(dtypes.INT16, codes.shape, "FSR_NCHW")
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
