"""Metrics of users and packages: DIR/algorithm/alg_{NAME}.py with a function `compare`, or entry points.

`compare(my, golden, args)` gets the numbers of both sides as flat copies and returns two strings: the value and a
message, which may be empty. A package adds metrics by the entry-point group `opdiff.metrics`.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from opdiff.core.errors import PluginError
from opdiff.core.reasons import because
from opdiff.core.registry import Registry
from opdiff.core.user_scripts import check_script, find_scripts, load_function
from opdiff.measure.documented import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from opdiff.core.codes import AnyArray
    from opdiff.core.dtypes import DType

_FOLDER = "algorithm"
_KIND = "metric"
_NAME = re.compile(r"alg_(?P<name>\w{1,128})\.py", re.ASCII)


class MetricArgs(Struct, frozen=True):
    """Arguments of a metric besides the numbers; every entry is an attribute too.

    Attributes:
        my_output_dump_file: the file of the target.
        ground_truth_dump_file: the file of the golden tensor.
        shape_type: `scalar` or `tensor`.
        options: options of the user for this metric.
    """

    my_output_dump_file: str
    ground_truth_dump_file: str
    shape_type: str
    options: Mapping[str, str] = field(default_factory=dict)

    def get(self) -> dict[str, str]:
        """Return all entries; options do not replace the fixed ones."""
        known = {name: getattr(self, name) for name in ("my_output_dump_file", "ground_truth_dump_file", "shape_type")}
        return {**self.options, **known}

    def get_dict(self) -> dict[str, str]:
        """Return the same as `get`."""
        return self.get()

    def __getattr__(self, name: str) -> str:
        if name == "options" or name not in self.options:  # without options while it is being unpickled
            raise AttributeError(name)
        return self.options[name]


class Metric(Protocol):
    """A metric that is not built in."""

    @property
    def name(self) -> str:
        """Name by which it is selected, and title of its column."""

    def compare(self, my: AnyArray, golden: AnyArray, args: MetricArgs) -> tuple[str, str]:
        """Return the value and a message for two flat arrays of numbers."""


class ScriptMetric(Struct, frozen=True):
    """Metric of one script; picklable, the worker process loads the script itself."""

    name: str
    path: str

    def compare(self, my: AnyArray, golden: AnyArray, args: MetricArgs) -> tuple[str, str]:
        """Run the script on two arrays."""
        function: Any = load_function(_KIND, self.path, "compare", ("my", "golden", "args"))
        return function(my, golden, args)  # type: ignore[no-any-return]  # checked by the caller


class FunctionMetric(Struct, frozen=True):
    """Metric of a Python function of both sides, as flat arrays; its message is empty."""

    name: str
    function: Callable[[AnyArray, AnyArray], object]

    def compare(self, my: AnyArray, golden: AnyArray, args: MetricArgs) -> tuple[str, str]:
        """Call the function with both arrays."""
        del args
        return str(self.function(my, golden)), ""


def function_metrics(functions: Mapping[str, Callable[[AnyArray, AnyArray], object]]) -> tuple[FunctionMetric, ...]:
    """Return the metrics of functions by name.

    Raises:
        PluginError: a name is not a word, or is that of a documented metric.
    """
    taken = {"all", *(name.lower() for name in BY_NAME)}
    for name in functions:
        if re.fullmatch(r"[^\W\d]\w{0,127}", name, re.ASCII) is None:
            raise PluginError(_KIND, name, because("measure.name_no_word"))
        if name.lower() in taken:
            raise PluginError(_KIND, name, because("measure.name_taken", name=name))
    return tuple(FunctionMetric(name, function) for name, function in functions.items())


METRICS: Registry[Metric] = Registry(_KIND, ())


def load_metrics(directory: str) -> tuple[ScriptMetric, ...]:
    """Return the metrics below `directory`, by name; files are inspected, not run.

    Raises:
        PluginError: there is no folder of metrics, or a file in it is not a metric.
    """
    root = os.path.realpath(directory)
    return tuple(_metric(root, path) for path in find_scripts(_KIND, root, _FOLDER))


def run_metric(
    metric: Metric, target: tuple[AnyArray, DType], golden: tuple[AnyArray, DType], args: MetricArgs
) -> tuple[str, str, str]:
    """Return name, value and message of a metric for two arrays of codes; the value is `NaN` if it fails.

    Raises:
        PluginError: the metric's script cannot be loaded, or has no fitting function `compare`.
        ElementError: a type has no numbers.
    """
    arrays = _numbers(*target), _numbers(*golden)
    try:
        result: object = metric.compare(*arrays, args)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 (anything may happen in a user's function)
        return metric.name, "NaN", f"{metric.name} failed: {error!r}"
    if isinstance(result, tuple | list) and len(result) == 2 and all(isinstance(text, str) for text in result):
        return metric.name, result[0], result[1]
    return metric.name, "NaN", f"{metric.name} returned {result!r:.100}, not two texts: a value and a message"


def _metric(root: str, path: str) -> ScriptMetric:
    match = _NAME.fullmatch(os.path.basename(path))
    if match is None:
        raise PluginError(_KIND, path, because("measure.not_named_alg"))
    if match["name"].lower() in {"all", *(name.lower() for name in BY_NAME)}:
        raise PluginError(_KIND, path, because("measure.name_taken", name=match["name"]))
    check_script(_KIND, root, path)
    return ScriptMetric(match["name"], path)


def _numbers(codes: AnyArray, dtype: DType) -> AnyArray:
    # A flat copy: the codes may be a mapped file, and metrics may modify their arguments.
    # Most runs have no such metric, and then need no NumPy.
    from opdiff.core import codes as elements

    values = elements.decode(codes.reshape(-1), dtype)
    return values.copy() if values.base is not None or values is codes else values
