"""Differences between the environments of two NPU runs, as far as dumps, offline models and graph texts record them.

Devices and versions compute with other algorithms, layouts and element types. Differences that were recorded are named
in the verdict if the runs differ, and versions that are never recorded are to be checked then.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opdiff.core.dump import DumpKind, GraphKind
from opdiff.core.errors import DumpError
from opdiff.core.judgement import Agreement, ErrorKind
from opdiff.core.reasons import Reason, because
from opdiff.read import read_operator
from opdiff.read.filename import DumpName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.dump import Dump, DumpedOp
    from opdiff.core.graph import ModelOrigin, TextGraph
    from opdiff.core.judgement import Judgement
    from opdiff.core.tensor import OpDump
    from opdiff.pair import Rules
    from opdiff.read.graph.tree import GraphTree

# Options of the compiler that decide in which precision and with which algorithms operators compute.
_OPTIONS = (
    "--soc_version", "--core_type", "--precision_mode", "--precision_mode_v2", "--op_precision_mode",
    "--op_select_implmode", "--optypelist_for_implmode", "--modify_mixlist", "--keep_dtype", "--customize_dtypes",
    "--insert_op_conf", "--input_fp16_nodes", "--buffer_optimize", "--enable_small_channel", "--deterministic",
)  # fmt: skip
# Sentences about errors that an environment can explain.
_EXPLAINED = ("judge.noisy_run", *(f"judge.outputs_{outputs}" for outputs in (Agreement.SLIGHT, Agreement.SIGNIFICANT)))
# Sentences that name CANN, driver and firmware.
_NAMING_VERSIONS = frozenset({"judge.noisy_run", "judge.look_elsewhere"})
_DATE = Reason("compare.environment_date")
_MIN_SHARE = 0.5
# Numbers in file names that give an earlier time are no times.
_FIRST_DUMP = 1_000_000_000
_SECONDS_PER_DAY = 86_400
_MICROSECONDS_PER_SECOND = 1_000_000


def environment_note(differences: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Return the differences as one note; nothing if there are none. Other dates alone are no other environment."""
    if _are_dates(differences):
        return (because("compare.dates_differ", date=differences[0]),)
    return (because("compare.environments_differ", differences=differences),) if differences else ()


def _are_dates(differences: Sequence[Reason]) -> bool:
    """Return whether the dates are all that differs."""
    return [difference.fact("what") for difference in differences] == [_DATE]


def with_environments(comparison: Comparison) -> Judgement:
    """Return the judgement with advice that names the environments, unless all is well.

    Recorded differences of two NPU runs follow the sentences about outputs and noise. The last sentence names the
    versions that dumps do not record: for two NPU runs that differ, and for outputs that differ significantly from
    those of another platform, unless the inputs differ.
    """
    judgement, differences = comparison.judgement, comparison.differences
    advice = judgement.advice
    positions = [number for number, sentence in enumerate(advice, 1) if sentence.code in _EXPLAINED]
    if comparison.target.kind is not DumpKind.NPU or not (positions or judgement.findings):
        return judgement
    position = positions[-1] if positions else len(advice)
    dates = environment_note(differences)[0] if _are_dates(differences) else None
    known = (because("compare.known_differences", differences=differences),) if differences and not dates else ()
    unrecorded: tuple[Reason, ...] = ()
    have_other_inputs = any(finding.kind is ErrorKind.INPUT for finding in judgement.findings)
    if not have_other_inputs and not any(sentence.code in _NAMING_VERSIONS for sentence in advice):
        if comparison.golden.kind is DumpKind.NPU:
            unrecorded = (because("compare.check_versions", date=dates and because("compare.dates_first", note=dates)),)
        elif judgement.outputs.agreement is Agreement.SIGNIFICANT:
            unrecorded = (because("compare.after_upgrade"),)
    return replace(judgement, advice=(*advice[:position], *known, *advice[position:], *unrecorded))


# Offline


def offline_differences(target: Dump, golden: Dump, rules: Rules) -> Iterator[Reason]:
    """Yield the differences that model files and dumps of two NPU runs record."""
    if rules.fusion and rules.fusion_off:
        yield from _compiled_differently(rules.fusion.origin, rules.fusion_off.origin)
    if target.kind is DumpKind.NPU and golden.kind is DumpKind.NPU:
        headers = [_first_header(dump) for dump in (target, golden)]
        yield from _formatted_differently(*headers)
        yield from _dated_differently(*map(_dump_time, (target, golden), headers))
        yield from _laid_out_differently(target, golden)


