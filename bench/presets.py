"""Networks measured by `bench.compare`: operators, types, shapes and layouts.

resnet50-like   125 operators, 200 MB of golden data: the shapes of ResNet-50 at batch 2
many-small      3,000 operators of 1 to 64 KB
few-large       6 operators of 256 MB
mixed           57 operators of about 1 MB: every kind of element, every usual layout
tiny            20 operators of a few KB: start-up
"""

from __future__ import annotations

import random
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core import dtypes

if TYPE_CHECKING:
    from opdiff.core.dtypes import DType
    from opdiff.core.tensor import Shape


class Operator(NamedTuple):
    """An operator with one output.

    Attributes:
        shape: in the order NCHW or NCDHW, or with the matrix last.
        dtype: of the target.
        golden: the type of the golden array.
        relu: half of its numbers are zero.
    """

    type: str
    shape: Shape
    layout: str = "NC1HWC0"
    dtype: DType = dtypes.FLOAT16
    golden: DType = dtypes.FLOAT32
    relu: bool = False

    @property
    def golden_nbytes(self) -> int:
        """Bytes of the golden array."""
        return self.golden.nbytes(prod(self.shape))


class Preset(NamedTuple):
    """A network."""

    name: str
    operators: tuple[Operator, ...]

    @property
    def golden_nbytes(self) -> int:
        """Bytes of all golden arrays."""
        return sum(operator.golden_nbytes for operator in self.operators)


def resnet50_like() -> Preset:
    """Return a residual network of convolutions, activations and sums as separate operators."""
    image = Operator("Aipp", (2, 3, 224, 224))
    stem = (
        Operator("Conv2D", (2, 64, 112, 112)),
        Operator("Relu", (2, 64, 112, 112), relu=True),
        Operator("MaxPoolV3", (2, 64, 56, 56), relu=True),
    )
    stages = [_stage(blocks, 64 << i, 56 >> i) for i, blocks in enumerate((3, 4, 6, 3))]
    head = (
        Operator("ReduceMeanD", (2, 2048, 1, 1), relu=True),
        Operator("Reshape", (2, 2048), "ND", relu=True),
        Operator("MatMulV2", (2, 1000), "FRACTAL_NZ"),
        Operator("BiasAdd", (2, 1000), "FRACTAL_NZ"),
        Operator("SoftmaxV2", (2, 1000), "ND"),
    )
    return Preset("resnet50-like", (image, *stem, *(one for stage in stages for one in stage), *head))


def _stage(blocks: int, width: int, side: int) -> tuple[Operator, ...]:
    narrow, wide = (2, width, side, side), (2, 4 * width, side, side)
    block = (
        Operator("Conv2D", narrow),
        Operator("Relu", narrow, relu=True),
        Operator("Conv2D", narrow),
        Operator("Relu", narrow, relu=True),
        Operator("Conv2D", wide),
        Operator("Add", wide),
        Operator("Relu", wide, relu=True),
    )
    return (Operator("Conv2D", wide), *block * blocks)


def many_small(count: int = 3000) -> Preset:
    """Return small operators: 3/5 NC1HWC0, 1/5 FRACTAL_NZ with ragged edges, 1/5 ND; sizes are log-uniform."""
    # A fixed seed: a shorter list is the beginning of a longer one.
    source = random.Random(1)  # noqa: S311  no secret
    return Preset("many-small", tuple(_small(number, source) for number in range(count)))


def _small(number: int, source: random.Random) -> Operator:
    elements = 256 * 64 ** source.random()
    kind = number % 5
    if kind < 3:
        channels = (64, 32, 24, 16, 128, 3)[number % 6]
        side = max(1, round((elements / channels) ** 0.5))
        return Operator("Conv2D", (1, channels, side, side), relu=number % 4 == 0)
    rows = max(1, round(elements ** source.uniform(0.3, 0.7)))
    columns = max(1, round(elements / rows))
    return Operator("MatMulV2", (rows, columns), "FRACTAL_NZ" if kind == 3 else "ND")


