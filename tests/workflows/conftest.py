"""Fixture with a comparison in a temporary folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from made_dumps import Case

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Case:
    return Case(tmp_path, capsys)
