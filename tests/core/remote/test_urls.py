"""Passwords and queries in URLs are kept apart from paths."""

from __future__ import annotations

import pytest

from opdiff.core.errors import UsageError
from opdiff.core.remote import urls


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("sftp://host/dump", True),
        ("s3://bucket/dump", True),
        ("/data/dump", False),
        ("dump", False),
        ("./a://b", False),
        ("host:/dump", False),
    ],
)
def test_urls_have_a_scheme(path: str, remote: bool) -> None:
    assert urls.is_remote(path) is remote


@pytest.mark.parametrize(
    ("given", "shown", "password"),
    [
        ("sftp://me:s3cret@host/dump", "sftp://me@host/dump", "s3cret"),
        ("sftp://me:s3cret@host:2222/dump", "sftp://me@host:2222/dump", "s3cret"),
        ("sftp://me:a%2Fb%40c@host/dump", "sftp://me@host/dump", "a/b@c"),
        ("sftp://me:with@sign@host/dump", "sftp://me@host/dump", "with@sign"),
        ("ftp://:only@host/dump", "ftp://host/dump", "only"),
    ],
)
def test_a_password_is_taken_off_a_url(given: str, shown: str, password: str) -> None:
    assert urls.without_secrets(given) == shown
    assert urls.password_of(shown) == password
    assert password not in urls.masked(f"failed: {password}")


@pytest.mark.parametrize(
    "text", ["sftp://host:22/a@b", "s3://bucket/key@x:y", "/data/a:b@c", "1,2,3", "sftp://me@host/a", "dump"]
)
def test_other_texts_are_unchanged(text: str) -> None:
    assert urls.without_secrets(text) == text


def test_passwords_in_lists_are_taken_off() -> None:
    assert urls.without_secrets("sftp://a:x1y@h/1,sftp://b:x2y@h/2") == "sftp://a@h/1,sftp://b@h/2"


def test_a_password_with_a_slash_is_refused_without_being_shown() -> None:
    with pytest.raises(UsageError, match="percent-encoded") as error:
        urls.without_secrets("sftp://me:top/secret@host/dump")
    assert "top" not in str(error.value)


def test_queries_of_signed_urls_are_not_shown() -> None:
    shown = urls.without_secrets("https://host/net.om?Signature=abcdef")
    assert shown == "https://host/net.om"
    assert urls.query_of(shown) == "?Signature=abcdef"
    assert urls.query_of("https://host/other") == ""
