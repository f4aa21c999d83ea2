"""Report as JUnit XML for continuous integration: a test case for each operator, in graph mode for each token.

Operators with a wrong tensor fail, operators without a compared tensor are skipped. Suspicious tensors are listed in
the output of a passing case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.atomic_file import open_atomic
from opdiff.core.judgement import Level
from opdiff.core.reasons import render
from opdiff.report.offline_table import reason_text

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison, Row
    from opdiff.core.judgement import Verdict

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}
# Characters that XML does not allow, and other control characters.
_FORBIDDEN = "[^\\x20-\\x7e\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff\t\n]"


class _Tensor(Struct, frozen=True):
    row: Row
    verdict: Verdict

    @property
    def level(self) -> Level:
        return self.verdict.level

    def __str__(self) -> str:
        return f"{self.row.key or self.row.label.target}: {self.level}: {render(self.verdict.rule)}"


def write_junit(comparison: Comparison, path: str) -> None:
    """Write the report."""
    cases: dict[str, list[_Tensor]] = {}
    for row, verdict in zip(comparison.rows, comparison.judgement.verdicts, strict=True):
        name = f"{row.unit}: {row.label.target}" if row.unit else row.label.target
        cases.setdefault(name, []).append(_Tensor(row, verdict))
    failed = sum(any(tensor.level is Level.WRONG for tensor in tensors) for tensors in cases.values())
    skipped = sum(all(tensor.level is Level.NOT_COMPARABLE for tensor in tensors) for tensors in cases.values())
    counts = f'tests="{len(cases)}" failures="{failed}" errors="0" skipped="{skipped}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="opdiff" {counts}>',
        f'<testsuite name="{_escaped(render(comparison.scenario))}" {counts}>',
        *(_case(name, tensors) for name, tensors in cases.items()),
        "</testsuite>",
        "</testsuites>",
    ]
    with open_atomic(path) as file:
        file.write("\n".join([*lines, ""]).encode())


def _case(operator: str, tensors: list[_Tensor]) -> str:
    start = f'<testcase name="{_escaped(operator)}" classname="{_escaped(tensors[0].row.label.op_type or "operator")}"'
    wrong = [str(tensor) for tensor in tensors if tensor.level is Level.WRONG]
    if wrong:
        text = _escaped("\n".join(wrong))
        return f'{start}><failure type="wrong" message="{_escaped(wrong[0])}">{text}</failure></testcase>'
    if all(tensor.level is Level.NOT_COMPARABLE for tensor in tensors):
        return f'{start}><skipped message="{_escaped(reason_text(tensors[0].row))}"/></testcase>'
    suspicious = [str(tensor) for tensor in tensors if tensor.level is Level.SUSPICIOUS]
    output = f"<system-out>{_escaped(chr(10).join(suspicious))}</system-out>" if suspicious else ""
    return f"{start}>{output}</testcase>"


def _escaped(text: str) -> str:
    allowed = re.sub(_FORBIDDEN, lambda match: match[0].encode("unicode_escape").decode(), text)
    return re.sub('[&<>"\n\t]', lambda match: _ESCAPES[match[0]], allowed)
