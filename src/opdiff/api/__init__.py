"""The comparison for Python programs: `opdiff.compare(target, golden, rules=…)`. See docs/python.md."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opdiff.api.comparison import Comparison
from opdiff.core import filesystem
from opdiff.core.comparison import DataMode, Mode
from opdiff.core.errors import InputError, OpdiffError, UsageError
from opdiff.core.reasons import because, did_you_mean
from opdiff.core.remote.urls import without_secrets
from opdiff.workflows.compare import pipeline
from opdiff.workflows.compare.inputs import ComparisonProblem
from opdiff.workflows.compare.options import CompareOptions
from opdiff.workflows.golden.options import GoldenOptions
from opdiff.workflows.open_dump import Dump, open_dump
from opdiff.workflows.stages.options import StageName, StagesOptions
from opdiff.workflows.topn.options import TopnOptions

__all__ = [
    "CompareOptions", "Comparison", "DataMode", "Dump", "GoldenOptions", "InputError", "Mode", "OpdiffError",
    "StageName", "StagesOptions", "TopnOptions", "UsageError", "compare", "golden", "open", "stages", "topn",
]  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opdiff.core.codes import AnyArray
    from opdiff.core.stages import Chain
    from opdiff.workflows.golden.pipeline import GoldenResult
    from opdiff.workflows.topn.result import TopnResult

    Path = str | os.PathLike[str]
    MetricFunction = Callable[[AnyArray, AnyArray], object]

S = TypeVar("S", bound=Struct)
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


# Fields of options that are arguments of their own, or of the command line only.
_NOT_FIELDS: dict[type[Struct], frozenset[str]] = {
    CompareOptions: frozenset(
        {
            "target", "golden", "fusion_rules", "fusion_off_rules", "quant_rules", "in_process", "reports", "functions",
        }
    ),
    GoldenOptions: frozenset({"model", "weights", "output", "inputs", "rules"}),
    TopnOptions: frozenset({"target", "golden", "labels"}),
    StagesOptions: frozenset({"folders", "fusion_rules", "fusion_off_rules", "quant_rules"}),
}  # fmt: skip
_CHOICES: dict[str, type[Mode | DataMode]] = {"mode": Mode, "data_mode": DataMode}


def _taking_fields(options: type[Struct]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add the fields of options to the keyword arguments of a function, in its signature and its errors."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        own = [each for each in signature(function).parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        names = {each.name for each in own}
        fields = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(options(), name))
            for name in options.__struct_fields__
            if name not in _NOT_FIELDS[options]
        ]

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            known = (*names, *(each.name for each in fields))
            for name in kwargs:
                if name not in known:
                    hint = did_you_mean(name, known)
                    raise TypeError(
                        str(
                            because(
                                "api.no_such_argument", function=f"opdiff.{function.__name__}", name=name, hint=hint
                            )
                        )
                    )
            return function(*args, **kwargs)

        checked.__signature__ = Signature([*own, *fields])  # type: ignore[attr-defined]  # the protocol of inspect
        return checked

    return decorate


def _with_fields(options: S, fields: Mapping[str, object]) -> S:
    """Return options with other fields; paths as strings, and names of modes as modes.

    Raises:
        UsageError: there is no such mode.
    """
    given = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in fields.items()}
    for name, choices in _CHOICES.items():
        value = given.get(name)
        if value is None:
            continue
        try:
            given[name] = choices(str(value))
        except ValueError:
            hint = did_you_mean(str(value), choices)
            wrong = because("api.no_such_value", name=name, value=str(value), choices=tuple(choices), hint=hint)
            raise UsageError(wrong) from None
    return replace(options, **given)


def open(  # noqa: A001  the public name is `opdiff.open`
    path: Path, *, rank: int | None = None, token: int | None = None, graph: int | None = None
) -> Dump:
    """Open a dump: a folder of operators, one token of graph mode, golden arrays, or a single file.

    Descriptions of all operators are read at once, data when a tensor is read.

    Args:
        path: a directory or a file; may be the URL of a remote one, see docs/remote.md.
        rank: graph mode: the rank; not needed if there is only one.
        token: graph mode: the token, likewise.
        graph: graph mode: the graph, likewise.

    Raises:
        UsageError: there are several tokens, or none with these numbers.
        InputError: there is no dump, there are several, or the file cannot be read.
    """
    with _python_errors():
        return open_dump(without_secrets(os.fspath(path)), rank, token, graph)


@_taking_fields(CompareOptions)
def compare(
    target: Path,
    golden: Path,
    *,
    rules: Path = "",
    fusion_off_rules: Path = "",
    quant_rules: Path = "",
    options: CompareOptions | None = None,
    **fields: object,
) -> Comparison:
    """Compare two dumps, offline or in graph mode; nothing is written.

    Args:
        target: the directory of the run on the NPU; paths may be URLs of remote files, see docs/remote.md.
        golden: the directory of the run that it must equal.
        rules: the rule file of the model with fusion on.
        fusion_off_rules: the rule file of the model with fusion off.
        quant_rules: the rule file that quantization wrote.
        options: fields of `CompareOptions` in one value; its paths are not used.
        fields: other fields, such as `workers=2` or `limits="limits.toml"`; `metrics` may also have functions of two
            flat arrays by name.

    Raises:
        UsageError: the options contradict each other or the data, or this is a batch of many comparisons.
        InputError: a side or a rule file cannot be used.
    """
    if filesystem.isdir(without_secrets(str(rules))):
        raise UsageError(because("api.rules_directory"))
    metrics = fields.get("metrics")
    functions: Mapping[str, MetricFunction] = {}
    if isinstance(metrics, Mapping):
        functions = metrics
        fields = {**fields, "metrics": "all"}
    wanted = replace(
        _with_fields(options or CompareOptions(), fields),
        functions=functions,
        target=without_secrets(str(target)),
        golden=without_secrets(str(golden)),
        fusion_rules=without_secrets(str(rules)),
        fusion_off_rules=without_secrets(str(fusion_off_rules)),
        quant_rules=without_secrets(str(quant_rules)),
        in_process=True,
    )
    if functions and (wanted.cluster or wanted.resume):
        raise UsageError(because("api.functions_elsewhere"))
    with _python_errors():
        (result,) = pipeline.compare(wanted, lambda _done, _total: None)
        if isinstance(result, ComparisonProblem):
            raise InputError(result.path, result.reason)
    return Comparison(result.comparison, result.defects)


@_taking_fields(GoldenOptions)
def golden(
    model: Path,
    output: Path,
    *,
    weights: Path = "",
    inputs: Mapping[str, Path] | None = None,
    rules: Path = "",
    options: GoldenOptions | None = None,
    **fields: object,
) -> GoldenResult:
    """Run an original model and write the outputs of its operators as golden data.

    Args:
        model: ONNX file, prototxt of a Caffe net, or frozen TensorFlow graph.
        output: new or empty directory; with `reuse=True`, the folder of such directories.
        weights: caffemodel of a prototxt.
        inputs: files by input; the empty name stands for the only input.
        rules: offline model or rule file that tells shapes.
        options: fields of `GoldenOptions` in one value.
        fields: other fields, such as `seed=1` or `shapes={"x": (1, 3, 224, 224)}`.

    Raises:
        UsageError: the arguments do not fit the model, or an engine is not installed.
        InputError: a file cannot be used.
    """
    from opdiff.workflows.golden.pipeline import make_golden

    wanted = replace(
        _with_fields(options or GoldenOptions(), fields),
        model=str(model),
        weights=str(weights),
        output=str(output),
        inputs={name: str(path) for name, path in (inputs or {}).items()},
        rules=str(rules),
    )
    with _python_errors():
        return make_golden(wanted, lambda _note: None, lambda _done, _total: None)


@_taking_fields(TopnOptions)
def topn(
    target: Path, golden: Path, *, labels: Path = "", options: TopnOptions | None = None, **fields: object
) -> TopnResult:
    """Compare the best classes of a classification model in two runs over a batch of samples.

    Args:
        target: outputs of the run under test: an array, an archive, or a directory.
        golden: outputs of the reference run.
        labels: file of the right classes, for the accuracy of both runs.
        options: fields of `TopnOptions` in one value; its paths are not used.
        fields: other fields, such as `ks=(1, 3)` or `operator="prob"`.

    Raises:
        UsageError: a k is not a number of classes.
        InputError: outputs or labels cannot be used.
    """
    from opdiff.workflows.topn.pipeline import check_topn

    paths = {"target": str(target), "golden": str(golden), "labels": str(labels)}
    with _python_errors():
        return check_topn(replace(_with_fields(options or TopnOptions(), fields), **paths))


@_taking_fields(StagesOptions)
def stages(
    folders: Sequence[Path],
    *,
    rules: Path = "",
    fusion_off_rules: Path = "",
    quant_rules: Path = "",
    options: StagesOptions | None = None,
    **fields: object,
) -> Chain:
    """Compare runs of one model from the original on, and find the step that lost the accuracy; nothing is written.

    Args:
        folders: two to four directories, in the order of the steps.
        rules: rule file of the model with fusion on.
        fusion_off_rules: rule file of the model with fusion off.
        quant_rules: rule file that quantization wrote.
        options: fields of `StagesOptions` in one value.
        fields: other fields, such as `names=(None, StageName.QUANTIZED)`.

    Raises:
        UsageError: there are too few or too many directories, or it cannot be told what one holds.
        InputError: fewer than two directories can be used, or a rule file cannot.
    """
    from opdiff.workflows.stages.pipeline import compare_stages

    wanted = _with_fields(options or StagesOptions(), fields)
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
