"""What the fuzzer calls: bytes in, a value or the one expected error out; anything else is a finding."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_jobs import Guess

from opdiff.core.errors import DumpError, ElementError
from opdiff.core.tensor import Container, OpDump
from opdiff.read import read_operator
from opdiff.read.filename import operator_name, parse_name
from opdiff.read.overflow import parse_record
from opdiff.read.reduced import parse_stats
from opdiff.read.rules.graph_text import parse_graph_text
from opdiff.read.slices import parse_attr

if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER = Path("build/fuzz/files")


def _read_all(raw: bytes, name: str) -> None:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    path = str(_FOLDER / f"{os.getpid()}.{name}")
    with open(path, "wb") as file:
        file.write(raw)
    with suppress(DumpError):
        operator = read_operator(path, name)
        for tensor in operator.inputs + operator.outputs:
            assert tensor.source.nbytes <= 1 << 20 or name.endswith(".npz")
            with suppress(DumpError, ElementError):
                tensor.array()


def header(raw: bytes) -> None:
    """A standard dump whose length field is right, so that the header itself is reached."""
    _read_all(len(raw).to_bytes(8, "little") + raw, "Add.a.1.2.1671234567890123")


def dump(raw: bytes) -> None:
    """Any file under the name of a dump, an old one included."""
    _read_all(raw, "Add.a.1.2.1671234567890123.4.0.0.0")


def nano(raw: bytes) -> None:
    """A nano dump, from its version on."""
    _read_all((len(raw) + 4).to_bytes(8, "little") + b"ZZZZ" + raw, "Add.a.1.2.1671234567890123")


def npy(raw: bytes) -> None:
    """A NumPy file, from its version on."""
    _read_all(b"\x93NUMPY" + raw, "a.0.1.npy")


def npz(raw: bytes) -> None:
    """A NumPy archive."""
    _read_all(raw, "a.npz")


def graph(raw: bytes) -> None:
    """A graph text."""
    parse_graph_text(raw.decode("utf-8", "replace"))


def figures(raw: bytes) -> None:
    """The text of a reduced file."""
    with suppress(DumpError):
        parse_stats(raw, "statistics")


def name(raw: bytes) -> None:
    """A file's name."""
    text = raw.decode("utf-8", "surrogateescape")
    parsed = parse_name(text)
    operator_name(text)
    assert parsed is None or parsed.op_name


def record(raw: bytes) -> None:
    """An overflow record."""
    with suppress(DumpError):
        parse_record(raw, "record")


def attr(raw: bytes) -> None:
    """The description of slices."""
    with suppress(DumpError):
        parse_attr(OpDump("attr", Container.STANDARD, attr=raw.decode("utf-8", "replace")))


def kernel(raw: bytes) -> None:
    """A job for the native kernel: axes that make sense are walked as in a copy, others are refused."""
    Guess(raw).check()


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (header, dump, nano, npy, npz, name, record, attr, graph, figures, kernel)
}
