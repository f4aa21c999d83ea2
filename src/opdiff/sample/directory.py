"""The files of the sample, and the directory that they may be written to."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import UsageError
from opdiff.core.filesystem import regular_file
from opdiff.core.reasons import because
from opdiff.sample.faults import FAULTS, Fault, choose, inject

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from opdiff.sample.graph import SampleNetwork

_TARGET, _GOLDEN, _RULES = "npu", "golden", "rules/network.json"
_MANIFEST = "sample.json"
_MAKER = "opdiff sample"


class Sample(Struct, frozen=True):
    """Paths of the parts of a sample, and its faults."""

    target: str
    golden: str
    rules: str
    faults: tuple[Fault, ...] = ()


def write_sample(directory: str, *, faults: Collection[str] = tuple(FAULTS), overwrite: bool = False) -> Sample:
    """Write the dumps of the sample network, its golden data and its rule file: 2 MB, the same bytes every time.

    An older sample is replaced. Files that do not belong to a sample are never removed.

    Raises:
        UsageError: there is no such fault, or the directory has other files and `overwrite` is not set.
    """
    chosen = choose(faults)
    files = make_sample(chosen)
    _make_room(directory, overwrite=overwrite)
    write_files(directory, {_MANIFEST: _manifest(files, chosen), **files})
    return replace(sample_in(directory), faults=chosen)


def sample_in(directory: str) -> Sample:
    """Return the paths of the parts of a sample."""
    target, golden, rules = (os.path.join(directory, part) for part in (_TARGET, _GOLDEN, _RULES))
    return Sample(target, golden, rules)


def make_sample(faults: Iterable[Fault]) -> dict[str, bytes]:
    """Return the contents of all files of the sample, by their path below its directory."""
    from opdiff.sample.network import build

    network = inject(build(), faults)
    return target_files(network) | golden_files(network)


def target_files(network: SampleNetwork, folder: str = _TARGET, rules: str = _RULES) -> dict[str, bytes]:
    """Return the dump files and the rule file of a run on the device, by path."""
    from opdiff.sample.device import dump_files, run_device
    from opdiff.sample.rules import rule_json

    run = run_device(network)
    dumps = {f"{folder}/{name}": content for name, content in dump_files(network, run).items()}
    return dumps | {rules: encode_json(rule_json(network, run))}


def golden_files(network: SampleNetwork, folder: str = _GOLDEN) -> dict[str, bytes]:
    """Return the golden files, by path."""
    from opdiff.sample.golden import npy_files, run_golden

    return {f"{folder}/{name}": content for name, content in npy_files(run_golden(network)).items()}


def write_files(directory: str, files: Mapping[str, bytes]) -> None:
    """Write files below a directory."""
    for name, content in files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open_atomic(path) as file:
            file.write(content)


def _manifest(files: Iterable[str], faults: Iterable[Fault]) -> bytes:
    """Return the file that marks the directory as a sample and describes its faults."""
    described = [{"name": fault.name, "operator": fault.operator, "what": str(fault.description)} for fault in faults]
    return encode_json({"made_by": _MAKER, "faults": described, "files": sorted(files)})


def _make_room(directory: str, *, overwrite: bool) -> None:
    if not os.path.lexists(directory):
        return
    if not os.path.isdir(directory):
        raise UsageError(because("sample.not_a_directory", directory=directory))
    if not os.listdir(directory):
        return
    old = _find_old_files(directory)
    if old is None and not overwrite:
        raise UsageError(because("sample.other_files", directory=directory))
    for name in old or ():
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            os.remove(path)


def _find_old_files(directory: str) -> list[str] | None:
    """Return the files of the sample in `directory`, or `None` if there is no sample."""
    try:
        with open(os.path.join(directory, _MANIFEST), "rb", opener=regular_file) as file:
            manifest = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict) or manifest.get("made_by") != _MAKER:
        return None
    names = manifest.get("files")
    return [name for name in names if _is_sample_path(name)] if isinstance(names, list) else []


def _is_sample_path(name: object) -> bool:
    """Return whether this is a path that samples have; such a path stays inside the directory."""
    return isinstance(name, str) and (name == _RULES or os.path.dirname(name) in (_TARGET, _GOLDEN))


def encode_json(value: object) -> bytes:
    """Return a JSON file."""
    return json.dumps(value, indent=1, ensure_ascii=False).encode()
