"""Import of the modules that follow the measuring, while the kernel measures: a short comparison is mostly imports."""

from __future__ import annotations

from importlib import import_module

_MODULES = (
    "opdiff.workflows.compare.judging",
    "opdiff.workflows.compare.replays",
    "opdiff.workflows.compare.outputs",
    "opdiff.report.html_page",
)


def import_judge_and_reports() -> None:
    """Import the modules of judge, replay and the usual reports."""
    for name in _MODULES:
        import_module(name)
