"""What result files are called, and how two of them never get in each other's way."""

from __future__ import annotations

import errno
import os
import re
import time
from _thread import get_native_id  # `threading` takes long to import, and has it from here
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from opdiff.core.atomic_file import name_in_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    Done = TypeVar("Done")

# Bytes of a name; most file systems end at 255, and a counter needs room.
_MAX_BYTES = 240
# Names of models come from folders and graphs that are not trusted: no separators, no control characters.
_HARMFUL = r"[^\w.-]"
# The ending that is known by both its parts: a number stands before it.
_LONG_ENDING = ".junit.xml"
# What file systems without links answer.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})


def result_file_name(timestamp: time.struct_time) -> str:
    """`result_20240115103052.csv`."""
    return f"result_{_digits(timestamp)}.csv"


def batch_file_name(device_id: str, model_name: str, dump_step: str, timestamp: time.struct_time) -> str:
    """`0_ge_default_71_0_result_20240115103052.csv`, for one of many comparisons."""
    which = "_".join(map(_safe, (device_id, model_name, dump_step)))
    return _fitting(which, f"_result_{_digits(timestamp)}.csv")


def mapping_file_name(timestamp: time.struct_time) -> str:
    """`mapping_20240115103052.csv`."""
    return f"mapping_{_digits(timestamp)}.csv"


def graph_file_name(timestamp: time.struct_time, rank: int | None, graph: int | None, mode: str) -> str:
    """`msprobe_cmp_report_rank0_graph1_statistics_20240115103052.csv`; what there is one of only is left out."""
    parts = ("" if rank is None else f"_rank{rank}", "" if graph is None else f"_graph{graph}")
    kind = "" if mode == "real" else f"_{mode}"
    return f"msprobe_cmp_report{''.join(parts)}{kind}_{_digits(timestamp)}.csv"


def write_new(folder: str, name: str, write: Callable[[str], None]) -> str:
    """Write a file that no other run has or gets, and return its path: `_1`, `_2`, … is added to names in use.

    `write` is given a path to write to, of a hidden draft; the file takes its name when it is whole.
    """
    draft = os.path.join(folder, f".{os.getpid()}.{get_native_id()}.draft")
    ending = _LONG_ENDING if name.endswith(_LONG_ENDING) else os.path.splitext(name)[1]
    stem = name.removesuffix(ending)
    try:
        with name_in_errors(os.path.join(folder, name), draft):
            write(draft)
        for number in count():
            path = os.path.join(folder, f"{stem}_{number}{ending}" if number else name)
            if _take_name(draft, path):
                return path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    raise AssertionError("numbers do not end")


def with_drafts(folder: str, number: int, work: Callable[[tuple[str, ...]], Done]) -> Done:
    """What `work` returns, which is given the paths of hidden files of its own; nothing is left of those."""
    drafts = tuple(early_draft(folder, which) for which in range(number))
    try:
        return work(drafts)
    finally:
        for draft in drafts:
            with suppress(FileNotFoundError):
                os.unlink(draft)


def early_draft(folder: str, which: int) -> str:
    """The path of a hidden file that is written before its name is known."""
    return os.path.join(folder, f".{os.getpid()}.{get_native_id()}.{which}.early")


def _take_name(draft: str, path: str) -> bool:
    """Give the draft a second name, if nobody has it; where a file system has no links, the name is taken first."""
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
    return re.sub(_HARMFUL, "_", text).lstrip(".-") or "_"


def _fitting(start: str, end: str) -> str:
    """Start and end in one name; a start that is too long is cut, and a hash tells it from others."""
    room = _MAX_BYTES - len(end.encode())
    raw = start.encode()
    if len(raw) <= room:
        return start + end
    from hashlib import blake2b

    digest = blake2b(raw, digest_size=8).hexdigest()
    return f"{raw[: room - len(digest) - 1].decode(errors='ignore')}_{digest}{end}"
