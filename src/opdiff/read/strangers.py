"""Files that are neither dumps nor rules, recognized by their first bytes and names: what they seem to be."""

from __future__ import annotations

import codecs
import os
import re

from msgspec import Struct

from opdiff.core.filesystem import open_input
from opdiff.core.reasons import Reason

_HEAD_NBYTES = 1 << 12
# Control characters that texts do not have.
_NOT_TEXT = re.compile(r"[^\t\n\f\r\x1b\x20-\U0010ffff]")


class Stranger(Struct, frozen=True):
    """Likely kind of an unsuitable file, and what to use instead, as sentences of the catalogue."""

    seems: Reason
    instead: Reason


class _Kind(Struct, frozen=True):
    """A kind of file: the code of its name, a pattern of its first bytes, suffixes of its name, what to use instead."""

    name: str
    pattern: bytes
    suffixes: tuple[str, ...] = ("",)
    instead: str = "dump"

    def fits(self, head: bytes, name: str) -> bool:
        return name.lower().endswith(self.suffixes) and re.match(self.pattern, head, re.DOTALL) is not None


# The first one that fits is taken. Archives of NumPy and of compiled models have readers, whose errors say more.
_ZIP = rb"PK\x03\x04"
_KINDS = (
    _Kind("image", rb"\x89PNG\r\n|\xff\xd8\xff|GIF8[79]a|BM.{4}\0{4}|RIFF.{4}WEBP|II\*\0|MM\0\*"),
    _Kind("pytorch", _ZIP + rb".*/data\.pkl", instead="pytorch"),
    _Kind("pytorch", rb"\x80[\x02-\x05]", (".pt", ".pth", ".ckpt"), instead="pytorch"),
    _Kind("safetensors", rb".{6}\0\0\{\s*\"", instead="pytorch"),
    _Kind("workbook", _ZIP + rb".*(?:\[Content_Types\]\.xml|xl/)", (".xlsx", ".xlsm")),
    _Kind("zip", _ZIP, (".zip", ".whl"), instead="unpacked"),
    _Kind("archive", rb"\x1f\x8b|BZh[1-9]|\xfd7zXZ\0|7z\xbc\xaf|\x28\xb5\x2f\xfd|.{257}ustar", instead="unpacked"),
    # Version of the format, then the name of the tool that wrote the model, or its graph.
    _Kind("onnx", rb"\x08[\x01-\x20](?:\x12[\x03-\x40][\x20-\x7e]{3}|:.{1,5}\n)", instead="model"),
    _Kind("caffemodel", rb"[\n\x12\x1a\xa2]", (".caffemodel",), instead="caffe"),
    _Kind("tensorflow", rb"\n", (".pb",), instead="model"),
    _Kind("hdf5", rb"\x89HDF\r\n"),
    _Kind("parquet", rb"PAR1"),
    _Kind("npy", rb"\x93NUMPY", instead="npy"),
    _Kind("program", rb"\x7fELF"),
    _Kind("comparison", rb"\s*\{.*\"opdiff\.comparison\"", instead="comparison"),
    _Kind("fusion_result", rb"\s*[\[{].*\"(?:graph|ub)_fusion\"\s*:.*\"(?:effect|match)_times\"", instead="rules"),
)  # fmt: skip
# Kinds of texts.
_TEXTS = (
    _Kind("prototxt", rb".*\blayers?\s*\{", (".prototxt",), instead="caffe"),
    _Kind("page", rb"\s*<(?:!doctype html|!DOCTYPE html|html)"),
    _Kind("log", rb"\[(?:DEBUG|INFO|EVENT|TRACE|WARNING|ERROR)\]"),
    _Kind("log", rb"", (".log",)),
    # JSON and graph texts have readers, whose errors say more.
    _Kind("text", rb"(?!(?:\xef\xbb\xbf|\s|#[^\n]*\n)*(?:{|\[\s*[{\]]|(?:graph|name|op|attr|ir_version)\s*[:{<]))"),
)


def find_stranger(path: str) -> Stranger | None:
    """Return what a file seems to be that no reader could read; `None` if nothing speaks for another kind of file."""
    try:
        with open_input(path) as file:
            head = file.read(_HEAD_NBYTES)
    except OSError:
        return None
    name = os.path.basename(path)
    kinds = (*_KINDS, *_TEXTS) if _is_text(head) else _KINDS
    kind = next((kind for kind in kinds if kind.fits(head, name)), None)
    if kind is None:
        return None
    return Stranger(Reason(f"read.seems_{kind.name}"), Reason(f"read.instead_{kind.instead}"))


def _is_text(head: bytes) -> bool:
    try:
        # The last character may be cut off.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return bool(text.strip()) and _NOT_TEXT.search(text) is None
