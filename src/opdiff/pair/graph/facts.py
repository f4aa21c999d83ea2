"""Content of one token's tensors, as answers to questions.

A pairing is a function of the graph text, of the structure of both dumps, and of the answers to these questions. The
answers are recorded, so another token of the same structure that gives the same answers has the same pairing
(`plans`). Whatever reads numbers to decide on a pair asks here; shapes and element types are structure and are free.

Questions are answered by samples. Whole tensors are read only where samples may hide a difference: a node that updates
a few elements of a large tensor has an input and an output with the same samples.

FX writes the inputs and outputs of every node, so one tensor is in many files: as the output of its node, as input of
each reader, and, in another shape, of views. Files with the same numbers in the same order have one `Value`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from opdiff.core.tensor import Slot
from opdiff.pair.graph.contents import (
    Stored,
    are_different,
    class_of,
    is_uniform,
    key_of,
    moved_key,
    same_numbers,
    whole_digest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar, TypeVarTuple, Unpack

    from opdiff.core.dump import GraphOp, SideTensor, TokenDump
    from opdiff.core.tensor import Shape
    from opdiff.pair.graph.contents import Class, Key
    from opdiff.pair.graph.movement import Path

    Arguments = TypeVarTuple("Arguments")
    Answer = TypeVar("Answer")
    Question = tuple[Callable[..., Any], tuple[Any, ...]]


class Place(NamedTuple):
    """Position of a tensor in the dump of a token, which is the same in each token.

    Attributes:
        owner: FX node and target, or operator of the target.
        slot: input or output.
        index: number of the argument or result.
        element: position in an argument that is a list, 0 otherwise.
        is_target: whether it is the target's.
    """

    owner: str
    slot: Slot
    index: int  # type: ignore[assignment]  # hides tuple.index
    element: int = 0
    is_target: bool = False


class Facts:
    """The tensors of one token of both sides by their places, and answers about their content.

    Attributes:
        tensors: all tensors.
        asked: the questions so far, and their answers.
    """

    def __init__(self, target: TokenDump, golden: TokenDump) -> None:
        """Take the golden operators in the order of execution, inputs before outputs."""
        self.tensors: dict[Place, SideTensor] = {
            place: tensor
            for dump, is_target in ((target, True), (golden, False))
            for op in dump.operators.values()
            for place, tensor in places_of(op, is_target=is_target)
        }
        self.asked: dict[Question, Any] = {}
        self._dumps = target, golden
        self._stored: dict[Place, Stored] = {}
        self._keys: dict[Place, Key | None] = {}
        self._digests: dict[Place, bytes | None] = {}
        self._by_key: dict[Class, Mapping[Key | None, list[Place]]] = {}
        self._doubtful: dict[Key, bool] = {}

    @property
    def structure(self) -> object:
        """All that is known without reading numbers; equal for tokens in which the same questions can be asked."""
        operators = [
            [(op.name, op.op_type, op.full_name, op.problem) for op in dump.operators.values()] for dump in self._dumps
        ]
        kinds = [dump.kind for dump in self._dumps]
        return kinds, operators, [(place, *_structure_of(tensor)) for place, tensor in self.tensors.items()]

    @cached_property
    def _sizes(self) -> dict[Place, Class]:
        """Size and type of all readable golden files, in order."""
        readable = ((place, tensor) for place, tensor in self.tensors.items() if not place.is_target)
        return {place: class_of(self.stored(place)) for place, tensor in readable if not tensor.problem}

    @cached_property
    def _classes(self) -> dict[Class, dict[Place, int]]:
        """The files by size and type, each with its number."""
        found: dict[Class, dict[Place, int]] = defaultdict(dict)
        for number, (place, size) in enumerate(self._sizes.items()):
            found[size][place] = number
        return found

    @cached_property
    def _by_shape(self) -> dict[Class, dict[Shape | None, list[Place]]]:
        """The files by size and type, then by their shapes."""
        found: dict[Class, dict[Shape | None, list[Place]]] = defaultdict(lambda: defaultdict(list))
        for place, size in self._sizes.items():
            found[size][self.stored(place).shape].append(place)
        return found

    @cached_property
    def _by_node(self) -> dict[str, list[Place]]:
        """The files by FX nodes."""
        found: dict[str, list[Place]] = defaultdict(list)
        for place in self._sizes:
            found[place.owner].append(place)
        return found

    def stored(self, place: Place) -> Stored:
        """Return the data of a tensor, or its extremes where only they are known."""
        try:
            return self._stored[place]
        except KeyError:
            found = self._stored[place] = stored(self.tensors[place])
            return found

    def arguments(self, node: str) -> list[Place]:
        """Return the readable arguments of an FX node, in order."""
        return [place for place in self.files_of(node) if place.slot is Slot.INPUT]

    def files_of(self, node: str) -> list[Place]:
        """Return the readable arguments and results of an FX node, in order."""
        return self._by_node.get(node, [])

    def find_output(self, node: str, index: int) -> Place | None:
        """Return a readable result of an FX node; `None` if there is none."""
        place = Place(node, Slot.OUTPUT, index)
        tensor = self.tensors.get(place)
        return None if tensor is None or tensor.problem else place

    def size(self, place: Place) -> Class:
        """Return element type and number of elements of a golden file; other sizes are other values."""
        return self._sizes[place]

    def first(self, equal: Iterable[Place]) -> Place:
        """Return the first of some equal golden files."""
        return min(equal, key=lambda place: self._like(place)[place])

    def value(self, place: Place) -> Value:
        """Return the value that a golden file holds."""
        return Value(self, place)

    def ask(self, question: Callable[[Facts, Unpack[Arguments]], Answer], *arguments: *Arguments) -> Answer:
        """Return the answer to a question, which is asked once. Answers mean the same in other tokens."""
        key = question, arguments
        try:
            found: Answer = self.asked[key]
        except KeyError:
            found = self.asked[key] = question(self, *arguments)
        return found

    def gives(self, asked: Mapping[Question, object]) -> bool:
        """Return whether questions of another token have the same answers here."""
        return all(self.ask(question, *arguments) == answer for (question, arguments), answer in asked.items())

    # Questions

    def are_equal(self, first: Place, second: Place) -> bool:
        """Return whether two golden files hold the same numbers in the same order."""
        if first == second:
            return True
        order = self._like(first)
        # Files of different sizes or types differ by structure.
        if second not in order:
            return False
        earlier, later = (first, second) if order[first] < order[second] else (second, first)
        return self.ask(Facts._are_equal, earlier, later)

    def has_shape(self, place: Place, shape: Shape) -> bool:
        """Return whether a golden file with the content of this one has a shape, whose unknown extents are negative."""
        if _fits(self.stored(place).shape, shape):
            return True
        by_shape = self._by_shape[self._sizes[place]]
        files = (file for known, files in by_shape.items() if _fits(known, shape) for file in files)
        return any(self.are_equal(place, file) for file in files)

    def _are_equal(self, first: Place, second: Place) -> bool:
        key = self._key(first)
        if key is None or key != self._key(second):
            return False
        return not self._is_doubtful(key) or self._digest(first) == self._digest(second)

    def have_same_numbers(self, first: Place, second: Place) -> bool:
        """Return whether two tensors of possibly different element types are equal at the sampled positions."""
        return same_numbers(self.stored(first), self.stored(second))

    def are_different(self, before: Place, after: Place, path: Path, dtype: str) -> bool:
        """Return whether a golden file is clearly not another one, moved and converted."""
        return are_different(self.stored(before), self.stored(after), path.to_input, dtype)

    def is_uniform(self, place: Place) -> bool:
        """Return whether all sampled elements of a golden file are the same number."""
        return is_uniform(self.stored(place))

    def moved(self, place: Place, path: Path, dtype: str) -> tuple[Place, ...]:
        """Return the first file of each value with the numbers of a golden file, moved and converted."""
        before = self.stored(place)
        key = moved_key(before, path.elements(before.elements), path.to_input, dtype)
        first: list[Place] = []
        for found in self._files_of(key) if key is not None else ():
            if not any(self._are_equal(known, found) for known in first):
                first.append(found)
        return tuple(first)

    def members(self, place: Place) -> tuple[Place, ...]:
        """Return the golden files with the content of one of them, in order."""
        return tuple(self._same_files(place))

    def first_slot(self, place: Place) -> Slot:
        """Return the slot of the first golden file with this content."""
        is_first = next(iter(self._like(place))) == place
        return place.slot if is_first else next(self._same_files(place)).slot

    def results_before(self, place: Place, node: str) -> tuple[str, ...]:
        """Return the nodes that return the content of a golden file, in order, up to the given node."""
        if place.owner == node and place.slot is Slot.OUTPUT and self._is_first_result(place):
            return ()
        nodes = (file.owner for file in self._same_files(place) if file.slot is Slot.OUTPUT)
        return tuple(takewhile(lambda owner: owner != node, nodes))

    # Content

    def _like(self, place: Place) -> Mapping[Place, int]:
        """Return the readable golden files of the size and type of one of them, with their numbers, in order."""
        return self._classes[self._sizes[place]]

    def _is_first_result(self, place: Place) -> bool:
        return next(file for file in self._like(place) if file.slot is Slot.OUTPUT) == place

    def _same_files(self, place: Place) -> Iterator[Place]:
        """Yield the golden files with the content of one of them, in order; further ones are not read before."""
        key = self._key(place)
        if key is None:
            return iter((place,))
        return (file for file in self._files_of(key) if file == place or self._are_equal(place, file))

    def _key(self, place: Place) -> Key | None:
        try:
            return self._keys[place]
        except KeyError:
            found = self._keys[place] = key_of(self.stored(place))
            return found

    def _digest(self, place: Place) -> bytes | None:
        if place not in self._digests:
            self._digests[place] = whole_digest(self.stored(place))
        return self._digests[place]

    def _files_of(self, key: Key) -> Sequence[Place]:
        """Return the golden files with the samples of a key, in order."""
        if key.size not in self._by_key:
            found: dict[Key | None, list[Place]] = defaultdict(list)
            for place in self._classes.get(key.size, ()):
                found[self._key(place)].append(place)
            self._by_key[key.size] = found
        return self._by_key[key.size].get(key, ())

    def _is_doubtful(self, key: Key) -> bool:
        """Return whether samples may hide a difference between the files of a key."""
        if key.is_whole:
            return False
        if key not in self._doubtful:
            owners = {slot: {file.owner for file in self._files_of(key) if file.slot is slot} for slot in Slot}
            self._doubtful[key] = not owners[Slot.INPUT].isdisjoint(owners[Slot.OUTPUT])
        return self._doubtful[key]


class Value:
    """One tensor of the golden run, named by one of its files; equal to the values of files with the same content."""

    __slots__ = ("_facts", "place")

    def __init__(self, facts: Facts, place: Place) -> None:
        self._facts = facts
        self.place = place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self._facts.are_equal(self.place, other.place)

    def __hash__(self) -> int:
        return hash(self._facts.size(self.place))

    @property
    def stored(self) -> Stored:
        """The data."""
        return self._facts.stored(self.place)

    @property
    def files(self) -> tuple[Place, ...]:
        """All files of the value, in the order in which they were written."""
        return self._facts.ask(Facts.members, self.place)

    @property
    def can_be_graph_input(self) -> bool:
        """Whether a graph input may have the value: it was read before any node returned it, or has no identity.

        A bias of zeros has the content of every other tensor of zeros.
        """
        first = self._facts.ask(Facts.first_slot, self.place)
        return first is Slot.INPUT or self._facts.ask(Facts.is_uniform, self.place)

    def has_shape(self, shape: Shape | None) -> bool:
        """Return whether a file of the value has this shape; unknown extents are negative, unknown shapes fit."""
        return shape is None or self._facts.has_shape(self.place, shape)

    def results_before(self, node: str) -> tuple[str, ...]:
        """Return the nodes that return the value, in order, up to the given node."""
        return self._facts.ask(Facts.results_before, self.place, node)


def places_of(op: GraphOp, *, is_target: bool) -> Iterator[tuple[Place, SideTensor]]:
    """Yield the tensors of an operator with their places. Elements of a list argument of FX share their index."""
    for tensors in (op.inputs, op.outputs):
        elements: dict[int, int] = defaultdict(int)
        for tensor in tensors:
            index = tensor.key.index
            yield Place(op.name, tensor.key.slot, index, elements[index], is_target), tensor
            elements[index] += 1


def stored(tensor: SideTensor) -> Stored:
    """Return the data of a tensor, or its extremes where only they are known."""
    figures = tensor.stats
    if tensor.tensor is not None or figures is None or figures.minimum is None or figures.maximum is None:
        return Stored(tensor.tensor)
    return Stored(None, (figures.minimum, figures.maximum))


def _structure_of(tensor: SideTensor) -> tuple[object, ...]:
    data, figures = tensor.tensor, tensor.stats
    if data is not None:
        return data.spec.shape, data.spec.dtype.name, data.spec.origin_shape, tensor.problem
    has_extremes = figures is not None and figures.minimum is not None and figures.maximum is not None
    return figures and figures.shape, has_extremes, tensor.problem


def _fits(shape: Shape | None, wanted: Shape) -> bool:
    if shape is None:
        return True
    same = (new < 0 or old == new for old, new in zip(shape, wanted, strict=False))
    return len(shape) == len(wanted) and all(same)
