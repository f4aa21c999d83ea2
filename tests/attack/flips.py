"""Flips every bit of headers and descriptions, one at a time: `python -m attack.flips [--sample N] [--kind NAME]`.

Prints how many flips of each kind of file were refused, changed nothing, or were explained, and how many violate the
rule of `agreement`. The bits of numbers (tensors, statistics, saved metrics) are data and are not flipped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf import text_format

from attack.agreement import compared, count, flip_bits, places_in
from attack.networks import (
    CONTAINERS,
    golden_files,
    rule_document,
    target_files,
    write_files,
    write_graph_network,
    write_network,
)
from model_files import ModelDef, om_file
from opdiff.core.comparison import Mode
from opdiff.core.source import FileRange
from opdiff.core.tensor import Slot
from opdiff.read import read_operator
from opdiff.read.filename import GOLDEN_MANIFEST
from opdiff.read.rules.model_schema import ENUMS
from opdiff.report.saved_json import save
from opdiff.workflows.compare.options import CompareOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from attack.agreement import Flip

    Places = list[tuple[int, int]]

_STATISTICS_HEADINGS = "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value"
_DESCRIBING_COLUMNS = 6
# The bit of `<` in the type string `<f4` that makes it `>f4`.
_BYTE_ORDER = frozenset({(21, 1)})
VIOLATIONS = ("silent", "blamed", "vanished")


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        write: writes a right run to a folder, and returns the options of its comparison, or the saved one.
        files: pattern of the files whose bits are flipped.
        places: offsets and bits of a file.
        unseen: offsets and bits that nothing contradicts, so that a comparison cannot find them.
        is_held: whether the rule holds for the kind; otherwise violations are counted only.
    """

    write: Callable[[Path], CompareOptions | Path]
    files: str
    places: Callable[[Path], Places]
    unseen: frozenset[tuple[int, int]] = frozenset()
    is_held: bool = True


def _offline(folder: Path, container: str = "standard", **more: str) -> CompareOptions:
    write_network(folder, container)
    paths = {"fusion_rules": str(folder / "rules.json")} | more
    return _options(folder / "target", folder / "golden", **paths)


def _options(target: Path, golden: Path, **more: Any) -> CompareOptions:
    out = target.parent / "out"
    out.mkdir(exist_ok=True)
    return CompareOptions(
        str(target), str(golden), output=str(out), in_process=True, workers=1, pictures="none", **more
    )


def _protobuf(folder: Path) -> CompareOptions:
    return _offline(folder, "protobuf")


def _nano(folder: Path) -> CompareOptions:
    return _offline(folder, "nano")


def _two_dumps(folder: Path) -> CompareOptions:
    for side in ("target", "golden"):
        write_files(folder / side, target_files(CONTAINERS["standard"]))
    return _options(folder / "target", folder / "golden")


def _quantization(folder: Path) -> CompareOptions:
    write_network(folder)
    write_files(folder / "arrays", golden_files())
    return _options(folder / "arrays", folder / "golden", quant_rules=str(folder / "rules.json"))


def _model() -> Any:
    document = json.loads(json.dumps(rule_document()))
    for op in document["graph"][0]["op"]:
        for desc in op["output_desc"]:
            desc["dtype"] = ENUMS["DataType"].index(desc["dtype"])
        for owner in (op, *op["output_desc"]):
            for entry in owner["attr"]:
                entry["key"] = entry["key"].encode()
                _encode_strings(entry["value"])
    return ModelDef(name="net", graph=document["graph"])


def _encode_strings(value: dict[str, Any]) -> None:
    if "s" in value:
        value["s"] = value["s"].encode()
    names = value.get("list", {}).get("s")
    if names:
        value["list"]["s"] = [name.encode() for name in names]


def _offline_model(folder: Path) -> CompareOptions:
    (folder / "net.om").write_bytes(om_file(_model().SerializeToString(), partitions=()))
    return _offline(folder, fusion_rules=str(folder / "net.om"))


def _graph_text_rules(folder: Path) -> CompareOptions:
    path = folder / "ge_proto_00000001_Build.txt"
    path.write_text(text_format.MessageToString(_model()))
    return _offline(folder, fusion_rules=str(path))


def _limits(folder: Path) -> CompareOptions:
    path = folder / "opdiff.toml"
    path.write_text("[dtype.float16]\ncosine = 0.98\ndistance = 0.06\n[type.Conv2D]\nnoise = 0.004\n")
    return _offline(folder, limits=str(path))


def _manifest(folder: Path) -> CompareOptions:
    options = _offline(folder)
    entry = {"name": "images", "dtype": "float32", "shape": [1, 3, 6, 5], "sha256": "a" * 64, "origin": "images.npy"}
    manifest = {
        "schema": "opdiff.golden", "version": 1, "model": [{"name": "net.onnx", "sha256": "b" * 64}], "inputs": [entry],
        "engine": "ONNX Runtime 1.17", "files": 6, "nbytes": 1, "without_file": {},
    }  # fmt: skip
    (folder / "golden" / GOLDEN_MANIFEST).write_text(json.dumps(manifest))
    return options


def _graph(folder: Path) -> CompareOptions:
    write_graph_network(folder)
    return _options(folder / "ge" / "msprobe_ge_dump", folder / "fx" / "msprobe_fx_dump", mode=Mode.GRAPH)


def _reduced(folder: Path) -> CompareOptions:
    options = _graph(folder)
    command = [sys.executable, "-m", "opdiff", "reduce", options.target, "--settle", "0"]
    subprocess.run(command, check=True, capture_output=True)
    return options


