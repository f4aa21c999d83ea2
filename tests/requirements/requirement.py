"""Requirements of the vendor's documents. Each belongs to a test; all of them are the table in docs/requirements.md."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[2] / "docs" / "requirements.md"

# Test modules of this folder: the document, and the prefix of its numbers.
DOCUMENTS = {
    "test_npu_to_npu": ("Comparison between NPU and NPU (offline inference)", "N"),
    "test_caffe": ("Comparison of Caffe models", "C"),
    "test_offline_data": ("Comparison of dump data of offline models", "O"),
    "test_symptoms": ("Accuracy problems of models and their causes", "S"),
    "test_torchair": ("Comparison of operators in TorchAir mode", "T"),
}

_HEAD = """\
# Requirements

What the vendor's documents ask of a comparison tool, in our words. Each row is executed by the named test in
`tests/requirements`, which also makes this page (`make requirements`). Where a line needs a device, the row says what
is checked instead.
"""

_Test = TypeVar("_Test", bound="Callable[..., object]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement.

    Attributes:
        place: the section or the line of the document.
        text: what is required.
        instead: what is checked, if only a device could run the line.
    """

    place: str
    text: str
    instead: str = ""


def requires(place: str, *texts: str, instead: str = "") -> Callable[[_Test], _Test]:
    """Mark a test that executes these requirements of a place, which are a row each."""

    def mark(test: _Test) -> _Test:
        # Decorators are applied from the last one up, rows are in the order of the source.
        rows = [Requirement(place, text, instead) for text in texts]
        test.__dict__["requirements"] = [*rows, *requirements_of(test)]
        return test

    return mark


def requirements_of(test: Callable[..., object]) -> list[Requirement]:
    """Return the requirements that a test executes."""
    found: list[Requirement] = test.__dict__.get("requirements", [])
    return found


def make_page() -> str:
    """Return the page with all requirements."""
    return "\n".join([_HEAD, *(line for module in DOCUMENTS for line in _section(module))])


def _section(module: str) -> Iterator[str]:
    title, prefix = DOCUMENTS[module]
    yield f"## {title}\n"
    yield "| | place | requirement | test |"
    yield "|---|---|---|---|"
    numbers = count(1)
    for name, test in vars(importlib.import_module(f"requirements.{module}")).items():
        if name.startswith("test_"):
            for row in requirements_of(test):
                text = f"{row.text} *Needs a device; checked instead: {row.instead}*" if row.instead else row.text
                yield f"| {prefix}{next(numbers)} | {row.place} | {text} | `{name}` |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(make_page())
    sys.stdout.write(f"wrote {PAGE}\n")
