"""The sample as files, and the rules for where it may be put."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opdiff.core.atomic_file import whole_file
from opdiff.core.errors import UsageError
from opdiff.sample.faults import FAULTS, Fault, choose, plant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_TARGET, _GOLDEN, _RULES = "npu", "golden", "rules/network.json"
_MANIFEST = "sample.json"
_MAKER = "opdiff sample"


@dataclass(frozen=True, slots=True)
class Sample:
    """Where the parts of a sample are, and which faults are in it."""

    target: str
    golden: str
    rules: str
    faults: tuple[Fault, ...]


def write_sample(directory: str, *, faults: Collection[str] = tuple(FAULTS), overwrite: bool = False) -> Sample:
    """Write the dumps of the sample network, its golden data and its rule file: 2 MB, the same bytes every time.

    A sample that is there already is replaced. Files that are not of a sample are never removed.

    Raises:
        UsageError: a fault is not known, or the directory holds other files and `overwrite` is not set.
    """
    chosen = choose(faults)
    files = make_sample(chosen)
    _make_room(directory, overwrite=overwrite)
    for name, content in {_MANIFEST: _manifest(files, chosen), **files}.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with whole_file(path) as file:
            file.write(content)
    target, golden, rules = (os.path.join(directory, part) for part in (_TARGET, _GOLDEN, _RULES))
    return Sample(target, golden, rules, chosen)


def make_sample(faults: Iterable[Fault]) -> dict[str, bytes]:
    """The contents of all files of the sample, by their path below its directory."""
    from opdiff.sample.device import dump_files, run_device
    from opdiff.sample.golden import golden_files, run_golden
    from opdiff.sample.network import build
    from opdiff.sample.rules import rule_json

    network = plant(build(), faults)
    run = run_device(network)
    golden = golden_files(run_golden(network))
    return {
        **{f"{_TARGET}/{name}": content for name, content in dump_files(network, run).items()},
        **{f"{_GOLDEN}/{name}": content for name, content in golden.items()},
        _RULES: _json(rule_json(network, run)),
    }


def _manifest(files: Iterable[str], faults: Iterable[Fault]) -> bytes:
    """The file that marks the directory as a sample and tells what is wrong in it."""
    described = [{"name": fault.name, "operator": fault.operator, "what": fault.what} for fault in faults]
    return _json({"made_by": _MAKER, "faults": described, "files": sorted(files)})


def _make_room(directory: str, *, overwrite: bool) -> None:
    if not os.path.lexists(directory):
        return
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory; a sample needs one of its own")
    if not os.listdir(directory):
        return
    old = _read_old_files(directory)
    if old is None and not overwrite:
        raise UsageError(
            f"{directory} holds files that are not of a sample; name an empty directory, or allow overwriting"
        )
    for name in old or ():
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            os.remove(path)


def _read_old_files(directory: str) -> list[str] | None:
    """The files of the sample in `directory`; None when there is none."""
    try:
        with open(os.path.join(directory, _MANIFEST), "rb") as file:
            manifest = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict) or manifest.get("made_by") != _MAKER:
        return None
    names = manifest.get("files")
    return [name for name in names if _is_ours(name)] if isinstance(names, list) else []


def _is_ours(name: object) -> bool:
    """A path that a sample can have; none of these leads out of its directory."""
    return isinstance(name, str) and (name == _RULES or os.path.dirname(name) in (_TARGET, _GOLDEN))


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode()
