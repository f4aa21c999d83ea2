"""The rule file that a comparison needs after one that describes another model."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from opdiff.core import filesystem
from opdiff.core.dump import DumpKind
from opdiff.core.errors import InputError
from opdiff.core.reasons import Status, because
from opdiff.core.remote.urls import is_remote
from opdiff.read.directory import locate
from opdiff.read.rules import read_rules
from opdiff.workflows.compare.input_checks import compare_command, known_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.core.comparison import Comparison
    from opdiff.core.reasons import Reason

_EXTENSIONS = (".json", ".om", ".om2", ".txt", ".pbtxt")
# Reading 1 MB of JSON takes about 15 ms.
_MAX_FILES = 20
_MAX_NBYTES = 32 << 20
_MIN_SHARE = 0.5
_ATC_OF_MODEL = "atc --mode=1 --om=MODEL.om --json=MODEL.json"
_ATC_OF_TEXT = "atc --mode=5 --om=ge_proto_BUILD.txt --json=GRAPH.json"


def needed_rules(comparison: Comparison) -> tuple[list[Reason], str]:
    """Return what the given rule file describes, and the file beside it that fits, otherwise how to get one.

    The command repeats the comparison with the file that fits; it is empty if there is none. Without a given rule file,
    there are no sentences either.
    """
    given, dumped = _given(comparison), locate(comparison.target.path).model
    if not given:
        return [], ""
    sentences = []
    option, path = next(iter(given.items()))
    described = _described_model(path)
    if described:
        of_dump = because("compare.dumped_model", model=dumped) if dumped else None
        facts = {"option": f"-{option}", "file": os.path.basename(path), "model": described, "dumped": of_dump}
        sentences.append(because("compare.rules_of_model", **facts))
    needed = "fr" if option == "qfr" and comparison.target.kind is DumpKind.NPU else option
    fitting, command = _fitting_rules(comparison, path, needed)
    if fitting is not None:
        return [*sentences, fitting], command
    if option == "qfr":
        sentences.append(because("compare.quant_rules_needed"))
    if needed != "qfr":
        sentences.append(because("compare.fusion_rules_needed", option=f"-{needed}", command=_ATC_OF_MODEL))
    # Inference may have such folders, too.
    if dumped:
        sentences.append(because("compare.training_rules_needed", command=_ATC_OF_TEXT))
    return sentences, ""


def _given(comparison: Comparison) -> dict[str, str]:
    """Return the given rule files by their options, that of the target first."""
    given = comparison.extra_inputs
    files = {"fr": given.fusion_rules, "cfr": given.fusion_off_rules, "qfr": given.quant_rules}
    return {option: path for option, path in files.items() if path}


def _described_model(path: str) -> str:
    """Return the original model, otherwise the compiled one or its graph; empty if the file cannot be read any more."""
    try:
        rules = read_rules(path)
    except InputError:
        return ""
    names = (rules.origin.option("--model"), rules.origin.name, *(graph.name for graph in rules.graphs))
    return next(filter(None, names), "")


def _fitting_rules(comparison: Comparison, given: str, option: str) -> tuple[Reason | None, str]:
    """Find the file that has most of the operators that the given file does not have, and the command that uses it."""
    rows = (row for row in comparison.rows if row.status is Status.NOT_IN_RULES)
    unknown = {row.key.op if row.key else row.label.target for row in rows}
    shares: dict[str, float] = {}
    for path in islice(_rule_files_beside(given), _MAX_FILES):
        with suppress(InputError, OSError):
            if filesystem.getsize(path) <= _MAX_NBYTES:
                shares[path] = known_share(unknown, read_rules(path))
    best = max(shares, key=lambda path: shares[path], default="")
    if not best or shares[best] <= _MIN_SHARE:
        return None, ""
    known = round(shares[best] * len(unknown))
    options = _given(comparison) | {option: best}
    command = compare_command(comparison.target.path, comparison.golden.path, **options)
    return because("compare.fitting_rules", path=best, known=known, count=len(unknown), next=command), command


def _rule_files_beside(given: str) -> Iterator[str]:
    folder, name = os.path.split(given)
    if name and not is_remote(given):
        with suppress(OSError):
            names = [item.name for item in filesystem.list_folder(folder or ".")]
            yield from (os.path.join(folder, other) for other in names if other.endswith(_EXTENSIONS) and other != name)
