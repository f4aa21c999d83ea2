"""The documented conversion script: its import of `components`, by a directory or by a path file of the environment."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from importlib.machinery import PathFinder

import opdiff
from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import InputError
from opdiff.core.reasons import because

_PATH_FILE = "opdiff-compat.pth"


def import_directory() -> str:
    """Return the directory that has the package `components`."""
    return os.path.join(os.path.dirname(os.path.abspath(opdiff.__file__)), "compat")


def install() -> str:
    """Put the directory on the import path of this Python, after all others, and return the path file.

    Raises:
        InputError: another package of this name would be imported, or the environment cannot be written to.
    """
    directory = import_directory()
    # Programs have the current folder on their path only if they are started from source.
    searched = [path for path in sys.path if path not in ("", os.getcwd(), directory)]
    other = PathFinder.find_spec("components", searched)
    if other is not None:
        raise InputError((other.submodule_search_locations or [""])[0], because("workflows.other_components"))
    path = os.path.join(_site_folder(), _PATH_FILE)
    try:
        with open_atomic(path) as file:
            file.write(os.fsencode(directory) + b"\n")
    except OSError as error:
        raise _not_writable(path, error) from error
    return path


def uninstall() -> str:
    """Remove the path file and return it; an empty text if there was none.

    Raises:
        InputError: the environment cannot be written to.
    """
    path = os.path.join(_site_folder(), _PATH_FILE)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _not_writable(path, error) from error
    return path


def _site_folder() -> str:
    """Return the folder for packages of this Python: the user's, if opdiff is installed there."""
    users = site.getusersitepackages()
    is_users = site.ENABLE_USER_SITE and import_directory().startswith(os.path.join(users, ""))
    return users if is_users else sysconfig.get_path("purelib")


def _not_writable(path: str, error: OSError) -> InputError:
    problem = because("workflows.environment_not_writable", error=error.strerror, directory=import_directory())
    return InputError(path, problem)
