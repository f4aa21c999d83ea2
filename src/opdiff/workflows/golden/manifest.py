"""The manifest beside golden files: model, inputs and engine, so that two golden runs can be told apart."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

from opdiff import __version__
from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import InputError
from opdiff.core.filesystem import open_input
from opdiff.core.reasons import Status, because
from opdiff.read.filename import GOLDEN_MANIFEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.workflows.golden.model_inputs import ModelInput
    from opdiff.workflows.golden.options import GoldenOptions

_SCHEMA = "opdiff golden"
_VERSION = 1
_MAX_NBYTES = 64 << 20


class HashedFile(msgspec.Struct, frozen=True):
    """A file of the model: its base name and the SHA-256 of its content."""

    name: str
    sha256: str


class InputEntry(msgspec.Struct, frozen=True):
    """An input: its data as fed to the model, and where it came from."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str
    origin: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Origin of a golden directory.

    Attributes:
        key: digest of everything that decides about the golden data; equal for equal runs.
        model: files of the model; the first is the file that the user named.
        inputs: inputs of the run.
        engine: engine and version.
        files: number of golden files.
        nbytes: bytes of their elements.
        without_file: names of operators without a file, by reason.
    """

    schema: str = _SCHEMA
    version: int = _VERSION
    made_by: str = f"opdiff {__version__}"
    made_at: str = ""
    key: str = ""
    model: tuple[HashedFile, ...]
    inputs: tuple[InputEntry, ...]
    engine: str
    files: int
    nbytes: int
    without_file: dict[str, tuple[str, ...]]


def hash_files(paths: Sequence[str]) -> tuple[HashedFile, ...]:
    """Return names and hashes of files."""
    import hashlib

    found = []
    for path in paths:
        with open_input(path) as file:
            found.append(HashedFile(os.path.basename(path), hashlib.file_digest(file, "sha256").hexdigest()))
    return tuple(found)


def describe_run(model: Sequence[str], inputs: Sequence[ModelInput], options: GoldenOptions) -> Manifest:
    """Return the manifest of a run before its results are known; `model` has the paths of the model's files."""
    import hashlib

    files = hash_files(model)
    entries = tuple(
        InputEntry(
            item.name,
            item.dtype.name,
            item.codes.shape,
            hashlib.sha256(item.codes.tobytes()).hexdigest(),
            item.origin if item.is_random else os.path.basename(item.origin),
        )
        for item in inputs
    )
    libraries = hash_files(options.libraries)
    needed = hash_files([options.rules]) if options.only_needed else ()
    parts = (__version__, files, entries, options.only, options.until, options.constants, libraries, needed)
    key = hashlib.sha256(msgspec.json.encode(parts)).hexdigest()
    return Manifest(key=key, model=files, inputs=entries, engine="", files=0, nbytes=0, without_file={})


def write_manifest(folder: str, manifest: Manifest) -> None:
    """Write the manifest of a golden directory."""
    made = msgspec.structs.replace(manifest, made_at=time.strftime("%Y-%m-%d %H:%M:%S %z"))
    with open_atomic(os.path.join(folder, GOLDEN_MANIFEST)) as file:
        file.write(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")


def find_manifest(folder: str) -> Manifest | None:
    """Return the manifest of a golden directory, if there is one.

    Raises:
        InputError: the file is not such a manifest.
    """
    path = os.path.join(folder, GOLDEN_MANIFEST)
    try:
        with open_input(path) as file:
            return msgspec.json.decode(file.read(_MAX_NBYTES), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(path, because("core.cannot_read", Status.NOT_HERE, error=error.strerror)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(path, because("golden.not_manifest", error=str(error))) from error
