"""Builds the native code into the package. Without a compiler the package still works, only slower."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_KERNEL = "src/opdiff/measure/kernel/_kernel.so"
_MODULE = "src/opdiff/_native.abi3.so"


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Runs `native/build.py`; `OPDIFF_NATIVE=0` leaves native code out, `OPDIFF_NATIVE=1` insists on it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the kernel and the module, and tell the wheel for what platform and Python they are."""
        del version
        if self.target_name != "wheel" or os.environ.get("OPDIFF_NATIVE") == "0":
            return
        sys.path.insert(0, str(Path(self.root) / "native"))
        built = [path for path in (_KERNEL, _MODULE) if self._is_built(path)]
        if built:
            build_data["artifacts"] += built
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"{'cp311-abi3' if _MODULE in built else 'py3-none'}-{platform}"

    def _is_built(self, path: str) -> bool:
        from build import BuildError, Toolchain, build

        try:
            build(Path(self.root) / path, Toolchain.here())
        except BuildError as problem:
            if os.environ.get("OPDIFF_NATIVE") == "1":
                raise
            self.app.display_warning(f"opdiff is installed without {Path(path).name}, and slower for it: {problem}")
            return False
        return True
