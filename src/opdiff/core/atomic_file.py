"""Atomic writing of files."""

from __future__ import annotations

import os
import re
import time
from _thread import get_native_id  # `threading` takes long to import, and has it from here
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.reasons import because

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

# Large, because tables are written line by line.
_BUFFER_NBYTES = 1 << 17
_COPY_NBYTES = 1 << 20
# Hidden files and folders that hold what is being written, by process: `.part` of this module, `.draft` of `report`.
_DRAFT = r"\.(\d{1,10})(?:\.\d{1,10}\.(?:draft|[0-9a-f]{8}\.part)|\.part)"
_MIN_DRAFT_AGE_S = 3600


@contextmanager
def name_in_errors(path: str, draft: str) -> Iterator[None]:
    """Make operating-system errors name the final path instead of the temporary file or nothing."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, draft):
            raise
        problem = error.strerror or ""
        raise OSError(error.errno, os.strerror(error.errno) if draft in problem else problem, path) from error


@contextmanager
def open_atomic(path: str) -> Iterator[IO[bytes]]:
    """Open a temporary binary file in the same folder, and rename it to `path` at the end.

    A failure or an interrupt leaves an existing file unchanged. A symbolic link is replaced, not followed. A draft that
    cannot be removed is removed by a later run.
    """
    folder, name = os.path.split(path)
    # Unique for thread and file, and short, because `name` may have the maximum length.
    draft = os.path.join(folder, f".{os.getpid()}.{get_native_id()}.{hash(name) & 0xFFFF_FFFF:08x}.part")
    with name_in_errors(path, draft):
        with suppress(OSError):
            os.unlink(draft)
        try:
            with open(draft, "xb", buffering=_BUFFER_NBYTES) as file:
                yield file
            os.replace(draft, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise


def copy_bytes(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy what is left of a file, as `shutil` does, whose import takes longer than most copies."""
    while some := source.read(_COPY_NBYTES):
        target.write(some)


def remove_old_drafts(folder: str) -> None:
    """Remove drafts of runs that were killed: those of no living process that are older than an hour.

    Processes of other machines that share the folder are not known here; their drafts are younger.
    """
    with suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            match = re.fullmatch(_DRAFT, item.name) if item.name.startswith(".") else None
            if match is None or is_alive(int(match[1])):
                continue
            with suppress(OSError):
                if time.time() - _changed_at(item) > _MIN_DRAFT_AGE_S:
                    _remove(item.path)


def _changed_at(item: os.DirEntry[str]) -> float:
    """Return when a draft was written to; of a folder, when the last one of its files was."""
    times = [item.stat(follow_symlinks=False).st_mtime]
    if item.is_dir(follow_symlinks=False):
        with os.scandir(item.path) as listing:
            times += (each.stat(follow_symlinks=False).st_mtime for each in listing)
    return max(times)


def is_alive(process: int) -> bool:
    """Return whether there is a process of this number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def make_folder(path: str) -> None:
    """Make a folder for results, and those above it.

    Raises:
        InputError: there cannot be one, or it cannot be written to.
    """
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise _no_results(path, error) from error
    require_writable(path)


def require_writable(path: str) -> None:
    """Check that files can be put into a folder, or into the nearest folder above it that exists.

    Raises:
        InputError: they cannot.
    """
    folder = path
    while not os.path.exists(folder):
        folder = os.path.dirname(folder) or "."
    try:
        _make_unnamed_file(folder)
    except OSError as error:
        raise _no_results(path, error) from error


def _make_unnamed_file(folder: str) -> None:
    """Make a file without a name, and remove it.

    Raises:
        OSError: there cannot be one.
    """
    with suppress(OSError):
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        return
    # The file system has no such files.
    from tempfile import TemporaryFile

    TemporaryFile(dir=folder).close()


def _no_results(path: str, error: OSError) -> InputError:
    if isinstance(error, FileExistsError):
        return InputError(path, because("core.results_need_folder"))
    return InputError(path, because("core.cannot_put", error=error.strerror))


def find_other_owner(path: str) -> str:
    """Return the user who owns a folder; empty if it is the current one, or if there is no such folder."""
    if not os.path.exists(path):
        return ""
    owner = os.stat(path).st_uid
    if owner == os.geteuid():
        return ""
    from pwd import getpwuid

    try:
        return getpwuid(owner).pw_name
    except KeyError:
        return str(owner)


@contextmanager
def draft_folder(path: str) -> Iterator[str]:
    """A hidden folder in a folder for results, for files that are not complete; removed at the end."""
    draft = os.path.join(path, f".{os.getpid()}.{get_native_id()}.00000000.part")
    _remove(draft)
    try:
        os.mkdir(draft)
        yield draft
    finally:
        _remove(draft)


@contextmanager
def fill_folder(path: str) -> Iterator[str]:
    """A folder whose files move to `path`, a new or empty folder, when everything is written.

    After a failure or an interrupt, `path` is as it was. Drafts of a run that was killed do not count as files.

    Raises:
        InputError: `path` is not empty, or cannot be made.
    """
    is_new = not os.path.lexists(path)
    make_folder(path)
    remove_old_drafts(path)
    present = [name for name in os.listdir(path) if not re.fullmatch(_DRAFT, name)]
    if present:
        raise InputError(path, because("core.holds_already", name=min(present)))
    draft = os.path.join(path, f".{os.getpid()}.part")
    moved: list[str] = []
    try:
        os.mkdir(draft)
        yield draft
        for name in sorted(os.listdir(draft)):
            os.rename(os.path.join(draft, name), os.path.join(path, name))
            moved.append(name)
        os.rmdir(draft)
    except BaseException:
        for name in moved:
            _remove(os.path.join(path, name))
        _remove(draft)
        if is_new:
            with suppress(OSError):
                os.rmdir(path)
        raise


def _remove(path: str) -> None:
    """Remove a file, or a folder with all that is in it, if that is possible; a later run removes what is left."""
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)
