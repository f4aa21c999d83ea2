"""Checks of the inputs before tensors are paired: exchanged sides and rule files, wrong and mixed directories.

A certain mistake ends the comparison; a likely mistake is a warning, the first line of the result. Messages contain the
right command, where it is known. A remark tells from which model golden data was made.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.dump import DumpKind, GraphKind
from opdiff.core.errors import InputError
from opdiff.core.graph import ModelOrigin
from opdiff.core.reasons import because
from opdiff.core.tensor import file_safe_name
from opdiff.judge.remedies import FUSION_OFF_FILE, fusion_off_commands
from opdiff.read.directory import Location, scan
from opdiff.read.filename import GOLDEN_MANIFEST, DumpName, FxName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opdiff.core.dump import Dump
    from opdiff.core.graph import RuleFile
    from opdiff.core.reasons import Reason
    from opdiff.pair import Rules
    from opdiff.read.graph.tree import GraphTree

# Splitting a name takes about a millisecond, and a few examples suffice.
_MAX_NAMES_TO_SPLIT = 200
_FUSION_OFF = "FUSION_OFF.json"
# As with rules of another model, see docs/locating.md.
_MAX_SHARE_OF_UNKNOWN = 0.5
_NAMES_SHOWN = 3
_DIGEST_DIGITS = 12


class InputProblem(Struct, frozen=True):
    """A sign that inputs were mixed up.

    Attributes:
        path: the directory or file that the problem is about.
        reason: what was found, and what to do.
        is_certain: whether the inputs cannot be meant as they are.
        misfit: why no operator can be judged if the inputs are compared all the same; `None` if operators can be.
    """

    path: str
    reason: Reason
    is_certain: bool = True
    misfit: Reason | None = None


def refuse_certain(problems: Iterable[InputProblem], *, force: bool) -> tuple[Reason, ...]:
    """Return the likely mistakes, and with `force` all, as warnings.

    Raises:
        InputError: the first certain one.
    """
    warnings = []
    for problem in problems:
        if problem.is_certain and not force:
            raise InputError(problem.path, problem.reason)
        warnings.append(problem.reason)
    return tuple(warnings)


def compare_command(target: str, golden: str, **options: str) -> str:
    """Return the shell command of a comparison; `options` by name, as `fr="on.json"`."""
    import shlex

    words = [word for name, value in options.items() for word in (f"-{name}", value)]
    return shlex.join(["opdiff", "compare", target, golden, *words])


# Offline


def refuse_graph_mode(target: str, golden: str) -> None:
    """Check that neither directory is a dump of graph mode.

    Raises:
        InputError: one is.
    """
    for path in (target, golden):
        if _is_graph_mode(path):
            command = compare_command(target, golden, m="torchair")
            raise InputError(path, because("compare.is_graph_mode", command=command))


def _is_graph_mode(path: str) -> bool:
    try:
        tree = scan(path)
    except InputError:
        return False
    return bool(tree.graphs) or any(isinstance(entry.parsed, FxName) for entry in tree.entries())


def option_problems(target: Dump, *, overflow: bool) -> Iterator[InputProblem]:
    """Yield options that do not apply to the target."""
    if overflow and target.kind is DumpKind.ARRAYS:
        yield InputProblem(target.path, because("compare.overflow_of_arrays"), is_certain=False)


def offline_problems(target: Dump, golden: Dump, rules: Rules) -> Iterator[InputProblem]:
    """Yield the signs of mixed-up inputs of an offline comparison."""
    if filesystem.samefile(target.path, golden.path) or _is_copy(_dump_files(target), _dump_files(golden)):
        yield InputProblem(golden.path, because("compare.same_directory"), is_certain=False)
    if rules.fusion and rules.fusion_off:
        yield from _same_rules(target, golden, rules.fusion, rules.fusion_off)
        yield from _exchanged_fusion(target, golden, rules.fusion, rules.fusion_off)
    if rules.fusion and rules.quant:
        yield from _exchanged_quantization(target, golden, rules.fusion, rules.quant)
    if not rules.given:
        yield from _fused_without_rules(target, golden)


class _Files(Struct, frozen=True):
    """Paths of the files of a dump below its root, which have timestamps in their names."""

    root: str
    paths: tuple[str, ...]


def _dump_files(dump: Dump) -> _Files:
    return _Files(dump.path, tuple(op.path for op in dump.operators.values() if op.timestamp))


def _is_copy(ours: _Files, theirs: _Files) -> bool:
    """Return whether two dumps have the same files: names and contents. The first difference decides."""
    if not ours.paths or len(ours.paths) != len(theirs.paths):
        return False
    if not os.path.exists(os.path.join(theirs.root, os.path.relpath(ours.paths[0], ours.root))):
        return False
    import filecmp

    others = ((path, os.path.join(theirs.root, os.path.relpath(path, ours.root))) for path in ours.paths)
    try:
        return all(filecmp.cmp(*pair, shallow=False) for pair in others)
    except OSError:
        return False


def _same_rules(target: Dump, golden: Dump, fusion: RuleFile, fusion_off: RuleFile) -> Iterator[InputProblem]:
    """Find one model given twice, which two runs of one version may have."""
    if fusion.equals(fusion_off):
        command = compare_command(target.path, golden.path, fr=fusion.path, cfr=_FUSION_OFF)
        unknown = [name for name, known in _known(golden, fusion_off).items() if not known]
        is_certain = len(unknown) > _MAX_SHARE_OF_UNKNOWN * len(golden.operators)
        code = "compare.same_rules_unknown" if unknown else "compare.same_rules"
        reason = because(code, names=tuple(unknown[:_NAMES_SHOWN]), count=len(unknown), command=command)
        yield InputProblem(fusion_off.path, reason, is_certain)


def _exchanged_fusion(target: Dump, golden: Dump, fusion: RuleFile, fusion_off: RuleFile) -> Iterator[InputProblem]:
    fused, less_fused = count_fused(fusion), count_fused(fusion_off)
    is_target_crossed = rules_fit(target, fusion_off) > rules_fit(target, fusion)
    is_crossed = is_target_crossed and rules_fit(golden, fusion) > rules_fit(golden, fusion_off)
    files = {"fusion": fusion.path, "fusion_off": fusion_off.path}
    if is_crossed and fused >= less_fused:
        command = compare_command(golden.path, target.path, fr=fusion.path, cfr=fusion_off.path)
        yield InputProblem(target.path, because("compare.sides_exchanged", **files, command=command))
    elif is_crossed:
        command = compare_command(target.path, golden.path, fr=fusion_off.path, cfr=fusion.path)
        yield InputProblem(fusion.path, because("compare.rules_exchanged", **files, command=command))
    elif fused < less_fused:
        command = compare_command(golden.path, target.path, fr=fusion_off.path, cfr=fusion.path)
        counts = {"fused": fused, "less_fused": less_fused}
        reason = because("compare.sides_and_rules_exchanged", **files, **counts, command=command)
        yield InputProblem(target.path, reason, is_certain=False)


def _exchanged_quantization(target: Dump, golden: Dump, fusion: RuleFile, quant: RuleFile) -> Iterator[InputProblem]:
    """Compilation follows quantization: the originals of the compiled model are operators of the quantized one."""
    if rules_fit(target, quant) > rules_fit(target, fusion) and _share(_originals(quant), _names(fusion)) > _share(
        _originals(fusion), _names(quant)
    ):
        command = compare_command(target.path, golden.path, fr=quant.path, qfr=fusion.path)
        yield InputProblem(fusion.path, because("compare.quant_rules_exchanged", quant=quant.path, command=command))


def _fused_without_rules(target: Dump, golden: Dump) -> Iterator[InputProblem]:
    sides = (("compare.target_fused", target, golden), ("compare.golden_fused", golden, target))
    for code, fused, fusion_off in sides:
        found = find_fused(fused.operators, fusion_off.operators)
        if found is not None:
            name, parts = found
            command = compare_command(fused.path, fusion_off.path, fr="FUSION_ON.json", cfr=_FUSION_OFF)
            convert, _ = fusion_off_commands(ModelOrigin())
            misfit = because("compare.other_fusion", file=FUSION_OFF_FILE, command=convert)
            reason = because(code, name=name, parts=parts, command=command)
            yield InputProblem(fused.path, reason, is_certain=False, misfit=misfit)
            return


def find_fused(names: Collection[str], others: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the first name that consists of several names of the other dump, and these names; `None` if none does."""
    from opdiff.pair.dump_index import split_joined_name

    unmatched = (name for name in names if name not in others)
    for name in islice(unmatched, _MAX_NAMES_TO_SPLIT):
        parts = split_joined_name(name, others.__contains__)
        if len(parts) > 1 and not any(part in names for part in parts):
            return name, parts
    return None


