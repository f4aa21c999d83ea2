"""The extension module: loaded only if it fits these sources."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opdiff.read.protowire import NATIVE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(NATIVE is None, reason="the native module was not built")


def test_message_table_requires_a_tuple() -> None:
    assert NATIVE is not None
    with pytest.raises(SystemError, match="argument"):
        NATIVE.message_table([])


def native_of(preparation: str, **environment: str) -> str:
    """Return `NATIVE` as a fresh, so prepared interpreter prints it."""
    code = f"{preparation}\nfrom opdiff.read.protowire import NATIVE; print(NATIVE)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("content", [b"", b"not native code", b"\x7fELF" + bytes(60)], ids=["empty", "text", "cut off"])
def test_unloadable_module_is_ignored(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "_native.abi3.so").write_bytes(content)
    assert native_of(f"import opdiff; opdiff.__path__.insert(0, {str(tmp_path)!r})") == "None"


@pytest.mark.parametrize("version", [None, 0, 1_000_000])
def test_module_of_another_version_is_ignored(version: int | None) -> None:
    other = f"import sys, types; sys.modules['opdiff._native'] = types.SimpleNamespace(VERSION={version})"
    assert native_of(other) == "None"


def test_environment_disables_the_module() -> None:
    assert native_of("pass") != "None"
    assert native_of("pass", OPDIFF_KERNEL="numpy") == "None"
