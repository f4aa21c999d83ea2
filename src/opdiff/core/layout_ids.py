"""Names of storage layouts by their numbers in dump headers; `align` implements them."""

from __future__ import annotations

_NAMES = (
    "NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "NC1C0HWPAD", "NHWC1C0", "FSR_NCHW", "FRACTAL_DECONV", "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE", "FRACTAL_DECONV_SP_STRIDE_TRANS", "NC1HWC0_C04", "FRACTAL_Z_C04", "CHWN",
    "DECONV_SP_STRIDE8_TRANS", "HWCN", "NC1KHKWHWC0", "BN_WEIGHT", "FILTER_HWCK", "LOOKUP_LOOKUPS", "LOOKUP_KEYS",
    "LOOKUP_VALUE", "LOOKUP_OUTPUT", "LOOKUP_HITS", "C1HWNCoC0", "MD", "NDHWC", "FRACTAL_ZZ", "FRACTAL_NZ", "NCDHW",
    "DHWCN", "NDC1HWC0", "FRACTAL_Z_3D", "CN", "NC", "DHWNC", "FRACTAL_Z_3D_TRANSPOSE", "FRACTAL_ZN_LSTM",
    "FRACTAL_Z_G", "RESERVED", "ALL", "NULL", "ND_RNN_BIAS", "FRACTAL_ZN_RNN", "YUV", "YUV_A", "NCL",
    "FRACTAL_Z_WINO", "C1HWC0",
)  # fmt: skip

BY_NUMBER: dict[int, str] = dict(enumerate(_NAMES)) | {255: "MAX"}
NUMBERS: dict[str, int] = {name: number for number, name in BY_NUMBER.items()}


def layout_name(number: int) -> str:
    """Return the name of a layout; `FORMAT_` and the number if it is unknown."""
    return BY_NUMBER.get(number) or f"FORMAT_{number}"


def parse_format_word(word: int) -> tuple[str, int]:
    """Return layout name (bits 0 to 7) and group count (bits 8 to 23) of a format word."""
    if 0 <= word <= 0xFF:
        return layout_name(word), 1
    return layout_name(word & 0xFF), max(word >> 8 & 0xFFFF, 1)
