"""Ranges that are requested together hold all the wanted ones."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from opdiff.core.remote.store import PIECE_NBYTES, ByteRange, merge, pieces

SOME_RANGES = st.lists(
    st.builds(
        lambda url, start, nbytes: ByteRange(url, start, start + nbytes),
        st.sampled_from(["s3://b/x", "s3://b/y"]),
        st.integers(0, 1 << 20),
        st.integers(0, 1 << 18),
    )
)


@given(SOME_RANGES)
def test_each_range_is_in_one_merged_range(ranges: list[ByteRange]) -> None:
    merged = merge(ranges)
    assert all(sum(whole.holds(part) for whole in merged) >= 1 for part in ranges)
    for one, other in pairwise(merged):
        assert one.url < other.url or one.stop < other.start


def test_neighbours_are_one_request_and_distant_ranges_two() -> None:
    near = [ByteRange("s3://b/x", 0, 100), ByteRange("s3://b/x", 200, 300)]
    assert merge(near) == [ByteRange("s3://b/x", 0, 300)]
    distant = [ByteRange("s3://b/x", 0, 100), ByteRange("s3://b/x", 1 << 20, 2 << 20)]
    assert merge(distant) == distant


@given(st.integers(0, 100), st.integers(0, 3 * PIECE_NBYTES))
def test_pieces_are_consecutive(start: int, nbytes: int) -> None:
    whole = ByteRange("s3://b/x", start, start + nbytes)
    found = [*pieces(whole)]
    assert sum(piece.nbytes for piece in found) == nbytes
    assert [piece.start for piece in found[1:]] == [piece.stop for piece in found[:-1]]
    assert all(0 < piece.nbytes <= PIECE_NBYTES for piece in found)
