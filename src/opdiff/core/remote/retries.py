"""Repetition of requests that failed for a reason that may pass."""

from __future__ import annotations

import errno
import os
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from opdiff.core.remote.urls import masked

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

# Base classes of the errors that libraries raise besides OSError, by module.
_LIBRARY_ERRORS = (
    ("paramiko", "SSHException"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("aiohttp", "ClientError"),
)
# Errors that another attempt does not change, by name: their modules may not be installed.
_PERMANENT = frozenset(
    {
        "FileNotFoundError", "PermissionError", "IsADirectoryError", "NotADirectoryError",
        "AuthenticationException", "PasswordRequiredException", "BadHostKeyException", "UnknownHostKey", "gaierror",
        "RedirectError", "NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "ParamValidationError",
    }
)  # fmt: skip

_NUMBERS = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
}


class RemoteError(OSError):
    """A request that failed for good; `strerror` has no passwords."""


class RedirectError(OSError):
    """A server redirected a request to another host."""


class RetryPolicy(Struct, frozen=True):
    """Number of attempts, and the delay after the first one; each further delay is twice as long."""

    attempts: int = 6
    first_delay_s: float = 0.2

    def delay_s(self, attempt: int) -> float:
        """Return the delay after an attempt, counted from 0."""
        return self.first_delay_s * float(1 << attempt)


def expected_errors() -> tuple[type[Exception], ...]:
    """Return the errors of requests: those of the operating system, and of the libraries that are loaded."""
    found: list[type[Exception]] = [OSError, EOFError]
    for module, name in _LIBRARY_ERRORS:
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    return tuple(found)


def is_permanent(error: Exception) -> bool:
    """Return whether another attempt would fail, too."""
    return any(base.__name__ in _PERMANENT for base in type(error).__mro__)


def to_os_error(error: Exception, url: str, attempts: int) -> OSError:
    """Return an error as one of the operating system, whose text can be shown."""
    number = next((number for kind, number in _NUMBERS.items() if isinstance(error, kind)), None)
    if number is not None:
        return OSError(number, os.strerror(number), url)
    text = " ".join(masked(str(getattr(error, "strerror", None) or error) or type(error).__name__).split())
    return RemoteError(getattr(error, "errno", None), f"{text} ({attempts} attempts)" if attempts > 1 else text, url)


def with_retries(
    request: Callable[[], Result], on_failure: Callable[[], None], url: str, policy: RetryPolicy
) -> Result:
    """Return the result of a request, which is repeated if it fails.

    Args:
        request: the request.
        on_failure: called after each failed attempt, such as to close the connection.
        url: the file, for the error.
        policy: number of attempts and delays.

    Raises:
        OSError: the last attempt failed, or repeating is of no use.
    """
    attempt = 0
    while True:
        try:
            return request()
        except expected_errors() as failure:
            error = _refused_redirect(failure) or failure
            attempt += 1
            if is_permanent(error):
                raise to_os_error(error, url, attempt) from error
            on_failure()
            if attempt >= policy.attempts:
                raise to_os_error(error, url, attempt) from error
        time.sleep(policy.delay_s(attempt - 1))


def _refused_redirect(error: BaseException) -> RedirectError | None:
    """Return the refused redirect behind an error, which fsspec may report as a missing file."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, RedirectError):
        found = found.__cause__
    return found
