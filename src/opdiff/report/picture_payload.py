"""Pictures of tensors for the HTML page. web/src/pictures/data.ts reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.pictures import MAX_CODE
from opdiff.report.page_text import page_text

if TYPE_CHECKING:
    from typing import Any

    from opdiff.core.pictures import Frame, TensorPicture
    from opdiff.report.packing import Packer


def pack_picture(picture: TensorPicture, packer: Packer) -> dict[str, Any]:
    """Return a picture; its arrays are added to the packer."""
    return {
        "row": picture.row,
        "shape": picture.shape,
        "labels": page_text(picture.labels),
        "axes": picture.axes,
        "extents": picture.extents,
        "cell": picture.cell,
        "low": picture.low,
        "high": picture.high,
        "lowError": picture.low_error,
        "highError": picture.high_error,
        "maxCode": MAX_CODE,
        "overall": packer.codes(picture.overall),
        "frames": [_frame(frame, packer) for frame in picture.frames],
        "frameCount": picture.frame_count,
        "goldenCounts": packer.integers(picture.golden_counts),
        "targetCounts": packer.integers(picture.target_counts),
        "density": packer.integers(picture.density),
        "outside": picture.outside,
        "notFinite": picture.not_finite,
        "sampledShare": picture.sampled_share,
    }


def _frame(frame: Frame, packer: Packer) -> dict[str, Any]:
    return {
        "index": frame.index,
        "share": frame.share,
        "golden": packer.codes(frame.golden),
        "target": packer.codes(frame.target),
        "error": packer.codes(frame.error),
    }
