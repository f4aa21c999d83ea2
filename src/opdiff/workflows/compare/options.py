"""Options of a comparison, for both modes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core import filesystem
from opdiff.core.comparison import DataMode, Mode
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because
from opdiff.read.directory import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opdiff.core.codes import AnyArray
    from opdiff.core.tensor import Shape

_GRAPH_TEXT_PREFIXES = ("dynamo_original_graph_", "dynamo_optimized_graph_")
# Options of offline comparisons, and of graph mode, by field.
_OFFLINE_ONLY = {
    "fusion_rules": "-fr", "fusion_off_rules": "-cfr", "quant_rules": "-qfr", "custom": "-c", "number_range": "-r",
    "selected": "-s", "pairs": "--pairs", "overflow": "-overflow_detection", "metrics": "-alg",
}  # fmt: skip
_GRAPH_ONLY = {
    "rank": "--rank",
    "token": "--token",
    "graph": "--graph",
    "data_mode": "--data_mode",
    "shards": "--shards",
}


class CompareOptions(Struct, frozen=True):
    """Options of a comparison; strings are as the user wrote them.

    Attributes:
        target: directory of the run on the NPU.
        golden: directory of the run that the target must equal.
        fusion_rules: rule file of the model with fusion on, or a directory of rule files (training).
        fusion_off_rules: rule file of the model with fusion off: of the golden side, or of the target if that is the
            only compiled model.
        quant_rules: rule file of the quantization tool.
        output: folder of the results.
        metrics: documented metrics to write, by name or number.
        custom: directory of conversions and metrics of the user.
        number_range: operators by number, as `1,50,1`.
        selected: operators by number, as `79,83`.
        pairs: file of manual pairings.
        overflow: whether the table has the column `OverFlow`.
        workers: maximum number of workers; 0 for all cores.
        memory: bytes that workers may use; 0 for no limit.
        in_process: use threads only.
        cluster: address of a scheduler of dask.distributed, a scheduler file, or `local:N`; empty for this process.
        cluster_config: YAML file with settings of dask, such as certificates.
        resume: save finished results in the output folder, and do not measure again what is saved there.
        limits: file of limits; empty for `opdiff.toml` of the current folder, if there is one.
        reports: names of the report forms to write.
        mode: offline or graph mode; `None` to decide by the target directory.
        ranks: graph mode: table (TOML) of the directories of ranks, instead of target and golden directory.
        rank: graph mode: this rank only.
        token: graph mode: this token only.
        graph: graph mode: this graph only.
        data_mode: graph mode: how tensors are compared.
        cache: folder of copies of remote files; empty for none.
        shards: graph mode: how the ranks of the target share golden tensors: a file, or `auto`; empty if they do not.
        force: compare inputs that seem to be mixed up, and judge even if the rules do not belong to the dumps.
        model: original model, by which suspects are computed again.
        model_weights: caffemodel of a prototxt.
        model_shapes: shapes of inputs that the model leaves open.
        replay: maximum number of suspects to compute again; `None` for all operators.
        replay_seconds: maximum time for that; all operators take as long as they need.
        pictures: tensors that the HTML report shows as pictures: `all` bad tensors, `none`, or the maximum number;
            empty for as many of the worst tensors as fit into about 1 MB.
        functions: Python functions as metrics, by name.
    """

    target: str = ""
    golden: str = ""
    fusion_rules: str = ""
    fusion_off_rules: str = ""
    quant_rules: str = ""
    output: str = "."
    metrics: str = "all"
    custom: str = ""
    number_range: str = ""
    selected: str = ""
    pairs: str = ""
    overflow: bool = False
    workers: int = 0
    memory: int = 0
    in_process: bool = False
    cluster: str = ""
    cluster_config: str = ""
    resume: bool = False
    limits: str = ""
    reports: tuple[str, ...] = ("html",)
    mode: Mode | None = None
    ranks: str = ""
    rank: int | None = None
    token: int | None = None
    graph: int | None = None
    data_mode: DataMode = DataMode.AUTO
    cache: str = ""
    shards: str = ""
    force: bool = False
    model: str = ""
    model_weights: str = ""
    model_shapes: Mapping[str, Shape] = {}
    replay: int | None = 0
    replay_seconds: float = 60.0
    pictures: str = ""
    functions: Mapping[str, Callable[[AnyArray, AnyArray], object]] = {}

    @property
    def is_selected(self) -> bool:
        """Whether only some operators are selected."""
        return bool(self.number_range or self.selected)

    @property
    def target_rules(self) -> str:
        """The rule file of the target."""
        return self.fusion_rules or self.fusion_off_rules

    @property
    def rule_paths(self) -> tuple[str, str, str]:
        """The rule files: fusion on, fusion off, quantization."""
        return self.fusion_rules, self.fusion_off_rules, self.quant_rules


def choose_mode(options: CompareOptions) -> Mode:
    """Return the selected mode, or the mode that the target directory shows.

    Raises:
        UsageError: options of both modes are given.
    """
    offline, graph = _given(options, _OFFLINE_ONLY), _given(options, _GRAPH_ONLY)
    mode = options.mode
    if options.ranks and options.shards:
        raise UsageError(because("compare.shards_and_ranks"))
    if mode is None and options.ranks:
        mode = Mode.GRAPH
    if mode is None:
        mode = Mode.GRAPH if not offline and has_graph_text(options.target) else Mode.OFFLINE
    if mode is Mode.GRAPH and offline:
        raise UsageError(because("compare.not_in_graph_mode", options=tuple(offline)))
    if mode is Mode.OFFLINE and graph:
        raise UsageError(because("compare.in_graph_mode_only", options=tuple(graph)))
    return mode


def check_options(options: CompareOptions) -> None:
    """Check the options of an offline comparison.

    Raises:
        UsageError: they contradict each other.
        InputError: a rule file is missing.
    """
    for path in options.rule_paths:
        if path and not filesystem.exists(path):
            raise InputError(path, because("core.no_such_path"))
    if options.is_selected and not options.target_rules:
        raise UsageError(because("compare.selection_needs_rules"))
    if options.resume and options.custom:
        raise UsageError(because("compare.resume_custom"))
    if options.custom and not os.path.isdir(options.custom):
        raise UsageError(because("compare.no_custom_directory", path=options.custom))


def _given(options: CompareOptions, names: dict[str, str]) -> list[str]:
    defaults = CompareOptions()
    return [option for name, option in names.items() if getattr(options, name) != getattr(defaults, name)]


def has_steps(options: CompareOptions) -> bool:
    """Return whether each step of a training run is compared, which has its own result."""
    if filesystem.isdir(options.fusion_rules):
        return True
    if not options.fusion_rules or not any(item.is_dir(follow_symlinks=False) for item in _list(options.target)):
        return False
    try:
        folders = scan(options.target).folders
    except InputError:
        return False
    return len(folders) > 1 and all(folder.location.model is not None for folder in folders)


def has_graph_text(path: str) -> bool:
    """Return whether a directory, or a folder directly in it, has texts of graph mode."""
    items = _list(path)
    below = [item for folder in items if folder.is_dir(follow_symlinks=False) for item in _list(folder.path)]
    return any(is_graph_text(item.name) for item in (*items, *below))


def is_graph_text(path: str) -> bool:
    """Return whether a file is a text of graph mode, by its name."""
    name = os.path.basename(path)
    return name.startswith(_GRAPH_TEXT_PREFIXES) and name.endswith(".txt")


def _list(folder: str) -> list[filesystem.DirEntry]:
    """Return what is in a folder; nothing if it cannot be listed."""
    try:
        return filesystem.list_folder(folder)
    except OSError:
        return []
