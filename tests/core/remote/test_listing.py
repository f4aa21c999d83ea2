"""Names that a server lists stay in their folder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdiff.core.remote.listing import ItemKind, items_of

URL = "sftp://host/dump"


def listed(name: str, kind: str = "file") -> list[tuple[str, str, ItemKind]]:
    items = items_of(URL, "/dump", [{"name": f"/dump/{name}", "type": kind, "size": 3}])
    return [(item.name, item.path, item.kind) for item in items.values()]


@pytest.mark.parametrize("name", ["conv.1", "a b", "größe", "x%2Fy", "..a", "a:b@c"])
def test_ordinary_names_are_kept(name: str) -> None:
    assert listed(name) == [(name, f"{URL}/{name}", ItemKind.FILE)]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("../../etc/passwd", "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd"),
        ("/etc/passwd", "%2Fetc%2Fpasswd"),
        ("a\x1b[2Jb", "a%1B%5B2Jb"),
        ("a\nb", "a%0Ab"),
        ("a\u202eb", "a%E2%80%AEb"),
        ("a\u2028b", "a%E2%80%A8b"),
    ],
)
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_unsafe_names_are_neither_files_nor_folders(name: str, shown: str, kind: str) -> None:
    assert listed(name, kind) == [(shown, f"{URL}/{shown}", ItemKind.UNSAFE)]


@given(st.text(min_size=1), st.sampled_from(["file", "directory", "link", "else"]))
def test_no_name_leaves_its_folder(name: str, kind: str) -> None:
    for shown, path, _ in listed(name, kind):
        assert path == f"{URL}/{shown}"
        assert "/" not in shown
        assert shown not in {"", ".", ".."}


def test_names_outside_of_the_folder_and_the_folder_itself_are_dropped() -> None:
    facts = [{"name": name, "type": "file"} for name in ("/other/x", "/dump", "/dump/", "/dumpling")]
    assert items_of(URL, "/dump", facts) == {}
