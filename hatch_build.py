"""Build hook: compiles the native code into the wheel. Without a compiler the package still works, only slower.

Environment:
    OPDIFF_NATIVE: 0 leaves native code out, 1 makes a failing compiler an error.
    OPDIFF_MANYLINUX: machine (`x86_64`, `aarch64`) to compile a portable wheel for, with the package `ziglang`.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_KERNEL = "src/opdiff/measure/kernel/_kernel.so"
_MODULE = "src/opdiff/_native.abi3.so"


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Runs `native/build.py` for wheels and editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the kernel and the module, and set the wheel's tag."""
        del version
        if self.target_name != "wheel" or os.environ.get("OPDIFF_NATIVE") == "0":
            return
        machine = os.environ.get("OPDIFF_MANYLINUX")
        built = [path for path in (_KERNEL, _MODULE) if self._is_built(path, machine)]
        if built:
            build_data["artifacts"] += built
            build_data["pure_python"] = False
            python = "cp311-abi3" if _MODULE in built else "py3-none"
            build_data["tag"] = f"{python}-linux_{machine or platform.machine()}"

    def _is_built(self, path: str, machine: str | None) -> bool:
        sys.path.insert(0, str(Path(self.root) / "native"))
        from build import BuildError, Toolchain, build

        try:
            build(Path(self.root) / path, Toolchain.manylinux(machine) if machine else Toolchain.here())
        except BuildError as problem:
            if machine or os.environ.get("OPDIFF_NATIVE") == "1":
                raise
            self.app.display_warning(f"opdiff is installed without {Path(path).name}, and is slower: {problem}")
            return False
        return True
