"""Encoder of nano dump files; it follows the format page, independently of the reader.

length of the head, head (packed structs), then the data of inputs and outputs
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from opdiff.core import dtypes
from opdiff.core.errors import ElementError
from opdiff.sample.container import layout_number, words

if TYPE_CHECKING:
    from opdiff.core.dtypes import DType
    from opdiff.sample.container import EncodedDump, EncodedTensor, OriginalTensor

_MAGIC = 0x5A5A5A5A
_NUMBERS = {dtype: number for number, dtype in dtypes.NANO_BY_NUMBER.items()}


def nano_dump(dump: EncodedDump, *, version: int = 1) -> bytes:
    """Encode a nano dump file. It has inputs and outputs only; other fields of `dump` are not used."""
    inputs = [_record(tensor, original=False) for tensor in dump.inputs]
    outputs = [_record(tensor, original=True) for tensor in dump.outputs]
    head = pack("<II", _MAGIC, version) + _section(4, inputs) + _section(5, outputs)
    payloads = (tensor.payload for tensor in dump.inputs + dump.outputs)
    return b"".join((pack("<Q", len(head)), head, *payloads))


def _section(tag: int, records: list[bytes]) -> bytes:
    return _tlv(tag, pack("<I", len(records)) + b"".join(records))


def _record(tensor: EncodedTensor, *, original: bool) -> bytes:
    address_type = offset = 0
    kind = pack("<iii", _type_number(tensor.dtype), layout_number(tensor.layout), address_type)
    source = _original(tensor.original) if original else b""
    where = pack("<QQQ", tensor.address, offset, len(tensor.payload))
    tlvs = b"" if tensor.shape is None else _tlv(0, words(tensor.shape))
    tlvs += _tlv(1, words(tensor.origin_shape)) if tensor.origin_shape else b""
    tlvs += _tlv(2, tensor.original.op.encode()) if original and tensor.original else b""
    return kind + source + where + pack("<I", len(tlvs)) + tlvs


def _original(original: OriginalTensor | None) -> bytes:
    if original is None:
        return bytes(12)
    return pack("<iii", original.index, _type_number(original.dtype), layout_number(original.layout))


def _type_number(dtype: DType | int) -> int:
    if isinstance(dtype, int):
        return dtype
    if dtype not in _NUMBERS:
        raise ElementError(dtype.name, "has no number in nano dumps")
    return _NUMBERS[dtype]


def _tlv(tag: int, value: bytes) -> bytes:
    return pack("<II", tag, len(value)) + value
