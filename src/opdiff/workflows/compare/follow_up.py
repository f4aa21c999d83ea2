"""What a user can do about the findings of a comparison: a command that shows more, and files that apply remedies."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from msgspec import structs

from opdiff.core import filesystem
from opdiff.core.atomic_file import make_folder, open_atomic
from opdiff.core.comparison import next_command
from opdiff.workflows.compare.dead_ends import find_dead_end

if TYPE_CHECKING:
    from opdiff.core.comparison import Comparison


def next_step(comparison: Comparison) -> str:
    """Return the command that shows more about the worst finding, or about the input because of which there is none.

    If the rule file is of another model, the command compares by the one that fits, if it was found. Empty if there is
    nothing to look at, or if the inputs do not exist any more.
    """
    if comparison.fitting_command:
        return comparison.fitting_command
    dead_end = find_dead_end(comparison)
    if dead_end is not None:
        return shlex.join(["opdiff", "inspect", dead_end.path]) if filesystem.exists(dead_end.path) else ""
    paths = (comparison.target.path, comparison.golden.path, *filter(None, structs.astuple(comparison.extra_inputs)))
    for finding in comparison.judgement.findings[:1]:
        has_data = any(row.metrics is not None and str(row.key) == finding.tensor for row in comparison.rows)
        if has_data and all(map(filesystem.exists, paths)):
            return next_command(comparison, finding)
    return ""


def write_remedies(comparison: Comparison, folder: str) -> list[str]:
    """Write the files that apply the remedies to a folder, and return their paths."""
    from opdiff.judge.remedies import files_of

    make_folder(folder)
    paths = []
    for name, content in files_of(comparison).items():
        paths.append(os.path.join(folder, name))
        with open_atomic(paths[-1]) as file:
            file.write(content.encode(errors="backslashreplace"))
    return paths
