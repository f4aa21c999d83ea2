"""Layouts of plug-ins, found by entry point."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from opdiff import align
from opdiff.align import Extents, Layout, Tile, convert
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
