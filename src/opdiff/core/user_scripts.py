"""User scripts: listed at the start, run on first use, without changes to `sys.modules` and `sys.path`."""

from __future__ import annotations

import os
import stat
from functools import lru_cache
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import TYPE_CHECKING

from opdiff.core.errors import PluginError
from opdiff.core.filesystem import regular_file
from opdiff.core.reasons import Status, because

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_MAX_FILES = 1000
_MAX_NBYTES = 1_000_000


def find_scripts(kind: str, directory: str, folder: str) -> tuple[str, ...]:
    """Return the real paths of the files in `directory/folder`, sorted by name, without running them.

    Raises:
        PluginError: the folder cannot be listed or has too many files.
    """
    root = os.path.realpath(directory)
    path = os.path.join(root, folder)
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry, _ in zip(entries, range(_MAX_FILES + 2), strict=False))
    except OSError as error:
        raise PluginError(kind, path, because("core.cannot_list", error=error.strerror)) from error
    names = [name for name in names if name != "__pycache__"]
    if len(names) > _MAX_FILES:
        raise PluginError(kind, path, because("core.too_many_files", limit=_MAX_FILES))
    return tuple(os.path.join(path, name) for name in names)


def check_script(kind: str, directory: str, path: str) -> None:
    """Check that a script is a regular file of acceptable size inside `directory`.

    Raises:
        PluginError: it is not.
    """
    root = os.path.realpath(directory)
    if os.path.commonpath([root, os.path.realpath(path)]) != root:
        raise PluginError(kind, path, because("core.link_outside", root=root))
    _nbytes_and_time(kind, path)


def load_function(kind: str, path: str, name: str, arguments: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function of a script; the script is run on first use and after changes.

    Raises:
        PluginError: the script cannot be loaded, or has no such function that takes these arguments.
    """
    from inspect import signature

    module = _load(kind, path, _nbytes_and_time(kind, path))
    function: object = getattr(module, name, None)
    if not callable(function):
        raise PluginError(kind, path, because("core.no_function", name=name))
    try:
        signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        problem = because("core.function_arguments", name=name, count=len(arguments), arguments=arguments)
        raise PluginError(kind, path, problem) from error
    return function


def _nbytes_and_time(kind: str, path: str) -> tuple[int, int]:
    """Return size and modification time of a regular file of acceptable size."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise PluginError(kind, path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    if not stat.S_ISREG(status.st_mode):
        raise PluginError(kind, path, because("core.not_regular_file"))
    if status.st_size > _MAX_NBYTES:
        raise PluginError(kind, path, because("core.file_too_large", nbytes=status.st_size, limit=_MAX_NBYTES))
    return status.st_size, status.st_mtime_ns


class _Loader(SourceLoader):
    """Loader that compiles scripts in memory and writes no bytecode files."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002 (base class)
        return self._path

    def get_data(self, path: str) -> bytes:
        with open(path, "rb", opener=regular_file) as file:
            return file.read(_MAX_NBYTES + 1)


@lru_cache(maxsize=_MAX_FILES)
def _load(kind: str, path: str, version: tuple[int, int]) -> object:  # noqa: ARG001 (a changed file is another key)
    name = f"opdiff_custom_{os.path.splitext(os.path.basename(path))[0]}"
    spec = spec_from_loader(name, _Loader(path), origin=path)
    if spec is None or spec.loader is None:  # only for the type checker
        raise PluginError(kind, path, because("core.cannot_load", error="no module specification"))
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PluginError(kind, path, because("core.cannot_load", error=repr(error))) from error
    return module
