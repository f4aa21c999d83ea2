"""The command in a temporary folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from conversions import Convert

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Convert:
    return Convert(tmp_path / "in", tmp_path / "out", capsys)
