"""The protocol's declaration: generated files, types, fields unknown to us."""

import pytest

from proxy.wire.pulsar_pb2 import BaseCommand, CommandProducer, MessageMetadata, Schema
from tests.wire import regenerate
from tests.wire.builders import UNKNOWN_FIELD, metadata_of

VERSION_LINE = 4
"""Of a generated module: the line that names the version of protoc."""


def test_generated_files_are_what_protoc_makes_of_the_declaration() -> None:
    """The committed module and stub come from the committed pulsar.proto, by the command its head names.

    Another version of protoc words the files otherwise; what they declare is the same with every one.
    """
    committed = {name: (regenerate.ROOT / name).read_text() for name in (regenerate.MODULE, regenerate.STUB)}
    generated = regenerate.generate()
    assert descriptor(committed[regenerate.MODULE]) == descriptor(generated[regenerate.MODULE])
    versions = {files[regenerate.MODULE].splitlines()[VERSION_LINE] for files in (committed, generated)}
    if len(versions) == 1:
        assert committed == generated, "run python -m tests.wire.regenerate"


def descriptor(module: str) -> str:
    """The line of a generated module that holds the declaration, encoded."""
    (line,) = [line for line in module.splitlines() if line.startswith("DESCRIPTOR = ")]
    return line


def test_every_command_type_has_the_body_of_its_number() -> None:
    """A command's type is the field number of its body, so that one table-free rule finds it."""
    fields = BaseCommand.DESCRIPTOR.fields_by_number
    for name, number in BaseCommand.Type.items():
        assert number in fields, name
        assert fields[number].message_type is not None, name
    assert set(fields) == {1, *BaseCommand.Type.values()}


@pytest.mark.parametrize("number", BaseCommand.Type.values())
def test_fields_unknown_to_us_survive_in_every_command(number: int) -> None:
    """What a newer peer adds to a command or its body is still there after a parse and a serialization."""
    body = BaseCommand.DESCRIPTOR.fields_by_number[number]
    command = BaseCommand(type=number)  # type: ignore[arg-type]  # a number of that enum
    getattr(command, body.name).MergeFromString(UNKNOWN_FIELD)
    encoded = command.SerializePartialToString() + UNKNOWN_FIELD
    assert encoded.count(UNKNOWN_FIELD) == 2
    assert BaseCommand.FromString(encoded).SerializePartialToString() == encoded


def test_fields_unknown_to_us_survive_in_metadata() -> None:
    """What a newer producer adds to a message's metadata is still there after a copy."""
    encoded = metadata_of(partition_key=b"k").SerializeToString() + UNKNOWN_FIELD
    copy = MessageMetadata()
    copy.CopyFrom(MessageMetadata.FromString(encoded))
    assert copy.SerializeToString() == encoded


def test_keys_and_producer_names_may_be_any_bytes() -> None:
    """A key that is no UTF-8 is read as it was sent, since it is hashed and compared."""
    metadata = metadata_of(partition_key=b"\xff\xfe", producer_name=b"\xff")
    assert MessageMetadata.FromString(metadata.SerializeToString()) == metadata


def test_queue_priority_is_a_signed_field_of_its_own() -> None:
    """PIP-440's priority is field 14 of CommandProducer, absent by default; negative ones are whole."""
    assert CommandProducer.DESCRIPTOR.fields_by_name["queue_priority"].number == 14
    producer = CommandProducer(topic="t", producer_id=1, request_id=2)
    assert not producer.HasField("queue_priority")
    before = producer.ByteSize()
    producer.queue_priority = -5
    assert CommandProducer.FromString(producer.SerializeToString()).queue_priority == -5
    assert producer.ByteSize() == before + 11, "a plain int32, as CommandSubscribe.priority_level: ten bytes and a tag"


def test_schema_types_keep_their_numbers_under_our_names() -> None:
    """The two schema types we had to rename still are the protocol's 0 and 15."""
    assert (Schema.NoSchema, Schema.KeyValueSchema) == (0, 15)
