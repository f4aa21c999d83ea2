"""Conversions by user scripts: DIR/format_convert/convert_{SOURCE}_to_{TARGET}.py, each with a function `convert`.

The function takes the stored shape, the requested shape (may be empty) and a flat copy of the codes, and returns an
array of codes. Scripts whose name contains `to_FRACTAL_Z` also take the number of groups.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import LayoutError, PluginError
from opdiff.core.reasons import because
from opdiff.core.user_scripts import check_script, find_scripts, load_function

if TYPE_CHECKING:
    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

_FOLDER = "format_convert"
_NAME = re.compile(r"convert_(?P<source>\w{1,128}?)_to_(?P<target>\w{1,128})\.py", re.ASCII)
_KIND = "conversion"
_ARGUMENTS = ("shape_from", "shape_to", "array", "group")


class ConversionScript(Struct, frozen=True):
    """A script and the layouts in its name."""

    source: str
    target: str
    path: str

    @property
    def takes_groups(self) -> bool:
        """Whether the number of groups is a fourth argument of the function."""
        return "to_FRACTAL_Z" in os.path.basename(self.path)


class Conversions(Struct, frozen=True):
    """Conversion scripts of one directory; picklable, each process loads scripts on first use."""

    directory: str
    scripts: tuple[ConversionScript, ...] = ()

    def find(self, source: str, target: str) -> ConversionScript | None:
        """Return the script for a pair of layouts; `None` if there is none."""
        wanted = (source, target)
        return next((script for script in self.scripts if (script.source, script.target) == wanted), None)


def load_conversions(directory: str) -> Conversions:
    """Find the conversion scripts of `directory` without running them.

    Raises:
        PluginError: there is no folder of conversions, or a file in it is not a conversion script.
    """
    root = os.path.realpath(directory)
    return Conversions(root, tuple(_script(root, path) for path in find_scripts(_KIND, root, _FOLDER)))


def run_conversion(script: ConversionScript, codes: AnyArray, shape: Shape, groups: int) -> AnyArray:
    """Return the codes as converted by the script.

    Raises:
        PluginError: the script cannot be loaded, or has no suitable function `convert`.
        LayoutError: the function failed, or did not return codes.
    """
    import numpy as np

    function = load_function(_KIND, script.path, "convert", _ARGUMENTS[: 4 if script.takes_groups else 3])
    extra = (groups,) if script.takes_groups else ()
    # A copy, because scripts may modify their argument, and the codes may be a mapped file.
    flat = np.array(codes, order="C").reshape(-1)
    try:
        result = function(list(codes.shape), list(shape), flat, *extra)
    except (Exception, SystemExit) as error:
        raise LayoutError(script.source, because("align.script_failed", path=script.path, error=repr(error))) from error
    if not isinstance(result, np.ndarray):
        problem = because("align.script_result", path=script.path, type=type(result).__name__)
        raise LayoutError(script.source, problem)
    if result.dtype != codes.dtype:
        types = {"type": str(result.dtype), "expected": str(codes.dtype)}
        problem = because("align.script_type", path=script.path, **types)
        raise LayoutError(script.source, problem)
    return np.asarray(result)


def _script(root: str, path: str) -> ConversionScript:
    match = _NAME.fullmatch(os.path.basename(path))
    if match is None:
        raise PluginError(_KIND, path, because("align.script_name"))
    if "_to_" in f"_{match['target']}":
        raise PluginError(_KIND, path, because("align.script_name_ambiguous"))
    check_script(_KIND, root, path)
    return ConversionScript(match["source"], match["target"], path)