def _statistics(folder: Path) -> CompareOptions:
    options = _graph(folder)
    for path in sorted(folder.glob("ge/**/*.6.*")):
        operator = read_operator(str(path))
        lines = [_STATISTICS_HEADINGS]
        for slot in Slot:
            for index, tensor in enumerate(operator.tensors(slot)):
                values, shape = tensor.array(), "x".join(map(str, tensor.spec.shape))
                about = f"{slot.capitalize()},{index},{tensor.source.nbytes},DT_FLOAT16,ND,{shape}"
                lines.append(f"{about},{values.max()},{values.min()},{values.mean(dtype='f8')}")
        path.with_name(f"{path.name}.csv").write_text("\n".join(lines) + "\n")
        path.unlink()
    return options


def _saved(folder: Path) -> Path:
    comparison = compared(_offline(folder))
    assert comparison is not None
    save(comparison, str(folder / "saved.json"))
    return folder / "saved.json"


def _standard_header(path: Path) -> Places:
    with path.open("rb") as file:
        return list(places_in(8 + int.from_bytes(file.read(8), "little")))


def _npy_header(path: Path) -> Places:
    with path.open("rb") as file:
        return list(places_in(10 + int.from_bytes(file.read(10)[8:], "little")))


def _without_data(path: Path) -> Places:
    """Return the bits of a protobuf dump outside of its tensors."""
    operator = read_operator(str(path))
    sources = [tensor.source for slot in Slot for tensor in operator.tensors(slot)]
    found = [source for source in sources if isinstance(source, FileRange)]
    ranges = [range(source.offset, source.offset + source.nbytes) for source in found]
    return [place for place in places_in(path.stat().st_size) if not any(place[0] in some for some in ranges)]


def _description(path: Path) -> Places:
    """Return the bits of headings and describing columns of a statistics file."""
    places: Places = []
    start = 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True)):
        described = line if number == 0 else b",".join(line.split(b",")[:_DESCRIBING_COLUMNS])
        places += places_in(start + len(described), start)
        start += len(line)
    return places


def _all(path: Path) -> Places:
    return list(places_in(path.stat().st_size))


KINDS: dict[str, Kind] = {
    "standard": Kind(_offline, "target/*", _standard_header),
    "standard, two dumps": Kind(_two_dumps, "target/*", _standard_header),
    "protobuf": Kind(_protobuf, "target/*", _without_data),
    "nano": Kind(_nano, "target/*", _standard_header),
    "npy": Kind(_offline, "golden/*", _npy_header, _BYTE_ORDER),
    "ATC JSON": Kind(_offline, "rules.json", _all),
    "AMCT JSON": Kind(_quantization, "rules.json", _all),
    "om": Kind(_offline_model, "net.om", _all),
    "graph text as rules": Kind(_graph_text_rules, "ge_proto*", _all),
    "limits": Kind(_limits, "opdiff.toml", _all),
    "saved form": Kind(_saved, "saved.json", _all),
    "golden manifest": Kind(_manifest, f"golden/{GOLDEN_MANIFEST}", _all),
    "graph mode, standard": Kind(_graph, "ge/**/*.6.*", _standard_header),
    "graph mode, npy": Kind(_graph, "fx/**/*.npy", _npy_header, _BYTE_ORDER),
    "reduced": Kind(_reduced, "ge/**/*_min_max.npz", _all),
    "statistics": Kind(_statistics, "ge/**/*.csv", _description, is_held=False),
    "graph text": Kind(_graph, "ge/**/*.txt", _all, is_held=False),
}


def run_kind(kind: Kind, folder: Path, sample: int = 0, seed: int = 0) -> list[Flip]:
    """Flip all bits of a kind, or a random sample of them."""
    folder.mkdir(parents=True, exist_ok=True)
    run = kind.write(folder)
    places = [
        (path, place) for path in sorted(folder.glob(kind.files)) if path.is_file() for place in kind.places(path)
    ]
    if sample and sample < len(places):
        places = sorted(random.Random(seed).sample(places, sample))
    chosen: dict[Path, Places] = {}
    for path, place in places:
        chosen.setdefault(path, []).append(place)
    return [flip for path, some in chosen.items() for flip in flip_bits(path, some, run)]


def violations(kind: Kind, flips: Iterable[Flip]) -> list[Flip]:
    """Return the flips that violate the rule, without those that nothing contradicts."""
    return [flip for flip in flips if flip.verdict in VIOLATIONS and (flip.offset, flip.bit) not in kind.unseen]


def main(arguments: Sequence[str] | None = None) -> int:
    """Flip bits, print the counts, and return 1 if the rule is violated more often than is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="flips of each kind; default: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--kind", choices=KINDS, action="append", help="kind of file; default: all")
    args = parser.parse_args(arguments)
    code = 0
    with tempfile.TemporaryDirectory(prefix="opdiff-flips-") as work:
        # Limits of the current folder would apply.
        os.chdir(work)
        for name in args.kind or KINDS:
            kind = KINDS[name]
            flips = run_kind(kind, Path(work) / name.replace(" ", "_"), args.sample, args.seed)
            counts = ", ".join(f"{number} {what}" for what, number in sorted(count(flips).items()))
            print(
                f"{name}: {len(flips)} flips, {counts}{'' if kind.is_held else ' (known, see SECURITY.md)'}", flush=True
            )
            bad = violations(kind, flips)
            for flip in bad[:20]:
                print(f"  {flip.verdict}: {flip.path.name}, byte {flip.offset}, bit {flip.bit}")
            code |= bool(bad) and kind.is_held
        os.chdir("/")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
