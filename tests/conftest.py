"""Settings of all tests: generated examples have no time limit, and `make test` sums up what was skipped."""

import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# Tests started in the background ignore interrupts, and so would the programs that they interrupt.
with suppress(ValueError):
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write how many tests were skipped for which reason, the most frequent first, if `OPDIFF_SKIPPED` names a file."""
    path = os.environ.get("OPDIFF_SKIPPED")
    if not path:
        return
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    lines = [f"skipped: {count} test{'' if count == 1 else 's'}: {reason}" for reason, count in reasons.most_common()]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(f"{line}\n" for line in lines or ["skipped: no test"]))


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test, or a module of tests, was skipped."""
    found = report.longrepr
    return found[2].removeprefix("Skipped: ") if isinstance(found, tuple) else str(found)
