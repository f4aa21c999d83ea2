"""Conversions that the user wrote: DIR/format_convert/convert_{SOURCE}_to_{TARGET}.py, each with a function `convert`.

A script takes the stored shape, the wanted shape (may be empty) and the codes as a flat array of their own, and returns
an array of codes. Scripts whose name has `to_FRACTAL_Z` in it also take the number of groups. They are found at once
and run on first use, without leaving anything in `sys.modules` or `sys.path`.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import lru_cache
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from opdiff.errors import LayoutError, PluginError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opdiff.elements import AnyArray
    from opdiff.model import Shape

_FOLDER = "format_convert"
_NAME = re.compile(r"convert_(?P<source>\w{1,128}?)_to_(?P<target>\w{1,128})\.py", re.ASCII)
_MAX_FILES = 1000
_MAX_NBYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Script:
    """One file, and the conversion that its name promises."""

    source: str
    target: str
    path: str

    @property
    def takes_groups(self) -> bool:
        """Whether the function gets the number of groups as a fourth argument."""
        return "to_FRACTAL_Z" in os.path.basename(self.path)


@dataclass(frozen=True, slots=True)
class Custom:
    """The conversions of one directory; a value that can go to another process, which loads what it needs."""

    directory: str
    scripts: tuple[Script, ...] = ()

    def find(self, source: str, target: str) -> Script | None:
        """The script from one layout to another, if there is one."""
        wanted = (source, target)
        return next((script for script in self.scripts if (script.source, script.target) == wanted), None)


def load_custom(directory: str) -> Custom:
    """The conversions below `directory`; files are looked at and not run.

    Raises:
        PluginError: there is no folder of conversions, or a file in it is not one.
    """
    root = os.path.realpath(directory)
    folder = os.path.join(root, _FOLDER)
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry, _ in zip(entries, range(_MAX_FILES + 2), strict=False))
    except OSError as error:
        raise PluginError("conversion", folder, f"cannot be listed: {error.strerror}") from error
    names = [name for name in names if name != "__pycache__"]
    if len(names) > _MAX_FILES:
        raise PluginError("conversion", folder, f"holds more than {_MAX_FILES} files")
    return Custom(root, tuple(_script(root, os.path.join(folder, name)) for name in names))


def run_custom(script: Script, codes: AnyArray, shape: Shape, groups: int) -> AnyArray:
    """What the script makes of the codes.

    Raises:
        PluginError: the script cannot be loaded, or has no fitting function `convert`.
        LayoutError: the function failed, or did not return codes.
    """
    function = _load(script, _nbytes_and_time(script.path))
    extra = (groups,) if script.takes_groups else ()
    # A flat copy: the codes may be a mapped file, and scripts may write into what they get.
    flat = np.array(codes, order="C").reshape(-1)
    try:
        result = function(list(codes.shape), list(shape), flat, *extra)
    except (Exception, SystemExit) as error:
        raise LayoutError(script.source, f"{script.path} failed: {error!r}") from error
    if not isinstance(result, np.ndarray):
        raise LayoutError(script.source, f"{script.path} returned {type(result).__name__}, not an array")
    if result.dtype != codes.dtype:
        problem = f"{script.path} returned {result.dtype} for codes of type {codes.dtype}; they must keep their type"
        raise LayoutError(script.source, problem)
    return np.asarray(result)


def _script(root: str, path: str) -> Script:
    match = _NAME.fullmatch(os.path.basename(path))
    if match is None:
        raise PluginError("conversion", path, "is not named convert_{SOURCE}_to_{TARGET}.py")
    if "_to_" in f"_{match['target']}":
        raise PluginError("conversion", path, "its name can be read in more than one way: '_to_' is in it twice")
    if os.path.commonpath([root, os.path.realpath(path)]) != root:
        raise PluginError("conversion", path, f"is a link that leaves {root}")
    _nbytes_and_time(path)
    return Script(match["source"], match["target"], path)


def _nbytes_and_time(path: str) -> tuple[int, int]:
    """Size and time of change of a regular file of acceptable size."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise PluginError("conversion", path, f"cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise PluginError("conversion", path, "is not a regular file")
    if status.st_size > _MAX_NBYTES:
        raise PluginError("conversion", path, f"has {status.st_size} bytes, at most {_MAX_NBYTES} are allowed")
    return status.st_size, status.st_mtime_ns


class _Loader(SourceLoader):
    """Compiles a script in memory; unlike the loader of the import system it leaves no bytecode beside it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002 (base class)
        return self._path

    def get_data(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read(_MAX_NBYTES + 1)


@lru_cache(maxsize=_MAX_FILES)
def _load(script: Script, version: tuple[int, int]) -> Callable[..., Any]:  # noqa: ARG001 (a changed file is another key)
    name = f"opdiff_custom_{script.source}_to_{script.target}"
    spec = spec_from_loader(name, _Loader(script.path), origin=script.path)
    if spec is None or spec.loader is None:  # not for a loader with these methods; the types allow it
        raise PluginError("conversion", script.path, "cannot be loaded")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError("conversion", script.path, f"cannot be loaded: {error!r}") from error
    return _checked(script, getattr(module, "convert", None))


def _checked(script: Script, function: object) -> Callable[..., Any]:
    if not callable(function):
        raise PluginError("conversion", script.path, "has no function convert")
    wanted = ("shape_from", "shape_to", "array", "group")[: 4 if script.takes_groups else 3]
    try:
        signature(function).bind(*wanted)
    except (TypeError, ValueError) as error:
        problem = f"its function convert must take {len(wanted)} arguments: {', '.join(wanted)}"
        raise PluginError("conversion", script.path, problem) from error
    return function
