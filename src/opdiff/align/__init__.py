"""Conversions between storage layouts and logical layouts.

Conversions move codes and do not look at values, so that they work for all element types. Plug-ins add layouts by the
entry-point group `opdiff.layouts`; `opdiff.testing.layouts` has the contract test.
"""

from opdiff.align.conversion import convert
from opdiff.align.fractal_nz import TiledMatrix
from opdiff.align.fractal_z import FractalZ, FractalZC04
from opdiff.align.layout import Aligned, Extents, Layout, Tile
from opdiff.align.plain import ND, AxisOrder
from opdiff.align.tiled_channels import DiagonalChannels, TiledChannels
from opdiff.core.registry import Registry

__all__ = ["LAYOUTS", "Aligned", "Extents", "Layout", "Tile", "convert"]

_BUILTIN: tuple[Layout, ...] = (
    ND,
    *map(AxisOrder, ("NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC", "NC", "CN", "NCL")),
    TiledChannels("NC1HWC0", axes="NCHW", order="N1HW0"),
    TiledChannels("NC1HWC0_C04", axes="NCHW", order="N1HW0", c0=4),
    TiledChannels("NDC1HWC0", axes="NCDHW", order="ND1HW0"),
    TiledChannels("NHWC1C0", axes="NCHW", order="NHW10"),
    TiledChannels("C1HWNC0", axes="NCHW", order="1HWN0"),
    DiagonalChannels("C1HWNCoC0", TiledChannels("C1HWNCoC0", axes="NCHW", order="1HWN0")),
    TiledMatrix("FRACTAL_NZ", order="CRrc"),
    TiledMatrix("FRACTAL_ZZ", order="RCrc"),
    FractalZ("FRACTAL_Z", axes="NCHW", grouped=True),
    FractalZC04(),
    FractalZ("FRACTAL_Z_3D", axes="NCDHW"),
)

LAYOUTS: Registry[Layout] = Registry("layout", _BUILTIN)
