"""Failures that may pass are repeated with growing delays; others are not."""

from __future__ import annotations

import errno
import time

import pytest

from opdiff.core.remote.retries import RetryPolicy, with_retries


class Request:
    """A request that fails with some errors first."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts = self.failures = 0

    def __call__(self) -> str:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def on_failure(self) -> None:
        self.failures += 1

    def run(self, attempts: int = 4) -> str:
        return with_retries(self, self.on_failure, "sftp://host/x", RetryPolicy(attempts, 0.5))


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def test_a_request_is_repeated_with_growing_delays(delays: list[float]) -> None:
    request = Request(ConnectionResetError(errno.ECONNRESET, "reset"), TimeoutError("slow"), EOFError())
    assert request.run() == "done"
    assert (request.attempts, request.failures) == (4, 3)
    assert delays == [0.5, 1.0, 2.0]


def test_the_last_failure_is_the_reason() -> None:
    request = Request(*(ConnectionResetError(errno.ECONNRESET, "reset by peer") for _ in range(9)))
    with pytest.raises(OSError, match="reset by peer") as error:
        request.run()
    assert (error.value.strerror, error.value.filename) == ("reset by peer (4 attempts)", "sftp://host/x")
    assert request.attempts == 4


@pytest.mark.parametrize("error", [FileNotFoundError("x"), PermissionError("x"), IsADirectoryError("x")])
def test_permanent_failures_are_not_repeated(error: OSError) -> None:
    request = Request(error)
    with pytest.raises(type(error)) as found:
        request.run()
    assert request.attempts == 1
    assert found.value.strerror


def test_defects_are_not_hidden() -> None:
    with pytest.raises(KeyError):
        Request(KeyError("name")).run()
