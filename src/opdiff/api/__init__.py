"""The comparison for Python programs: `opdiff.compare(target, golden, rules=…)`. See docs/python.md."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from msgspec.structs import replace

from opdiff.api.comparison import Comparison
from opdiff.core import filesystem
from opdiff.core.comparison import DataMode, Mode
from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because, did_you_mean
from opdiff.core.remote.urls import without_secrets
from opdiff.workflows.compare import pipeline
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.golden.options import GoldenOptions
from opdiff.workflows.stages.options import StageName, StagesOptions
from opdiff.workflows.topn.options import TopnOptions

__all__ = [
    "CompareOptions", "Comparison", "DataMode", "GoldenOptions", "Mode", "StageName", "StagesOptions", "TopnOptions",
    "compare", "golden", "stages", "topn",
]  # fmt: skip

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from msgspec import Struct

    from opdiff.core.reasons import Fact, Reason
    from opdiff.core.stages import Chain
    from opdiff.workflows.golden.pipeline import GoldenResult
    from opdiff.workflows.topn.result import TopnResult

    Path = str | os.PathLike[str]

P = ParamSpec("P")
R = TypeVar("R")

# Arguments and fields of options by their command-line options; long options with the name of their argument are below.
_ARGUMENTS = {
    "-tp": "target",
    "-gp": "golden",
    "-fr": "rules",
    "-cfr": "fusion_off_rules",
    "-qfr": "quant_rules",
    "-s": "selected",
    "-r": "number_range",
    "-c": "custom",
    "-j": "workers",
    "-alg": "metrics",
    "--select": "selected",
    "--range": "number_range",
    "--mode torchair": "mode=Mode.GRAPH",
    "--mode offline_data": "mode=Mode.OFFLINE",
    "--input": "inputs",
    "--shape": "shapes",
    "--random": "seed",
    "--for": "rules",
    "--library": "libraries",
    "--stage": "names",
    "--k": "ks",
}
_SAME_NAMES = (
    "--cache", "--classes", "--cluster", "--cluster-config", "--constants", "--data-mode", "--data_mode", "--dtype",
    "--files", "--force", "--golden-operator", "--graph", "--label-offset", "--labels", "--limits", "--memory",
    "--only", "--only-needed", "--operator", "--pairs", "--rank", "--resume", "--rules", "--shards", "--token",
    "--until", "--weights",
)  # fmt: skip
_ARGUMENTS |= {name: name.lstrip("-").replace("-", "_") for name in _SAME_NAMES}
_OPTION = re.compile(rf"(?<![\w/=-])({'|'.join(sorted(map(re.escape, _ARGUMENTS), reverse=True))})(?![\w/=-])")


def _naming_options(options: type[Struct]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let the `TypeError` for an unknown argument say that it is a field of the options, or which one was meant."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = signature(function).parameters

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            unknown = next((name for name in kwargs if name not in own), "")
            if unknown:
                raise TypeError(str(_explain(function.__name__, unknown, tuple(own), options)))
            return function(*args, **kwargs)

        return checked

    return decorate


def _explain(function: str, unknown: str, own: Sequence[str], options: type[Struct]) -> Reason:
    """Return where an argument belongs that a function does not have."""
    fields = options.__struct_fields__
    facts: dict[str, Fact] = {"function": f"opdiff.{function}", "name": unknown}
    if unknown in fields:
        return because("api.field_of_options", **facts, options=options.__name__)
    return because("api.no_such_argument", **facts, hint=did_you_mean(unknown, (*own, *fields)))


@_naming_options(CompareOptions)
def compare(
    target: Path,
    golden: Path,
    *,
    rules: Path = "",
    fusion_off_rules: Path = "",
    quant_rules: Path = "",
    options: CompareOptions | None = None,
) -> Comparison:
    """Compare two dumps, offline or in graph mode; nothing is written.

    Args:
        target: the directory of the run on the NPU; paths may be URLs of remote files, see docs/remote.md.
        golden: the directory of the run that it must equal.
        rules: the rule file of the model with fusion on.
        fusion_off_rules: the rule file of the model with fusion off.
        quant_rules: the rule file that quantization wrote.
        options: everything else, such as `CompareOptions(workers=2, rank=0)`; its paths are not used.

    Raises:
        UsageError: the options contradict each other or the data, or this is a batch of many comparisons.
        InputError: a side or a rule file cannot be used.
    """
    if filesystem.isdir(without_secrets(str(rules))):
        raise UsageError(because("api.rules_directory"))
    wanted = replace(
        options or CompareOptions(),
        target=without_secrets(str(target)),
        golden=without_secrets(str(golden)),
        fusion_rules=without_secrets(str(rules)),
        fusion_off_rules=without_secrets(str(fusion_off_rules)),
        quant_rules=without_secrets(str(quant_rules)),
        in_process=True,
    )
    with _python_errors():
        (result,) = pipeline.compare(wanted, lambda _done, _total: None)
        if isinstance(result, ComparisonProblem):
            raise InputError(result.path, result.reason)
    return Comparison(result.comparison, result.defects)


@_naming_options(GoldenOptions)
def golden(
    model: Path,
    output: Path,
    *,
    weights: Path = "",
    inputs: Mapping[str, Path] | None = None,
    rules: Path = "",
    options: GoldenOptions | None = None,
) -> GoldenResult:
    """Run an original model and write the outputs of its operators as golden data.

    Args:
        model: ONNX file, prototxt of a Caffe net, or frozen TensorFlow graph.
        output: new or empty directory; with `GoldenOptions(reuse=True)`, the folder of such directories.
        weights: caffemodel of a prototxt.
        inputs: files by input; the empty name stands for the only input.
        rules: offline model or rule file that tells shapes.
        options: everything else, such as `GoldenOptions(seed=1, shapes={"x": (1, 3, 224, 224)})`.

    Raises:
        UsageError: the arguments do not fit the model, or an engine is not installed.
        InputError: a file cannot be used.
    """
    from opdiff.workflows.golden.pipeline import make_golden

    wanted = replace(
        options or GoldenOptions(),
        model=str(model),
        weights=str(weights),
        output=str(output),
        inputs={name: str(path) for name, path in (inputs or {}).items()},
        rules=str(rules),
    )
    with _python_errors():
        return make_golden(wanted, lambda _note: None, lambda _done, _total: None)


@_naming_options(TopnOptions)
def topn(target: Path, golden: Path, *, labels: Path = "", options: TopnOptions | None = None) -> TopnResult:
    """Compare the best classes of a classification model in two runs over a batch of samples.

    Args:
        target: outputs of the run under test: an array, an archive, or a directory.
        golden: outputs of the reference run.
        labels: file of the right classes, for the accuracy of both runs.
        options: everything else, such as `TopnOptions(ks=(1, 3), operator="prob")`; its paths are not used.

    Raises:
        UsageError: a k is not a number of classes.
        InputError: outputs or labels cannot be used.
    """
    from opdiff.workflows.topn.pipeline import check_topn

    paths = {"target": str(target), "golden": str(golden), "labels": str(labels)}
    with _python_errors():
        return check_topn(replace(options or TopnOptions(), **paths))


@_naming_options(StagesOptions)
def stages(
    folders: Sequence[Path],
    *,
    rules: Path = "",
    fusion_off_rules: Path = "",
    quant_rules: Path = "",
    options: StagesOptions | None = None,
) -> Chain:
    """Compare runs of one model from the original on, and find the step that lost the accuracy; nothing is written.

    Args:
        folders: two to four directories, in the order of the steps.
        rules: rule file of the model with fusion on.
        fusion_off_rules: rule file of the model with fusion off.
        quant_rules: rule file that quantization wrote.
        options: everything else, such as `StagesOptions(names=(None, StageName.QUANTIZED))`.

    Raises:
        UsageError: there are too few or too many directories, or it cannot be told what one holds.
        InputError: fewer than two directories can be used, or a rule file cannot.
    """
    from opdiff.workflows.stages.pipeline import compare_stages

    wanted = options or StagesOptions()
    wanted = replace(
        wanted,
        folders=tuple(map(str, folders)),
        fusion_rules=str(rules),
        fusion_off_rules=str(fusion_off_rules),
        quant_rules=str(quant_rules),
        compare=replace(wanted.compare, mode=Mode.OFFLINE, in_process=True),
    )
    with _python_errors():
        return compare_stages(wanted, lambda _done, _total: None).chain


@contextmanager
def _python_errors() -> Iterator[None]:
    """Name arguments of Python in errors, which have the options of the command line."""
    try:
        yield
    except UsageError as error:
        raise UsageError(_in_python(str(error.problem))) from error
    except InputError as error:
        raise InputError(error.path, _in_python(str(error.problem))) from error


def _in_python(sentence: str) -> str:
    return _OPTION.sub(lambda match: f"`{_ARGUMENTS[match[0]]}`", sentence)