def _names(rules: RuleFile) -> frozenset[str]:
    return frozenset(file_safe_name(operator.name) for operator in rules.operators())


def _originals(rules: RuleFile) -> frozenset[str]:
    return frozenset(file_safe_name(name) for operator in rules.operators() for name in operator.originals if name)


def _known(dump: Dump, rules: RuleFile) -> dict[str, bool]:
    """Return for each dumped operator whether a rule file has it."""
    names = _names(rules)
    return {name: file_safe_name(name) in names for name in dump.operators}


def rules_fit(dump: Dump, rules: RuleFile) -> float:
    """Return the share of the dumped operators that a rule file has."""
    return known_share(dump.operators, rules)


def known_share(names: Iterable[str], rules: RuleFile) -> float:
    """Return the share of operators, by their names, that a rule file has."""
    return _share(frozenset(map(file_safe_name, names)), _names(rules))


def _share(names: frozenset[str], others: frozenset[str]) -> float:
    return len(names & others) / len(names) if names else 0.0


def count_fused(rules: RuleFile) -> int:
    """Return the number of operators that were made of several originals."""
    return sum(len(frozenset(filter(None, operator.originals))) > 1 for operator in rules.operators())


def golden_origin_notes(folder: str, rules: Iterable[RuleFile | None]) -> tuple[Reason, ...]:
    """Return remarks about the model that golden data was made from; none if the directory has no manifest."""
    try:
        if not filesystem.exists(os.path.join(folder, GOLDEN_MANIFEST)):
            return ()
        from opdiff.workflows.golden.manifest import find_manifest

        manifest = find_manifest(folder)
    except InputError as error:
        return (because("compare.golden_manifest_unreadable", problem=error.reason),)
    if manifest is None or not manifest.model:
        return ()
    from opdiff.workflows.golden.compiled_model import is_other_model

    model = manifest.model[0]
    inputs = tuple(f"{item.name} ({item.origin})" for item in manifest.inputs)
    origin = because(
        "compare.golden_made_from",
        model=model.name,
        digest=model.sha256[:_DIGEST_DIGITS],
        engine=manifest.engine,
        inputs=inputs,
    )
    compiled = [file.origin.option("--model") for file in rules if file]
    others = [name for name in compiled if is_other_model(name, model.name)]
    mismatch = [because("compare.golden_other_model", model=model.name, compiled=others[0])] if others else []
    return (*mismatch, origin)


