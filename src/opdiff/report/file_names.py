"""Names of result files, and creation of files under names that are not in use."""

from __future__ import annotations

import errno
import os
import re
import time
from _thread import get_native_id  # `threading` takes long to import, and has it from here
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import name_in_errors

if TYPE_CHECKING:
    from collections.abc import Callable

# Most file systems allow 255 bytes; the rest is for a counter.
_MAX_NAME_BYTES = 240
# Names of models come from folders and graphs that are not trusted: no separators, no control characters.
_UNSAFE_CHARACTER = r"[^\w.-]"
# A counter is inserted before both parts of this ending.
_DOUBLE_ENDING = ".junit.xml"
# Errors of file systems without hard links.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})


def timed_file_name(content: str, timestamp: time.struct_time) -> str:
    """Return `result_20240115103052.csv` for `result`."""
    return f"{content}_{_digits(timestamp)}.csv"


def batch_file_name(device_id: str, model_name: str, dump_step: str, timestamp: time.struct_time) -> str:
    """Return `0_ge_default_71_0_result_20240115103052.csv`, for one step of a training run."""
    step = "_".join(map(_safe, (device_id, model_name, dump_step)))
    return _shortened(step, f"_result_{_digits(timestamp)}.csv")


def graph_file_name(timestamp: time.struct_time, rank: int | None, graph: int | None, mode: str) -> str:
    """Return `msprobe_cmp_report_rank0_graph1_statistics_20240115103052.csv`; `None` and mode `real` are omitted."""
    parts = ("" if rank is None else f"_rank{rank}", "" if graph is None else f"_graph{graph}")
    kind = "" if mode == "real" else f"_{mode}"
    return f"msprobe_cmp_report{''.join(parts)}{kind}_{_digits(timestamp)}.csv"


def write_new(folder: str, name: str, write: Callable[[str], None]) -> str:
    """Write a new file and return its path; `_1`, `_2`, … is added if the name is in use.

    `write` gets the path of a hidden draft, which is renamed when it is complete. No file of another run is replaced.
    """
    draft = os.path.join(folder, f".{os.getpid()}.{get_native_id()}.draft")
    ending = _DOUBLE_ENDING if name.endswith(_DOUBLE_ENDING) else os.path.splitext(name)[1]
    stem = name.removesuffix(ending)
    try:
        with name_in_errors(os.path.join(folder, name), draft):
            # One that is left may be a finished file by another name.
            with suppress(FileNotFoundError):
                os.unlink(draft)
            write(draft)
        for number in count():
            path = os.path.join(folder, f"{stem}_{number}{ending}" if number else name)
            if _rename_new(draft, path):
                return path
    finally:
        # What cannot be removed is removed by a later run.
        with suppress(OSError):
            os.unlink(draft)
    raise AssertionError("numbers do not end")


def _rename_new(draft: str, path: str) -> bool:
    """Give the draft this name and return true, or return false if the name is in use.

    Without hard links, an empty file reserves the name.
    """
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        try:
            os.replace(draft, path)
        except OSError:
            os.unlink(path)
            raise
    return True


def _digits(timestamp: time.struct_time) -> str:
    return time.strftime("%Y%m%d%H%M%S", timestamp)


def _safe(text: str) -> str:
    return re.sub(_UNSAFE_CHARACTER, "_", text).lstrip(".-") or "_"


def _shortened(start: str, end: str) -> str:
    """Return start and end; a start that is too long is cut, and a hash keeps the name unique."""
    max_bytes = _MAX_NAME_BYTES - len(end.encode())
    raw = start.encode()
    if len(raw) <= max_bytes:
        return start + end
    from hashlib import blake2b

    digest = blake2b(raw, digest_size=8).hexdigest()
    return f"{raw[: max_bytes - len(digest) - 1].decode(errors='ignore')}_{digest}{end}"
