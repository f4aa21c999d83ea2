"""Collect what belongs to one operator, and write it as one archive."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from opdiff.core.atomic_file import open_atomic
from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.core.pairing import Pairing
from opdiff.core.reasons import Reason, because
from opdiff.core.tensor import file_safe_name
from opdiff.judge.limits import Limits
from opdiff.pair.dump_index import DumpIndex
from opdiff.read.dump import read_dump
from opdiff.workflows.bundle.contents import Contents, OperatorRecord, readme_text
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.measuring import Measuring, align_and_measure
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.compare.pipeline import pair_only
from opdiff.workflows.replay.operator_replay import prepare, replay_operator
from opdiff.workflows.replay.options import ReplayOptions
from opdiff.workflows.replay.pipeline import choose, open_context, read_replay_inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Row
    from opdiff.core.dump import DumpedOp
    from opdiff.core.replay import Replay
    from opdiff.workflows.bundle.contents import ModelFiles
    from opdiff.workflows.bundle.options import BundleOptions

# All entries have this date: bundles of equal contents are equal.
_DATE = (1980, 1, 1, 0, 0, 0)


def write_bundle(options: BundleOptions) -> tuple[str, ...]:
    """Write the archive of an operator and return the names of its files.

    Raises:
        UsageError: there is no such operator, or an engine is not installed.
        InputError: a directory, the model or the rules cannot be used.
    """
    dump = _find_operator(options)
    contents = Contents()
    contents.add_dumped(dump)
    rows = _add_golden(options, dump, contents)
    replay, model, note = _add_model(options, contents)
    record = OperatorRecord(
        operator=options.operator,
        type=dump.op_type,
        originals=replay.originals if replay else (),
        tensors=contents.tensors,
        model=model,
        note=note,
    )
    contents.files["operator.json"] = msgspec.json.format(msgspec.json.encode(record), indent=2)
    contents.files["README.md"] = readme_text(record, rows, replay).encode()
    if model is not None:
        contents.files["run.py"] = Path(__file__).with_name("run.py").read_bytes()
    _write(options.output, contents.files)
    return tuple(sorted(contents.files))


def _find_operator(options: BundleOptions) -> DumpedOp:
    index = DumpIndex(read_dump(options.target, with_rules=bool(options.rules)))
    dump = index.find(options.operator)
    if dump is None:
        nearest = index.nearest(options.operator)
        hint = because("core.did_you_mean", name=nearest) if nearest else None
        raise UsageError(because("workflows.not_in_dump", name=options.operator, hint=hint))
    if dump.problem is not None:
        raise InputError(dump.name, dump.problem)
    return dump


def _add_golden(options: BundleOptions, dump: DumpedOp, contents: Contents) -> Sequence[Row]:
    """Add the golden tensors of the operator; return the rows of their comparison."""
    if not options.golden:
        return ()
    (pairs,) = pair_only(CompareOptions(options.target, options.golden, options.rules))
    if isinstance(pairs, ComparisonProblem):
        raise InputError(pairs.path, pairs.reason)
    own_name = file_safe_name(dump.name)
    own = [pair for pair in pairs if isinstance(pair, Pairing) and file_safe_name(pair.target.key.op) == own_name]
    rows = align_and_measure(own, Measuring(), lambda _done, _total: None).rows
    for pair, row in zip(own, rows, strict=True):
        if pair.golden.tensor is not None:
            contents.add_golden(row, pair.golden.tensor)
    return rows


def _add_model(options: BundleOptions, contents: Contents) -> tuple[Replay | None, ModelFiles | None, str]:
    """Add the subgraph of the original model; return the replay, the files, and why there are none."""
    if not options.model or not options.rules:
        return None, None, "it needs the original model and the rules (`--model`, `-fr`)."
    wanted = ReplayOptions(options.target, options.rules, options.model, options.weights, options.shapes)
    inputs = read_replay_inputs(wanted)
    context = open_context(wanted, inputs, Limits())
    (found,) = choose(inputs.rules, (options.operator,), context.values.is_run)
    replay = replay_operator(context, found)
    try:
        prepared = prepare(context, found)
        model = contents.add_model(prepared)
    except OpdiffError as error:
        return replay, None, f"{error.reason}."
    if isinstance(prepared, Reason):
        return replay, None, f"{prepared}."
    return replay, model, "" if model else "the operator only moves data."


def _write(path: str, files: dict[str, bytes]) -> None:
    with open_atomic(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _DATE), files[name], zipfile.ZIP_DEFLATED)