def _compiled_differently(target: ModelOrigin, golden: ModelOrigin) -> Iterator[Reason]:
    for field in ("processor", "compiler", "operators", "platform"):
        sides = getattr(target, field), getattr(golden, field)
        if all(sides):
            yield from _difference(Reason(f"compare.environment_{field}"), *sides)
    if target.command_line and golden.command_line:
        for name in _OPTIONS:
            sides = target.option(name), golden.option(name)
            yield from _difference(because("compare.environment_option", name=name), *(side or "-" for side in sides))


def _first_header(dump: Dump) -> OpDump | None:
    """Return the header of the first operator that can be read."""
    for operator in dump.operators.values():
        if operator.problem is None:
            try:
                return read_operator(operator.path)
            except DumpError:
                continue
    return None


def _formatted_differently(target: OpDump | None, golden: OpDump | None) -> Iterator[Reason]:
    if target is not None and golden is not None:
        formats = (f"{header.container} {header.version}".rstrip() for header in (target, golden))
        yield from _difference(Reason("compare.environment_format"), *formats)


def _dump_time(dump: Dump, header: OpDump | None) -> int:
    """Return the time of a dump in microseconds: of a header, otherwise of a file name; 0 if unknown."""
    recorded = header.dump_time if header else None
    return recorded or max((operator.timestamp for operator in dump.operators.values()), default=0)


def _dated_differently(target: int, golden: int) -> Iterator[Reason]:
    """Yield the dates of two dumps, whose times are in microseconds, if there is more than a day between them."""
    seconds = [microseconds // _MICROSECONDS_PER_SECOND for microseconds in (target, golden)]
    if min(seconds) > _FIRST_DUMP and abs(seconds[0] - seconds[1]) > _SECONDS_PER_DAY:
        yield from _difference(_DATE, *map(_date, seconds))


def _date(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def _laid_out_differently(target: Dump, golden: Dump) -> Iterator[Reason]:
    sides = ((op, golden.operators[name]) for name, op in target.operators.items() if name in golden.operators)
    layouts = [(ours, theirs) for op, other in sides if (ours := _layout(op)) and (theirs := _layout(other))]
    yield from _usual_difference(Reason("compare.environment_layout"), layouts)


def _layout(operator: DumpedOp) -> str:
    tensor = next(iter(operator.outputs.values()), None)
    return str(tensor.spec.layout) if tensor is not None else ""


# Graph mode


def graph_differences(
    target: GraphTree, golden: GraphTree, ours: TextGraph | None, theirs: TextGraph | None
) -> Iterator[Reason]:
    """Yield the differences that directories and graph texts, one of each side, record."""
    # FX dumps got folders of ranks later than dumps of the graph engine.
    if golden.kind is GraphKind.GE or not target.has_ranks:
        yield from _difference(Reason("compare.environment_torchair"), _torchair(target), _torchair(golden))
    if golden.kind is GraphKind.GE and ours is not None and theirs is not None:
        for name in sorted(ours.versions.keys() & theirs.versions.keys()):
            what = because("compare.environment_option", name=name)
            yield from _difference(what, ours.versions[name], theirs.versions[name])
        yield from _difference(Reason("compare.environment_graph"), len(ours.operators), len(theirs.operators))
    if golden.kind is GraphKind.GE:
        yield from _dated_differently(_file_time(target), _file_time(golden))


def _file_time(tree: GraphTree) -> int:
    """Return the time of a file of the first folder in microseconds; 0 if unknown. Long runs have millions of files."""
    names = (entry.parsed for entry in next(tree.folders()).entries)
    return next((name.timestamp for name in names if isinstance(name, DumpName)), 0)


def _torchair(tree: GraphTree) -> Reason:
    return Reason("compare.environment_new_torchair" if tree.has_ranks else "compare.environment_old_torchair")


def dtype_differences(rows: Iterable[Row]) -> Iterator[Reason]:
    """Yield the element types of two NPU runs if they differ for most outputs: the precision modes differ."""
    outputs = (row for row in rows if row.is_output and row.is_compared)
    yield from _usual_difference(
        Reason("compare.environment_dtype"), [(row.target_dtype, row.golden_dtype) for row in outputs]
    )


def _usual_difference(what: Reason, sides: Sequence[tuple[str, str]]) -> Iterator[Reason]:
    """Yield the difference that most pairs have, if most have one."""
    if sides:
        ((usual, count),) = Counter(sides).most_common(1)
        if count > _MIN_SHARE * len(sides):
            yield from _difference(
                because("compare.environment_share", what=what, count=count, total=len(sides)), *usual
            )


def _difference(what: Reason, target: str | int | Reason, golden: str | int | Reason) -> Iterator[Reason]:
    if target != golden:
        yield because("compare.environment_differs", what=what, target=target, golden=golden)
