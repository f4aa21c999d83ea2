"""Selection of operators by ranges and lists of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opdiff.core.errors import UsageError
from opdiff.pair.groups import group_operators
from opdiff.pair.selection import Range, Select, Selection, parse_range, parse_select, select
from pair.rule_files import dumped, npu, npy, op, paired, rules

if TYPE_CHECKING:
    from collections.abc import Callable

TEN = rules(*(op(f"o{number}", sequence=number) for number in range(11)))


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_range, "1,10,1", list(range(1, 11))),
        (parse_range, ",,", list(range(1, 11))),
        (parse_range, " 3 , -1 , 4", [3, 7, 10]),
        (parse_range, "2,9,3", [2, 5, 8, 9]),
        (parse_range, "4,4,", [4]),
        (parse_select, "3", [3]),
        (parse_select, "7, 2,2 ,99", [2, 7]),
        (parse_select, "0", [0]),
    ],
)
def test_a_range_includes_its_end_and_a_list_ignores_numbers_beyond_the_last(
    parse: Callable[[str], Selection], text: str, expected: list[int]
) -> None:
    selected = select(group_operators(TEN), parse(text))
    assert [group.index for group in selected.groups] == expected


@pytest.mark.parametrize(
    ("parse", "text", "problem"),
    [
        (parse_range, "1,2", "three numbers `start,end,step` are expected"),
        (parse_range, "1,2,3,4", "three numbers"),
        (parse_range, "-1,2,1", "'-1' is not a number"),
        (parse_range, "a,2,1", "'a' is not a number"),
        (parse_range, "²,2,1", "'²' is not a number"),
        (parse_range, "1,2," + "9" * 30, "is not a number"),
        *((parse_select, text, "is not a number") for text in ("", "1,,2", "x", "-1", "1.5")),
        (parse_select, "3,conv1", "by their `id` in the rule file; one .* opdiff op conv1 TARGET GOLDEN"),
    ],
)
def test_malformed_selections_are_refused(parse: Callable[[str], Selection], text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse(text)


@pytest.mark.parametrize(
    ("selection", "problem"),
    [
        (Range(0), "the start is 0; it must be from 1 to 10"),
        (Range(11), "the start is 11"),
        (Range(5, 4), "the end is 4; it must be from 5 to 10"),
        (Range(5, 11), "the end is 11"),
        (Range(1, None, 0), "the step is 0; it must be from 1 to 9"),
        (Range(1, None, 10), "the step is 10"),
        (Select(frozenset({11, 12})), "all numbers are larger than 10"),
    ],
    ids=str,
)
def test_a_selection_beyond_the_model_is_refused(selection: Selection, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        select(group_operators(TEN), selection)


def test_a_group_is_selected_as_a_whole_and_its_inputs_are_traced() -> None:
    given = rules(
        op("a", sequence=1),
        op("p", sequence=2, originals=("x", "y"), inputs=("a:0",)),
        op("q", sequence=3, originals=("x", "y")),
    )
    rows = paired(npu(dumped("a"), dumped("p", 1, 0), dumped("q", 0, 1)), npy("a"), given, Select(frozenset({3})))
    assert [(row.label.index, row.label.sequence, str(row.key)) for row in rows] == [
        (1, 2, "p:input:0"),
        (1, 3, "q:output:0"),
    ]
    assert str(getattr(rows[0], "evidence", None)) == "input 0 comes from a:0"
