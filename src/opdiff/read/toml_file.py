"""TOML files of the user: manual pairs, shards, tables of ranks."""

from __future__ import annotations

import tomllib

from opdiff.core.errors import InputError
from opdiff.core.filesystem import read_input
from opdiff.core.reasons import because

_MAX_NBYTES = 64 << 20


def read_toml(path: str) -> dict[str, object]:
    """Return the content of a TOML file.

    Raises:
        InputError: it cannot be read, or is not TOML.
    """
    try:
        return tomllib.loads(read_input(path, _MAX_NBYTES).decode())
    except OSError as error:
        raise InputError(path, because("core.cannot_read", error=error.strerror)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(path, because("rules.not_toml", error=str(error))) from error
