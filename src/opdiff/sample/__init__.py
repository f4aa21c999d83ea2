"""Sample dumps for `opdiff demo`, and encoders of the dump formats.

`write_sample` writes the dumps of a small network with injected faults. The encoders (`container`, `names`) follow the
format pages, independently of the readers.
"""

from __future__ import annotations

from opdiff.sample.directory import Sample, write_sample
from opdiff.sample.faults import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "Sample", "write_sample"]
