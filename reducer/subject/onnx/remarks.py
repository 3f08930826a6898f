"""What no operator reads: remarks in any message of a model, wherever it stands."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message

REMARKS = frozenset(
    (
        *("doc_string", "metadata_props", "producer_name", "producer_version", "model_version"),
        *("denotation", "device_configurations", "configuration", "training_info", "quantization_annotation"),
    )
)
"""Fields that no operator reads, in whatever message they are."""


def messages(message: Message) -> Iterator[Message]:
    """Yield a message and all in it, those of raw data and numbers left out."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from messages(inner)


def clear_remarks(message: Message) -> None:
    """Take the remarks out of a message and of all in it, in place."""
    for each in messages(message):
        for name in REMARKS & set(each.DESCRIPTOR.fields_by_name):
            each.ClearField(name)
