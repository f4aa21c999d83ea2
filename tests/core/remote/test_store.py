"""Files of a store: data equals that of the files, and is requested as rarely as possible."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.core import filesystem
from opdiff.core.errors import DumpError, UsageError
from opdiff.core.filesystem import open_input, read_input
from opdiff.core.remote import store as store_module
from opdiff.core.remote.connect import connect
from opdiff.core.remote.retries import RetryPolicy
from opdiff.core.remote.store import PIECE_NBYTES, ByteRange, FirstBytes, Settings, Store, merge, pieces
from opdiff.core.remote.stores import Cache
from opdiff.core.source import FileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

fsspec = pytest.importorskip("fsspec")

LARGE = bytes(range(256)) * 1000
ROOT = "memory://dump"


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    memory = fsspec.filesystem("memory")
    for name, content in {"small": b"abc", "large": LARGE, "empty": b"", "folder/inner": b"x"}.items():
        memory.pipe_file(f"/dump/{name}", content)
    yield
    memory.rm("/dump", recursive=True)


def store(**settings: object) -> Store:
    return Store(ROOT, Settings(**settings))  # type: ignore[arg-type]


def refuse_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Refuse the first connection; the function returns the number of attempts so far."""
    count = [0]

    def counted(origin: str) -> object:
        count[0] += 1
        if count[0] == 1:
            raise ConnectionRefusedError(111, "refused")
        return connect(origin)

    monkeypatch.setattr(store_module, "connect", counted)
    return lambda: count[0]


def test_listing_and_kinds() -> None:
    assert sorted(store().items(ROOT)) == ["empty", "folder", "large", "small"]
    assert filesystem.isdir(ROOT)
    assert filesystem.isfile(f"{ROOT}/small")
    assert filesystem.getsize(f"{ROOT}/large") == len(LARGE)
    assert not filesystem.exists(f"{ROOT}/nothing")
    assert sorted(filesystem.walk_names(ROOT)) == ["empty", "inner", "large", "small"]


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (10, 200_000), (0, 256_000), (255_990, 256_010), (100, 100)])
def test_ranges_equal_those_of_the_file(start: int, stop: int) -> None:
    (found,) = store().fetch([ByteRange(f"{ROOT}/large", start, stop)])
    assert not isinstance(found, OSError)
    assert bytes(found) == LARGE[start:stop]


def test_many_ranges_come_in_order_and_failures_cost_only_themselves() -> None:
    wanted = [("large", 5, 9), ("nothing", 0, 4), ("small", 1, 3), ("large", 200_000, 200_100)]
    found = store().fetch([ByteRange(f"{ROOT}/{name}", start, stop) for name, start, stop in wanted])
    assert isinstance(found[1], FileNotFoundError)
    assert [bytes(found[number]) for number in (0, 2, 3)] == [LARGE[5:9], b"bc", LARGE[200_000:200_100]]  # type: ignore[arg-type]


def test_a_small_file_is_requested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = store()
    found.preload([f"{ROOT}/small"])
    monkeypatch.setattr(store_module, "with_retries", lambda *_: pytest.fail("requested again"))
    assert bytes(found.head(f"{ROOT}/small")) == b"abc"
    assert bytes(found.read(f"{ROOT}/small", 1, 2)) == b"bc"


def test_a_failed_connection_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = store(retries=RetryPolicy(3, 0.001))
    count = refuse_once(monkeypatch)
    assert bytes(found.read(f"{ROOT}/small", 0, 3)) == b"abc"
    assert count() == 2


def test_after_a_final_failure_requests_are_not_repeated_until_one_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    found = store(retries=RetryPolicy(3, 0.001))
    attempts = [0]

    def refuse(_origin: str) -> object:
        attempts[0] += 1
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(store_module, "connect", refuse)
    for expected in (3, 4, 5):
        with pytest.raises(OSError, match="refused"):
            found.items(ROOT)
        assert attempts[0] == expected


def test_a_tensor_above_the_limit_is_refused() -> None:
    filesystem.start_run([ROOT], memory=1000)
    with pytest.raises(DumpError, match=r"exceed the limit of 1000 .* --cache DIR"):
        FileRange(f"{ROOT}/large", 0, 2000).raw()
    assert bytes(FileRange(f"{ROOT}/large", 0, 1000).raw()) == LARGE[:1000]
    filesystem.start_run([ROOT])


def test_cached_files_are_read_from_their_copies(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path / "cache"))
    assert bytes(store(cache=cache, max_nbytes=10).read(f"{ROOT}/large", 5, 500)) == LARGE[5:505]
    (copy,) = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert copy.read_bytes() == LARGE
    assert re.fullmatch("[0-9a-f]{62}", copy.name)


def test_a_changed_file_is_copied_again(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path))
    assert bytes(store(cache=cache).read(f"{ROOT}/small", 0, 3)) == b"abc"
    fsspec.filesystem("memory").pipe_file("/dump/small", b"xyz")
    assert bytes(store(cache=cache).read(f"{ROOT}/small", 0, 3)) == b"xyz"


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    for found in (store(), store(cache=Cache(str(tmp_path)))):
        assert bytes(found.read(f"{ROOT}/empty", 0, 0)) == b""
        assert bytes(found.head(f"{ROOT}/empty")) == b""


def test_a_source_too_short_names_the_size() -> None:
    with pytest.raises(DumpError, match="10 bytes are expected here, but the file ends at 3"):
        FileRange(f"{ROOT}/small", 0, 10).raw()


def test_open_files_are_read_in_any_order() -> None:
    with open_input(f"{ROOT}/large") as file:
        file.seek(-10, 2)
        assert file.read() == LARGE[-10:]
        file.seek(300)
        assert file.read(7) == LARGE[300:307]
    with pytest.raises(OSError, match="more than the limit of 5"):
        read_input(f"{ROOT}/large", 5)
    with pytest.raises(IsADirectoryError):
        open_input(f"{ROOT}/folder")


def test_the_oldest_first_bytes_are_dropped() -> None:
    found = FirstBytes(10)
    for name in ("a", "b", "c"):
        found.add(name, b"1234")
    assert [found.find(name) for name in ("a", "b", "c")] == [None, b"1234", b"1234"]


@pytest.mark.parametrize(
    ("origin", "problem"),
    [("file:///data", "without file://"), ("nonsense://x", "nonsense"), ("sftp:///x", "the host is missing")],
)
def test_origins_that_cannot_be_connected(origin: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        connect(origin)


# Ranges that are requested together

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
