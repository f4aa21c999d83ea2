from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graph_dumps import GraphCase

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def case(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> GraphCase:
    return GraphCase(tmp_path, capsys)
