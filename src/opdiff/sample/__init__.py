"""Realistic dumps: encoders of the formats, written from the format pages and not from the readers.

`write_sample` makes the dumps of a small network with planted faults, `write_many` makes mere bulk. The encoders are
in `container`, `names` and `slices`.
"""

from __future__ import annotations

from opdiff.sample.bulk import write_many
from opdiff.sample.directory import Sample, write_sample
from opdiff.sample.faults import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "Sample", "write_many", "write_sample"]
