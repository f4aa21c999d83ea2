"""Options of a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opdiff.core.tensor import Shape


class BundleOptions(Struct, frozen=True):
    """The operator, and where its data is.

    Attributes:
        operator: its name in the dump.
        target: dump directory of the run on the NPU.
        output: the archive to write.
        golden: golden directory; empty for none.
        rules: rules of the target's model; empty for none.
        model: the original model; empty for none.
        weights: the caffemodel of a prototxt.
        shapes: shapes of inputs that the model leaves open.
    """

    operator: str
    target: str
    output: str
    golden: str = ""
    rules: str = ""
    model: str = ""
    weights: str = ""
    shapes: Mapping[str, Shape] = {}
