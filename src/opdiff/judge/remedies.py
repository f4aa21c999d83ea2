"""Remedies as files for compilers and quantizers, and the command to run next."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from opdiff.core.comparison import Mode
from opdiff.core.judgement import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.comparison import Comparison, ExtraInputs
    from opdiff.core.dump import Unit
    from opdiff.core.judgement import Finding

FUSION_SWITCH, KEEP_FP32, SKIP_QUANT = "fusion_switch.cfg", "keep_fp32.txt", "quant_skip_layers.txt"

_FLOAT32_KINDS = frozenset({ErrorKind.OVERFLOW, ErrorKind.PRECISION})


def next_command(comparison: Comparison, finding: Finding) -> str:
    """Return the shell command that shows the details of a finding."""
    words = ["opdiff", "op", finding.tensor, comparison.target.path, comparison.golden.path]
    if comparison.mode is Mode.GRAPH:
        words += ["--mode", "torchair", *(_unit_options(finding.units[0]) if finding.units else ())]
    return shlex.join([*words, *_input_options(comparison.extra_inputs)])


def _unit_options(unit: Unit) -> list[str]:
    numbers = (("--rank", unit.rank), ("--token", unit.token), ("--graph", unit.graph))
    return [word for option, number in numbers if number is not None for word in (option, str(number))]


def _input_options(given: ExtraInputs) -> list[str]:
    options = ("--rules", "-cfr", "-qfr", "--pairs", "-c")
    return [word for option, path in zip(options, given, strict=True) if path for word in (option, path)]


def files_of(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the contents of the files that apply, by name."""
    files = {}
    switch = fusion_switch(findings)
    if switch:
        files[FUSION_SWITCH] = switch
    keep = [finding.operator for finding in findings if finding.kind in _FLOAT32_KINDS]
    if keep:
        files[KEEP_FP32] = "".join(f"{name}\n" for name in dict.fromkeys(keep))
    skip = [name for finding in findings if finding.kind is ErrorKind.QUANTIZATION for name in _layers(finding)]
    if skip:
        files[SKIP_QUANT] = "".join(f"{name}\n" for name in dict.fromkeys(skip))
    return files


def _layers(finding: Finding) -> tuple[str, ...]:
    """Return the layer and the uncompared ones before it, without quantizing operators."""
    names = (*finding.before, finding.operator)
    return tuple(name for name in names if "quant" not in name.lower()) or (finding.operator,)


def fusion_switch(findings: Sequence[Finding]) -> str:
    """Return the file for `atc --fusion_switch_file` that disables the passes involved; empty if there are none."""
    at_fault = [finding for finding in findings if finding.kind not in (ErrorKind.INPUT, ErrorKind.PAIRING)]
    graph = dict.fromkeys((name for finding in at_fault for name in finding.passes), "off")
    buffer = dict.fromkeys((name for finding in at_fault for name in finding.buffer_passes), "off")
    if not graph and not buffer:
        return ""
    switches = {"GraphFusion": graph} if graph else {}
    switches |= {"UBFusion": buffer} if buffer else {}
    return json.dumps({"Switch": switches}, indent=4) + "\n"
