"""What the fuzzer calls: bytes in, a value or the one expected error out; anything else is a finding."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_jobs import Guess

from dump_files import zip_file
from opdiff.core.errors import DumpError, ElementError, InputError
from opdiff.core.tensor import Container, OpDump
from opdiff.read import read_operator
from opdiff.read.filename import operator_name, parse_name
from opdiff.read.overflow import parse_record
from opdiff.read.reduced import parse_stats
from opdiff.read.rules import read_rules
from opdiff.read.rules.graph_text import parse_graph_text
from opdiff.read.slices import parse_attr
from opdiff.workflows.model_rules import make_rules

if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER = Path("build/fuzz/files")
_DUMP_NAME = "Add.a.1.2.1671234567890123"


def _written(raw: bytes, name: str) -> str:
    _FOLDER.mkdir(parents=True, exist_ok=True)
    path = str(_FOLDER / f"{os.getpid()}.{name}")
    with open(path, "wb") as file:
        file.write(raw)
    return path


def _read_all(raw: bytes, name: str) -> None:
    path = _written(raw, name)
    with suppress(DumpError):
        operator = read_operator(path, name)
        for tensor in operator.inputs + operator.outputs:
            assert tensor.source.nbytes <= 1 << 20 or name.endswith(".npz")
            with suppress(DumpError, ElementError):
                tensor.array()


def header(raw: bytes) -> None:
    """A standard dump whose length field is right, so that the header itself is reached."""
    _read_all(len(raw).to_bytes(8, "little") + raw, _DUMP_NAME)


def nano(raw: bytes) -> None:
    """A nano dump, from its version on."""
    _read_all((len(raw) + 4).to_bytes(8, "little") + b"ZZZZ" + raw, _DUMP_NAME)


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


def _read_model(raw: bytes, name: str) -> None:
    """Read rules, and write them as JSON, which is a rule file again; either may refuse what the other takes."""
    path = _written(raw, name)
    with suppress(InputError):
        read_rules(path)
    with suppress(InputError):
        made = make_rules(path)
        read_rules(_written(made.content, "rules.json"))


def om(raw: bytes) -> None:
    """An offline model, from its version on, whose length field is right."""
    header = bytearray(b"IMOD\0\1\0\0" + raw[:248].ljust(248, b"\0"))
    header[76:80] = len(raw[248:]).to_bytes(4, "little")
    header[184:192] = bytes(8)
    _read_model(bytes(header) + raw[248:], "a.om")


def om2(raw: bytes) -> None:
    """An archive with the graphs as JSON."""
    _read_model(zip_file(("data/model_a/debug/visual.json", raw)), "a.om2")


TARGETS: dict[str, Callable[[bytes], None]] = {
    **{target.__name__: target for target in (header, nano, name, record, attr, graph, figures, kernel, om, om2)},
    # Any file under the name of a dump, an old one included; NumPy files from their versions on, and archives.
    "dump": lambda raw: _read_all(raw, f"{_DUMP_NAME}.4.0.0.0"),
    "npy": lambda raw: _read_all(b"\x93NUMPY" + raw, "a.0.1.npy"),
    "npz": lambda raw: _read_all(raw, "a.npz"),
    # The message of a model; graph texts of the graph engine or of TorchAir, and in the form of ONNX; the JSON of ATC.
    "message": lambda raw: _read_model(b"\n\1n" + raw, "a.air"),
    "model_text": lambda raw: _read_model(b"name: 'a' " + raw, "a.txt"),
    "onnx_text": lambda raw: _read_model(b"ir_version: 6 " + raw, "a.pbtxt"),
    "atc_json": lambda raw: _read_model(b"{" + raw, "a.json"),
}