# Graph mode


def refuse_fx_target(target: GraphTree, golden: GraphTree) -> None:
    """Check that the target is a dump of the graph engine.

    Raises:
        InputError: the target is a dump of FX.
    """
    if target.kind is GraphKind.FX:
        command = compare_command(golden.root, target.root, m="torchair")
        code = "compare.fx_target" if golden.kind is GraphKind.FX else "compare.fx_target_exchanged"
        raise InputError(target.root, because(code, command=command))


def graph_problems(target: GraphTree, golden: GraphTree) -> Iterator[InputProblem]:
    """Yield the signs of mixed-up inputs of a comparison in graph mode."""
    for tree in (target, golden):
        if _is_offline(tree):
            command = compare_command(target.root, golden.root, m="offline_data")
            yield InputProblem(tree.root, because("compare.not_graph_mode", command=command))
    yield from _overlap(target, golden)
    yield from _several_dumps(target)
    yield from _several_dumps(golden, golden.other_kind)
    if golden.kind is GraphKind.GE:
        yield from _exchanged_graphs(target, golden)
    else:
        yield from _mixed_fx_runs(target, golden)


def _is_offline(tree: GraphTree) -> bool:
    """Return whether nothing shows graph mode: neither FX files, nor graph texts, nor folders of ranks and tokens."""
    if tree.kind is GraphKind.FX or tree.texts:
        return False
    return all(folder.location == Location() for folder in tree.folders())


