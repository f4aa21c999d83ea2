"""Mutations of input files: bytes, fields, structure, names, special files. Each is reproducible from its generator."""

from __future__ import annotations

import json
import os
import shutil
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    Mutation = Callable[[random.Random, Path], "Path | None"]

# Varints and lengths that break arithmetic: ends of types, and overlong encodings.
_NUMBERS = (
    b"\x00", b"\x7f", b"\x80\x80\x01", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x80" * 9 + b"\x01",
    b"\xff" * 8 + b"\x7f",
)  # fmt: skip
_JSON_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "x" * 5000, "=cmd()", "../../etc",
    [], {}, [[]], [None] * 50, {"a": {}}, "\u202e\ufeff", "a\nb", -0.0,
)  # fmt: skip
_NAME_PARTS = (
    "\n", "\t", "=1+1", "..", "\u202e", "\ufeff", "😀", "%s", "'\"`", "\x1b[31m", "x" * 100, " ", "0" * 60, ".",
)  # fmt: skip
_LINK_TARGETS = ("/dev/zero", "/dev/stdin", "/etc/passwd", "..", "nothing", "/proc/self/mem")
_MAX_JSON_LEAVES = 20_000


# Bytes


def flip_bits(rng: random.Random, path: Path) -> None:
    """Flip a few bits, most often in the header."""
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 2, 8)) if content else 0):
        end = len(content) if rng.random() < 0.3 else min(len(content), 300)
        content[rng.randrange(end)] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def overwrite(rng: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content) + 1)
    content[start : start + rng.randrange(1, 16)] = rng.randbytes(rng.randrange(16))
    path.write_bytes(content)


def truncate(rng: random.Random, path: Path) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size + 1))


def extend(rng: random.Random, path: Path) -> None:
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.randrange(1, 100)))


def make_sparse(rng: random.Random, path: Path) -> None:
    """Make the file very long without using the disk."""
    os.truncate(path, rng.choice((1 << 20, 1 << 32, 1 << 40)))


def insert_number(rng: random.Random, path: Path) -> None:
    """Replace bytes of the header by a number at the end of a type."""
    content = bytearray(path.read_bytes())
    start = rng.randrange(min(len(content), 300) + 1)
    content[start : start + rng.randrange(3)] = rng.choice(_NUMBERS)
    path.write_bytes(content)


# Fields


def change_json(rng: random.Random, path: Path) -> None:
    """Replace, remove or repeat one value of a JSON document."""
    document = json.loads(path.read_bytes())
    places = list(_places(document))[:_MAX_JSON_LEAVES]
    for _ in range(rng.choice((1, 1, 1, 3)) if places else 0):
        owner, key = rng.choice(places)
        with suppress(LookupError):
            _change(rng, owner, key)
    path.write_text(json.dumps(document), encoding="utf-8", errors="surrogatepass")


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def _change(rng: random.Random, owner: Any, key: Any) -> None:
    kind = rng.randrange(4)
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, list):
        owner.insert(key, owner[key])
    elif kind == 2 and isinstance(owner, dict):
        owner[rng.choice(_NAME_PARTS)] = owner.pop(key)
    else:
        owner[key] = rng.choice(_JSON_VALUES)


# Structure


def delete(_rng: random.Random, path: Path) -> None:
    path.unlink()


def make_empty(_rng: random.Random, path: Path) -> None:
    path.write_bytes(b"")


def take_other_content(rng: random.Random, path: Path) -> None:
    """Replace the content by that of another file of the folder."""
    others = sorted(other for other in path.parent.iterdir() if other.is_file())
    path.write_bytes(rng.choice(others).read_bytes())


def rename(rng: random.Random, path: Path) -> Path | None:
    """Give the file an odd name."""
    parts = path.name.split(".")
    place = rng.randrange(len(parts))
    odd = rng.choice(_NAME_PARTS)
    parts[place] = odd if rng.random() < 0.3 else parts[place] + odd
    renamed = path.with_name(".".join(parts)[:200].replace("/", "_") or "x")
    with suppress(OSError, ValueError):
        path.rename(renamed)
        return renamed
    return None


def copy_under_other_name(rng: random.Random, path: Path) -> Path | None:
    parts = path.name.split(".")
    place = rng.randrange(len(parts))
    parts[place] = f"{parts[place]}{rng.randrange(10)}"
    copy = path.with_name(".".join(parts))
    shutil.copyfile(path, copy)
    return copy


# Special files


def make_pipe(_rng: random.Random, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_folder(_rng: random.Random, path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_socket(_rng: random.Random, path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as made, suppress(OSError):
        made.bind(str(path))


def make_link(rng: random.Random, path: Path) -> None:
    path.unlink()
    path.symlink_to(rng.choice((path.name, *_LINK_TARGETS)))


BYTE_MUTATIONS: tuple[Mutation, ...] = (flip_bits, flip_bits, overwrite, truncate, extend, insert_number, make_sparse)
FILE_MUTATIONS: tuple[Mutation, ...] = (
    *BYTE_MUTATIONS, delete, make_empty, take_other_content, rename, copy_under_other_name, make_pipe, make_folder,
    make_socket, make_link,
)  # fmt: skip
JSON_MUTATIONS: tuple[Mutation, ...] = (change_json, change_json, change_json, change_json, *FILE_MUTATIONS)
