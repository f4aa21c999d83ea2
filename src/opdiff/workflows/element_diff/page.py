"""HTML report of one operator, in which the examined tensor is drawn with all its planes."""

from __future__ import annotations

from sys import maxsize
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opdiff.core.comparison import Comparison
from opdiff.core.errors import OpdiffError
from opdiff.core.pairing import Pairing
from opdiff.judge.comparison_judgement import judge
from opdiff.report.html_page import write_html
from opdiff.workflows.compare.examined_tensors import find_error_facts
from opdiff.workflows.compare.kept_pairs import LazyPairs
from opdiff.workflows.compare.outputs import find_environment
from opdiff.workflows.compare.pictures import PictureBounds, find_pictures, find_whole_pair, read_values
from opdiff.workflows.compare.profiles import find_profiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opdiff.align.custom import Conversions
    from opdiff.align.element_reader import PairReader
    from opdiff.core.comparison import Row
    from opdiff.core.error_facts import ErrorFacts, Explanation
    from opdiff.core.pairing import PairingResult
    from opdiff.core.pictures import TensorPicture
    from opdiff.judge.limits import Limits
    from opdiff.workflows.compare.inputs import Inputs

# Elements for histograms and densities if the kernel does not look at all of them, cells of all planes together, and
# cells along an axis of a plane.
_MAX_ELEMENTS = 1 << 22
_MAX_IMAGE_CELLS = 1 << 23
_MAX_CELLS = 128


class MeasuredOperator(Struct, frozen=True):
    """Tensors of one operator: their pairs and rows, and the number of the examined row."""

    pairs: tuple[PairingResult, ...]
    rows: tuple[Row, ...]
    number: int


class OperatorPage(Struct, frozen=True):
    """Content of the page.

    Attributes:
        inputs: the sides of the comparison.
        measured: tensors of the operator.
        pair: elements of the examined tensor.
        explanations: explanations of its error.
        custom: conversions of the user.
        limits: limits by which the tensors are judged.
    """

    inputs: Inputs
    measured: MeasuredOperator
    pair: PairReader
    explanations: tuple[Explanation, ...]
    custom: Conversions | None
    limits: Limits

    def write(self, path: str) -> None:
        """Write the page, which begins with the examined tensor."""
        write_html(self._comparison(), path, start=self.measured.number)

    def _comparison(self) -> Comparison:
        rows, limits = self.measured.rows, self.limits
        pairs = LazyPairs(self.measured.pairs, self.custom)
        judgement = judge(rows, (), limits)
        facts = tuple(self._explained(find_error_facts(rows, judgement, pairs)))
        judgement = judge(rows, (), limits, facts=facts)
        others = find_pictures(rows, judgement, pairs, PictureBounds())
        return Comparison(
            mode=self.inputs.mode,
            target=self.inputs.target,
            golden=self.inputs.golden,
            scenario=self.inputs.scenario,
            rows=rows,
            judgement=judgement,
            environment=find_environment(),
            profiles=find_profiles(rows, judgement, pairs),
            notes=self.inputs.notes,
            error_facts=facts,
            pictures=(*self._picture(), *(each for each in others if each.row != self.measured.number)),
        )

    def _explained(self, found: tuple[ErrorFacts, ...]) -> Iterator[ErrorFacts]:
        """Yield the facts; facts of the examined tensor include explanations by other tensors."""
        for facts in found:
            is_examined = facts.row == self.measured.number and self.explanations
            yield replace(facts, explanations=self.explanations) if is_examined else facts

    def _picture(self) -> Iterator[TensorPicture]:
        from opdiff.measure.pictures import draw_picture

        try:
            pairing = self.measured.pairs[self.measured.number]
            whole = find_whole_pair(pairing, self.custom, maxsize) if isinstance(pairing, Pairing) else None
            values = read_values(self.pair, _MAX_ELEMENTS, whole)
            found = draw_picture(self.measured.number, values, _MAX_IMAGE_CELLS, _MAX_CELLS)
        except (OpdiffError, MemoryError):
            return
        if found is not None:
            yield found
