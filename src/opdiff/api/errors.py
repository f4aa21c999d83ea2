"""Errors of the stages for Python programs: arguments in place of command-line options."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opdiff.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@contextmanager
def python_errors() -> Iterator[None]:
    """Name arguments of Python in errors, which have the options of the command line."""
    try:
        yield
    except UsageError as error:
        raise UsageError(_in_python(str(error.problem))) from error
    except InputError as error:
        raise InputError(error.path, _in_python(str(error.problem))) from error


def _in_python(sentence: str) -> str:
    return _OPTION.sub(lambda match: f"`{_ARGUMENTS[match[0]]}`", sentence)
