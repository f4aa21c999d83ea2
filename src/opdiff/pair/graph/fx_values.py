"""Tensors of an FX run, each with all files that hold the tensor.

FX writes the inputs and outputs of every node, so one tensor is in many files: as the output of its node, as input of
each reader, and, in another shape, of views. Files with the same numbers in the same order are one value here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.tensor import Slot
from opdiff.pair.graph.contents import is_uniform, key_of, whole_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opdiff.core.tensor import Shape
    from opdiff.pair.graph.contents import Key, Stored


class FxFile(NamedTuple):
    """One file of an FX dump.

    Attributes:
        node: FX node and target.
        slot: input or output.
        index: number of the argument or result.
        element: position in an argument that is a list, 0 otherwise.
        stored: its data.
    """

    node: str
    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index
    element: int
    stored: Stored


@dataclass(eq=False, slots=True)
class FxValue:
    """One tensor of the golden run; files in the order in which they were written."""

    files: list[FxFile]
    _shapes: set[Shape | None] | None = field(init=False, default=None)
    _can_be_graph_input: bool | None = field(init=False, default=None)

    @property
    def can_be_graph_input(self) -> bool:
        """Whether a graph input may have the value: it was read before any node returned it, or has no identity.

        A bias of zeros has the content of every other tensor of zeros.
        """
        if self._can_be_graph_input is None:
            self._can_be_graph_input = self.files[0].slot is Slot.INPUT or is_uniform(self.stored)
        return self._can_be_graph_input

    @property
    def stored(self) -> Stored:
        """The data."""
        return self.files[0].stored

    def has_shape(self, shape: Shape | None) -> bool:
        """Return whether a file of the value has this shape; unknown extents are negative, unknown shapes fit."""
        if self._shapes is None:
            # Collected once, because a value that many nodes read is asked for its shapes often.
            self._shapes = {file.stored.shape for file in self.files}
        return shape is None or shape in self._shapes or any(_fits(known, shape) for known in self._shapes)

    def outputs(self) -> Iterator[FxFile]:
        """Files that are results of nodes."""
        return (file for file in self.files if file.slot is Slot.OUTPUT)


class FxValues:
    """The values of one token, by file and by content."""

    def __init__(self, files: Iterable[FxFile]) -> None:
        """Group files, nodes in the order of execution and inputs before outputs."""
        self._by_file: dict[tuple[str, Slot, int, int], tuple[FxValue, FxFile]] = {}
        self._by_key: dict[Key, list[FxValue]] = defaultdict(list)
        self._arguments: dict[str, list[FxFile]] = defaultdict(list)
        groups: dict[Key, list[FxFile]] = defaultdict(list)
        for file in files:
            if file.slot is Slot.INPUT:
                self._arguments[file.node].append(file)
            key = key_of(file.stored)
            if key is None:
                self._add([file], None)
            else:
                groups[key].append(file)
        for key, members in groups.items():
            for same in _separated(key, members):
                self._add(same, key)

    def of_file(self, file: FxFile) -> FxValue:
        """Return the value that a file holds."""
        return self._by_file[file[:4]][0]

    def find_output(self, node: str, index: int) -> tuple[FxValue, FxFile] | None:
        """Return a result of a node, and its file; `None` if the result was not dumped."""
        return self._by_file.get((node, Slot.OUTPUT, index, 0))

    def find(self, key: Key | None) -> list[FxValue]:
        """Return the values with this content; several if samples do not tell them apart."""
        return self._by_key.get(key, []) if key is not None else []

    def arguments(self, node: str) -> list[FxFile]:
        """Return the arguments of a node that were written."""
        return self._arguments.get(node, [])

    def _add(self, files: list[FxFile], key: Key | None) -> None:
        value = FxValue(files)
        for file in files:
            self._by_file[file[:4]] = value, file
        if key is not None:
            self._by_key[key].append(value)


def _separated(key: Key, files: list[FxFile]) -> Iterable[list[FxFile]]:
    """Files of one key, by their whole content where samples may hide a difference.

    A node that updates a few elements of a large tensor has an input and an output with the same samples.
    """
    if key.is_whole:
        return [files]
    nodes = {slot: {file.node for file in files if file.slot is slot} for slot in Slot}
    if not nodes[Slot.INPUT] & nodes[Slot.OUTPUT]:
        return [files]
    groups: dict[bytes | None, list[FxFile]] = defaultdict(list)
    for file in files:
        groups[whole_digest(file.stored)].append(file)
    return groups.values()


def _fits(shape: Shape | None, wanted: Shape) -> bool:
    if shape is None:
        return True
    same = (new < 0 or old == new for old, new in zip(shape, wanted, strict=False))
    return len(shape) == len(wanted) and all(same)
