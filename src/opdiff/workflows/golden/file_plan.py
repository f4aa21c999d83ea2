"""File names of golden tensors: which tensor is written under which names, and which operators have no file."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from opdiff.core.errors import InputError, UsageError
from opdiff.core.reasons import because, did_you_mean
from opdiff.core.tensor import file_safe_name
from opdiff.workflows.golden.original import Omitted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from opdiff.core.reasons import Reason
    from opdiff.workflows.golden.options import GoldenOptions
    from opdiff.workflows.golden.original import OriginalModel

_MAX_NAME_NBYTES = 255
_CONSTANTS = frozenset({"Constant", "Const"})


class Candidate(Struct, frozen=True):
    """A tensor that may be written as an output of an operator."""

    op: str
    number: int
    tensor: str


class FilePlan(Struct, frozen=True):
    """Files to write.

    Attributes:
        files: names of files by tensor; the first file is written, the others are links to it.
        renamed: short and real names of files whose names are too long.
        omitted: operators without a file.
    """

    files: dict[str, tuple[str, ...]]
    renamed: tuple[tuple[str, str], ...]
    omitted: tuple[Omitted, ...]


def plan_files(
    model: OriginalModel, options: GoldenOptions, timestamp: int, needed: Collection[str] | None = None
) -> FilePlan:
    """Return the files of a run.

    Args:
        model: the model.
        options: the selection of operators.
        timestamp: microseconds, a part of every name.
        needed: names of operators to write, in the form of file names; `None` for all.

    Raises:
        UsageError: no operator is selected.
        InputError: no operator can be computed.
    """
    if not model.operators:
        raise InputError(model.path, _no_operators(model))
    omitted = list(model.omitted)
    files: dict[str, list[str]] = {}
    owners: dict[str, Candidate] = {}
    renamed: list[tuple[str, str]] = []
    for candidate in _candidates(model, _Selection(model, options, needed), omitted):
        real = f"{file_safe_name(candidate.op)}.{candidate.number}.{timestamp}.npy"
        owner = owners.setdefault(real, candidate)
        name = _fitting_name(real)
        if owner is not candidate:
            if owner.tensor != candidate.tensor:
                omitted.append(Omitted(candidate.op, because("golden.name_taken", file=real, owner=owner.op)))
        elif name is None:
            omitted.append(Omitted(candidate.op, because("golden.name_too_long")))
        else:
            files.setdefault(candidate.tensor, []).append(name)
            renamed += [(name, real)] if name != real else []
    return FilePlan({tensor: tuple(names) for tensor, names in files.items()}, tuple(renamed), tuple(omitted))


def _no_operators(model: OriginalModel) -> Reason:
    """Return why a model has nothing to write, by the first operator that cannot be computed."""
    if not model.omitted:
        return because("golden.no_operators")
    first = model.omitted[0]
    return because("golden.none_computed", count=len(model.omitted), name=first.name, reason=first.reason)


def _candidates(model: OriginalModel, selected: _Selection, omitted: list[Omitted]) -> Iterator[Candidate]:
    """Yield the tensors to write; inputs come first, so that their names are free."""
    yield from (Candidate(spec.name, 0, spec.name) for spec in model.inputs)
    replaced = {alias.name for alias in model.aliases if alias.replaces}
    for operator in model.operators:
        reason = None
        if operator.op_type in _CONSTANTS and not selected.has_constants:
            reason = because("golden.constant")
        elif operator.name not in selected.names:
            reason = because("golden.not_selected")
        elif not selected.needs(operator.name):
            reason = because("golden.not_needed")
        elif operator.name in replaced:
            reason = because("golden.replaced")
        if reason:
            omitted.append(Omitted(operator.name, reason))
        else:
            # Absent outputs keep their number.
            outputs = enumerate(operator.outputs)
            yield from (Candidate(operator.name, number, tensor) for number, tensor in outputs if tensor)
    produced = {name for operator in model.operators for name in operator.outputs}
    produced |= {spec.name for spec in model.inputs}
    for alias in model.aliases:
        if alias.tensor in produced and selected.has(alias.name):
            yield Candidate(alias.name, 0, alias.tensor)


class _Selection:
    """Operators that `--only`, `--until` and `--only-needed` select."""

    def __init__(self, model: OriginalModel, options: GoldenOptions, needed: Collection[str] | None) -> None:
        self._patterns = options.only
        self._needed = needed
        self.has_constants = options.constants
        names = [operator.name for operator in model.operators]
        if options.until:
            if options.until not in names:
                raise UsageError(
                    because("golden.no_such_operator", name=options.until, hint=did_you_mean(options.until, names))
                )
            names = names[: names.index(options.until) + 1]
        self.names = {name for name in names if self._matches(name)}
        if not self.names:
            hint = did_you_mean(options.only[0], names) if options.only else None
            raise UsageError(because("golden.none_selected", patterns=" ".join(options.only), hint=hint))
        second = (alias.name for alias in model.aliases)
        if not any(self.needs(name) for name in (*self.names, *second)):
            raise UsageError(because("golden.none_needed", path=options.rules))
        self._is_limited = bool(options.until or options.only)

    def has(self, alias: str) -> bool:
        """Return whether a second name is selected."""
        if not self.needs(alias):
            return False
        return not self._is_limited or (bool(self._patterns) and self._matches(alias))

    def needs(self, name: str) -> bool:
        """Return whether a comparison looks up the outputs of an operator, as far as that was asked for."""
        return self._needed is None or file_safe_name(name) in self._needed

    def _matches(self, name: str) -> bool:
        return not self._patterns or any(fnmatchcase(name, pattern) for pattern in self._patterns)


def _fitting_name(real: str) -> str | None:
    """Return the name, digits in place of a long one, or `None` if a long name cannot stand in `mapping.csv`."""
    if len(os.fsencode(real)) <= _MAX_NAME_NBYTES:
        return real
    if "," in real:
        return None
    digest = sha256(real.encode(errors="surrogatepass")).digest()
    return f"{int.from_bytes(digest[:8], 'big'):020d}.npy"