def _overlap(target: GraphTree, golden: GraphTree) -> Iterator[InputProblem]:
    own = {folder.path for folder in target.folders()}
    theirs = {folder.path for folder in golden.folders()}
    if own.isdisjoint(theirs):
        if _folder_sizes(target) == _folder_sizes(golden) and _is_copy(_graph_files(target), _graph_files(golden)):
            yield InputProblem(golden.root, because("compare.same_directory"), is_certain=False)
        return
    from opdiff.read.graph.tree import dump_root

    rest = golden.other_kind or (dump_root(theirs - own) if theirs - own else "")
    if rest:
        command = compare_command(dump_root(own), rest, m="torchair")
        yield InputProblem(golden.root, because("compare.golden_has_target", command=command))
    else:
        yield InputProblem(golden.root, because("compare.same_directory"), is_certain=False)


def _folder_sizes(tree: GraphTree) -> dict[str, int]:
    """Return the number of files of each folder, which takes less time to find than the names of all files."""
    return {os.path.relpath(folder.path, tree.root): len(folder.entries) for folder in tree.folders()}


def _graph_files(tree: GraphTree) -> _Files:
    return _Files(tree.root, tuple(entry.path for folder in tree.folders() for entry in folder.entries))


def _several_dumps(tree: GraphTree, other_kind: str = "") -> Iterator[InputProblem]:
    """Find a directory above several dumps that can be meant; the target is never one of FX."""
    found = tree.rivals
    if other_kind:
        from opdiff.read.graph.tree import dump_root

        found = (*(found or (dump_root([folder.path for folder in tree.folders()]),)), other_kind)
    if found:
        yield InputProblem(tree.root, because("compare.several_dumps", dumps=found))


def _exchanged_graphs(target: GraphTree, golden: GraphTree) -> Iterator[InputProblem]:
    ours, theirs = _operators(target), _operators(golden)
    fused = find_fused(theirs, ours)
    if fused is not None and find_fused(ours, theirs) is None:
        command = compare_command(golden.root, target.root, m="torchair")
        reason = because("compare.graphs_exchanged", name=fused[0], parts=fused[1], command=command)
        yield InputProblem(target.root, reason)


def _operators(tree: GraphTree) -> dict[str, None]:
    entries = (entry.parsed for folder in tree.folders() for entry in folder.entries)
    return dict.fromkeys(parsed.op_name for parsed in entries if isinstance(parsed, DumpName))


def _mixed_fx_runs(target: GraphTree, golden: GraphTree) -> Iterator[InputProblem]:
    """Find tensors that were dumped at several times to one folder, or to several folders of one token."""
    repeated = [(folder.path, folder.repeated_count) for folder in golden.folders() if folder.repeated_count]
    repeated += _repeated_folders(golden, len({text.number for text in target.texts}))
    if repeated:
        path, count = repeated[0][0], sum(count for _, count in repeated)
        reason = because("compare.mixed_fx_runs", count=count, path=path)
        yield InputProblem(golden.root, reason, is_certain=False)


def _repeated_folders(golden: GraphTree, graph_count: int) -> Iterator[tuple[str, int]]:
    """Yield folders with the tensors of another folder of their token, and the number of these tensors.

    Without the number of the graph in its path, each graph of a run has a folder of its own, as each run has.
    """
    for graphs in golden.ranks.values():
        unnumbered = [graph for graph in graphs if graph.number is None]
        if len(unnumbered) <= graph_count:
            continue
        known: dict[int, list[frozenset[object]]] = {}
        for token, folders in (item for graph in unnumbered for item in graph.tokens.items()):
            for folder in folders:
                tensors = frozenset(entry.parsed.tensor for entry in folder.entries if isinstance(entry.parsed, FxName))
                others = known.setdefault(token, [])
                if any(tensors <= other or tensors >= other for other in others):
                    yield folder.path, len(tensors)
                others.append(tensors)
