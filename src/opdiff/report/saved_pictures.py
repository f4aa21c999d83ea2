"""Pictures of tensors in saved comparisons: MessagePack, deflated."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import msgspec

from opdiff.core.pictures import TensorPicture

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_UNPACKED_NBYTES = 1 << 30


def pack_pictures(pictures: Sequence[TensorPicture]) -> bytes:
    """Return pictures as bytes; none for no pictures."""
    return zlib.compress(msgspec.msgpack.encode(pictures)) if pictures else b""


def unpack_pictures(packed: bytes) -> tuple[TensorPicture, ...]:
    """Return the pictures of `pack_pictures`.

    Raises:
        ValueError: the data is damaged.
    """
    if not packed:
        return ()
    try:
        decompressor = zlib.decompressobj()
        data = decompressor.decompress(packed, _MAX_UNPACKED_NBYTES)
        if not decompressor.eof:
            raise ValueError("its pictures are cut, or larger than 1 GiB")
        return msgspec.msgpack.decode(data, type=tuple[TensorPicture, ...])
    except (msgspec.DecodeError, zlib.error) as error:
        raise ValueError(f"its pictures are damaged: {error}") from error