def few_large(factor: int = 1) -> Preset:
    """Return four feature maps, a plain matrix and a tiled one of 256 MB each, times `factor`."""
    shape = (16 * factor, 256, 128, 128)
    matrix: Shape = (8192, 8192) if factor == 1 else (factor, 8192, 8192)
    maps = tuple(Operator("Conv2D", shape, relu=number == 3) for number in range(4))
    return Preset("few-large", (*maps, Operator("Add", matrix, "ND"), Operator("MatMulV2", matrix, "FRACTAL_NZ")))


def larger() -> Preset:
    """Return one tensor of each kind of `few-large`, four times as large."""
    operators = few_large(4).operators
    return Preset("larger", (operators[0], *operators[4:]))


_PAIRS = (
    (dtypes.BFLOAT16, dtypes.FLOAT32),
    (dtypes.FLOAT16, dtypes.FLOAT32),
    (dtypes.FLOAT32, dtypes.FLOAT32),
    (dtypes.FLOAT32, dtypes.FLOAT64),
    (dtypes.FLOAT16, dtypes.FLOAT64),
    (dtypes.INT8, dtypes.FLOAT32),
    (dtypes.INT8, dtypes.INT8),
    (dtypes.UINT8, dtypes.UINT8),
    (dtypes.INT32, dtypes.INT32),
    (dtypes.INT64, dtypes.INT64),
    (dtypes.BOOL, dtypes.BOOL),
    (dtypes.FLOAT8_E5M2, dtypes.FLOAT32),
    (dtypes.FLOAT8_E4M3FN, dtypes.FLOAT32),
    (dtypes.HIFLOAT8, dtypes.FLOAT32),
)
_MAP, _VOLUME, _MATRIX = (2, 72, 40, 48), (1, 40, 6, 32, 36), (3, 290, 310)
_LAYOUTS: tuple[tuple[str, Shape], ...] = (
    ("NC1HWC0", _MAP), ("FRACTAL_NZ", _MATRIX), ("ND", _MATRIX), ("NHWC", _MAP), ("HWCN", _MAP), ("CHWN", _MAP),
    ("NHWC1C0", _MAP), ("C1HWNC0", _MAP), ("FRACTAL_Z", (256, 128, 3, 3)), ("FRACTAL_ZZ", _MATRIX),
    ("NC1HWC0_C04", (2, 4, 200, 200)), ("FRACTAL_Z_C04", (128, 4, 25, 25)),
    ("NDHWC", _VOLUME), ("NDC1HWC0", _VOLUME), ("FRACTAL_Z_3D", (64, 64, 3, 5, 5)),
)  # fmt: skip


def mixed() -> Preset:
    """Return all element types in three common layouts, and all layouts in common types."""
    kinds = [
        Operator("Mul", shape, layout, dtype, golden)
        for layout, shape in _LAYOUTS[:3]
        for dtype, golden in _PAIRS
    ]  # fmt: skip
    layouts = [Operator("Add", shape, layout, relu=True) for layout, shape in _LAYOUTS]
    return Preset("mixed", (*kinds, *layouts))


def tiny() -> Preset:
    """Return a few small operators, which measure start-up."""
    return Preset("tiny", many_small(20).operators)


PRESETS = {"resnet50-like": resnet50_like, "many-small": many_small, "few-large": few_large, "mixed": mixed,
           "tiny": tiny}  # fmt: skip
# Measured with a preset: scaling of time with the number of operators, and of memory with their size.
COMPANIONS = {"twice-as-many": lambda: many_small(6000), "larger": larger}


def preset(name: str, *, smoke: bool = False) -> Preset:
    """Return the preset or companion of that name; with `smoke`, a few small tensors of it."""
    made = (PRESETS | COMPANIONS)[name]()
    if not smoke:
        return made._replace(name=name)
    step = max(len(made.operators) // 12, 1)
    few = made.operators[::step] if name != "twice-as-many" else made.operators[:: step // 2 or 1]
    return Preset(name, tuple(one._replace(shape=tuple(min(n, 20) for n in one.shape)) for one in few))
