"""The next conversion with fusion off: the file of fusion switches, and the commands of ATC."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opdiff.core.graph import ModelOrigin

FUSION_OFF_FILE = "fusion_switch_all_off.cfg"
FUSION_OFF_SWITCHES = json.dumps({"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}, indent=4)
"""Contents of the file for `atc --fusion_switch_file` that disables all passes that can be disabled."""

_MODEL = "fusion_off"
# Options of the next conversion that the command line of the last one does not decide.
_OWN_OPTIONS = ("--output", "--fusion_switch_file", "--mode", "--om", "--json")
_UNKNOWN_OPTIONS = ("--model=MODEL", "--framework=FRAMEWORK", "--soc_version=SOC_VERSION")


def fusion_off_commands(origin: ModelOrigin) -> tuple[str, str]:
    """Return the commands that compile a model with fusion off and write its rules; unknown values in capitals."""
    options = _kept_options(origin.command_line) or _UNKNOWN_OPTIONS
    own = (f"--output={_MODEL}", f"--fusion_switch_file={FUSION_OFF_FILE}")
    names = (f"--om={_MODEL}.om", f"--json={_MODEL}.json")
    return shlex.join(["atc", *options, *own]), shlex.join(["atc", "--mode=1", *names])


def _kept_options(command_line: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command line of ATC as `--name=value`, without the options about output and fusion."""
    kept: list[str] = []
    for argument in command_line:
        if argument.startswith("--"):
            kept.append(argument)
        elif kept and "=" not in kept[-1]:
            kept[-1] += f"={argument}"
    return tuple(option for option in kept if option.partition("=")[0] not in _OWN_OPTIONS)
