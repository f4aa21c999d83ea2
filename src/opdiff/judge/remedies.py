"""What to do about findings, as files that compilers and quantizers take, and the command to run next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from opdiff.core.judgement import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.judgement import Finding

FUSION_SWITCH, KEEP_FP32, SKIP_QUANT = "fusion_switch.cfg", "keep_fp32.txt", "quant_skip_layers.txt"

_KEEP = frozenset({ErrorKind.OVERFLOW, ErrorKind.PRECISION})


def next_command(target: str, golden: str, finding: Finding, rules: str = "") -> str:
    """The command that shows more about a finding; `rules` is the rule file of the comparison, where it is known."""
    command = f"opdiff op {_quoted(finding.tensor)} {_quoted(target)} {_quoted(golden)}"
    return f"{command} --rules {_quoted(rules)}" if rules else command


def _quoted(text: str) -> str:
    """A word as a shell takes it: nothing in it is expanded, nothing is escaped that the shell would not undo."""
    if text and all(letter.isalnum() or letter in "/._-:" for letter in text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def files_of(findings: Sequence[Finding]) -> dict[str, str]:
    """Contents by file name; only those that have something to say."""
    files = {}
    switch = fusion_switch(findings)
    if switch:
        files[FUSION_SWITCH] = switch
    keep = [finding.operator for finding in findings if finding.kind in _KEEP]
    if keep:
        files[KEEP_FP32] = "".join(f"{name}\n" for name in dict.fromkeys(keep))
    skip = [name for finding in findings if finding.kind is ErrorKind.QUANTIZATION for name in _layers(finding)]
    if skip:
        files[SKIP_QUANT] = "".join(f"{name}\n" for name in dict.fromkeys(skip))
    return files


def _layers(finding: Finding) -> tuple[str, ...]:
    """The layer and those before it that could not be compared, without the operators that quantize."""
    names = (*finding.before, finding.operator)
    return tuple(name for name in names if "quant" not in name.lower()) or (finding.operator,)


def fusion_switch(findings: Sequence[Finding]) -> str:
    """The file for `atc --fusion_switch_file` that turns off just the passes involved; empty when there are none."""
    at_fault = [finding for finding in findings if finding.kind not in (ErrorKind.INPUT, ErrorKind.PAIRING)]
    graph = dict.fromkeys((name for finding in at_fault for name in finding.passes), "off")
    buffer = dict.fromkeys((name for finding in at_fault for name in finding.buffer_passes), "off")
    if not graph and not buffer:
        return ""
    switches = {"GraphFusion": graph} if graph else {}
    switches |= {"UBFusion": buffer} if buffer else {}
    return json.dumps({"Switch": switches}, indent=4) + "\n"
