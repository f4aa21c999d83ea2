"""Message classes of Google's protobuf, made at run time from field tables: oracles independent of our readers.

A table has the fields of each message as `number name type`, with `*` after the type of a repeated field and `=group`
for fields of which only one is set. Enums are open in proto3, and on the wire they are plain varints: int32 shows
every number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIELD = descriptor_pb2.FieldDescriptorProto


def message_class(package: str, messages: Mapping[str, Sequence[str]], name: str) -> Any:
    """Return the class of one of the messages."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for title, lines in messages.items():
        message = file.message_type.add(name=title)
        for line in lines:
            _add_field(message, line, {kind: f".{package}.{kind}" for kind in messages})
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def _add_field(message: descriptor_pb2.DescriptorProto, line: str, known: Mapping[str, str]) -> None:
    number, name, kind = line.split()
    kind, _, group = kind.partition("=")
    field = message.field.add(name=name, number=int(number))
    field.label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
    kind = kind.removesuffix("*")
    if group:
        if not message.oneof_decl:
            message.oneof_decl.add(name=group)
        field.oneof_index = 0
    if kind in known:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, known[kind]
    else:
        field.type = getattr(_FIELD, f"TYPE_{kind.upper()}")
