"""Builds the native kernel into the package. Without a compiler the package still works, only slower."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_LIBRARY = "src/opdiff/measure/_kernel.so"


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Runs `native/build.py`; `OPDIFF_NATIVE=0` leaves the kernel out, `OPDIFF_NATIVE=1` insists on it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the kernel, and tell the wheel that it is for this platform."""
        del version
        wanted = os.environ.get("OPDIFF_NATIVE", "")
        if self.target_name != "wheel" or wanted == "0":
            return
        sys.path.insert(0, str(Path(self.root) / "native"))
        from build import BuildError, Toolchain, build

        try:
            build(Path(self.root) / _LIBRARY, Toolchain.here())
        except BuildError as problem:
            if wanted == "1":
                raise
            self.app.display_warning(f"opdiff is installed without its native kernel: {problem}")
            return
        build_data["artifacts"].append(_LIBRARY)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
