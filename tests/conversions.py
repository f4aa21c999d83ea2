"""`opdiff convert` in a temporary folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from command_line import Outcome, run
from dump_files import TIME, add

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from opdiff.core.codes import AnyArray

FILE = f"Add.add.5.7.{TIME}"
"""Name of a dump file."""


@dataclass(frozen=True)
class Convert:
    """The command: from files in `source` to results in `out`."""

    source: Path
    out: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: object) -> Outcome:
        """Run the command."""
        return run(self.capsys, "convert", *words, "-out", self.out)

    def add(self, content: bytes | None = None, name: str = FILE, folder: str = "") -> str:
        """Write a dump, and return its path; without content it is a small valid one."""
        return add(self.source / folder, name, content)

    def converted(self, content: bytes | None, *words: object, name: str = FILE) -> list[str]:
        """Convert a dump without problems; return the names of all results."""
        outcome = self(self.add(content, name), *words)
        assert (outcome.code, outcome.err) == (0, "")
        return self.results()

    def results(self) -> list[str]:
        """Return the files below the folder of results."""
        return sorted(str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file())

    def contents(self) -> dict[str, bytes]:
        """Return the bytes of all results by name."""
        return {name: (self.out / name).read_bytes() for name in self.results()}

    def load(self, name: str) -> AnyArray:
        """Load a result that is an array."""
        array: AnyArray = np.load(self.out / name, allow_pickle=False)
        return array
