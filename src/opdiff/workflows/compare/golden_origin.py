"""Origin of golden data that `opdiff golden` made, and whether the rules name the same model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opdiff.core.errors import InputError
from opdiff.core.reasons import because
from opdiff.workflows.golden.manifest import find_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opdiff.core.graph import RuleFile
    from opdiff.core.reasons import Reason

_DIGEST_DIGITS = 12


def golden_origin_notes(folder: str, rules: Iterable[RuleFile | None]) -> tuple[Reason, ...]:
    """Return remarks about the model that golden data was made from; none if the directory has no manifest."""
    try:
        manifest = find_manifest(folder)
    except InputError as error:
        return (because("compare.golden_manifest_unreadable", problem=error.reason),)
    if manifest is None or not manifest.model:
        return ()
    from opdiff.workflows.golden.compiled_model import is_other_model

    model = manifest.model[0]
    inputs = tuple(f"{item.name} ({item.origin})" for item in manifest.inputs)
    origin = because(
        "compare.golden_made_from",
        model=model.name,
        digest=model.sha256[:_DIGEST_DIGITS],
        engine=manifest.engine,
        inputs=inputs,
    )
    compiled = [file.origin.option("--model") for file in rules if file]
    others = [name for name in compiled if is_other_model(name, model.name)]
    mismatch = [because("compare.golden_other_model", model=model.name, compiled=others[0])] if others else []
    return (*mismatch, origin)
