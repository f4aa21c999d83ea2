"""Exit codes of all commands; docs/exit-codes.md explains them to users."""

from __future__ import annotations

from enum import IntEnum

SUMMARY = """\
exit codes: 0 done, 1 gate violated (--fail-on, --strict, selftest), 2 usage error, 3 input unusable,
            70 defect of opdiff, 130 interrupted, 143 terminated
"""


class ExitCode(IntEnum):
    """Outcome of a command as the shell sees it."""

    OK = 0
    GATE = 1
    """A condition that the user set (`--fail-on`, `--strict`) is violated, or `selftest` missed a fault."""
    USAGE = 2
    UNUSABLE_INPUT = 3
    DEFECT = 70
    """An unexpected exception; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """Ended by Ctrl-C; the shell's code for SIGINT."""
    TERMINATED = 143
    """Ended by `kill` or a job scheduler; the shell's code for SIGTERM."""


def interrupt_exit_code(interrupt: KeyboardInterrupt) -> ExitCode:
    """Return the exit code after an interrupt, which names its signal if that is not SIGINT."""
    return ExitCode(128 + interrupt.args[0]) if interrupt.args else ExitCode.INTERRUPTED


def comparison_exit_code(*, defects: int, compared: int, gate_hit: bool, misfit: bool = False) -> ExitCode:
    """Return the exit code of a comparison with this many defects and compared tensors.

    `misfit` tells that rules and dumps are not of the same model.
    """
    if defects:
        return ExitCode.DEFECT
    if not compared or misfit:
        return ExitCode.UNUSABLE_INPUT
    return ExitCode.GATE if gate_hit else ExitCode.OK
