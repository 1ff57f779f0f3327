"""From text to the parts of a frame, for both directions."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from nostr_client.errors import InvalidInput, MalformedMessage, clip

_decode_parts: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_any: Final = msgspec.json.Decoder().decode

_HEAD: Final = re.compile(r'\s*\[\s*"([A-Z-]{1,12})"\s*,\s*"([^"\\]{1,64})"')
_HEAD_SIZE: Final = 200
"""Characters of a frame in which its label and its id stand: the longest of both, and spaces."""


class Frame:
    """A JSON array whose first element is a label; the others are decoded when asked for.

    Every reader raises MalformedMessage, which names the label and, once `reference` has read
    it, the subscription or event id that the frame is about.
    """

    __slots__ = ("_parts", "label", "ref")

    def __init__(self, raw: bytes) -> None:
        self.label = self.ref = ""
        try:
            self._parts = _decode_parts(raw)
            self.label = _decode_text(self._parts[0])
        except (ValueError, IndexError, RecursionError) as error:
            what = f"not a JSON array with a label: {clip(str(error))}"
            raise _headed(what, raw) from error

    def __len__(self) -> int:
        return len(self._parts)

    def malformed(self, what: str) -> MalformedMessage:
        """The error to raise for this frame."""
        return MalformedMessage(what, label=self.label, ref=self.ref)

    def raw(self, index: int) -> bytes:
        """JSON text of one element."""
        if index >= len(self._parts):
            raise self.malformed(f"{clip(self.label, 20)}: element {index} is missing")
        return bytes(self._parts[index])

    def value(self, index: int) -> object:
        """One element, decoded."""
        try:
            return _decode_any(self.raw(index))
        except (ValueError, RecursionError) as error:
            raise self.malformed(f"{clip(self.label, 20)}: {clip(str(error))}") from error

    def text(self, index: int) -> str:
        """One element that must be a string."""
        value = self.value(index)
        if not isinstance(value, str):
            raise self.malformed(f"{clip(self.label, 20)}: element {index} is not text")
        return value

    def reference(self, index: int = 1) -> str:
        """The subscription, query or event id of the frame: text, remembered for errors."""
        self.ref = self.text(index)
        return self.ref

    def optional_text(self, index: int) -> str:
        """As `text`, but "" where the element is left out or null, as older relays do."""
        if index >= len(self._parts) or self.value(index) is None:
            return ""
        return self.text(index)

    def hex_bytes(self, index: int) -> bytes:
        """One element that must be hex, of either case, without spaces."""
        text = self.text(index)
        try:
            data = bytes.fromhex(text)
        except ValueError as error:
            raise self.malformed(f"{self.label}: element {index} is not hex") from error
        if 2 * len(data) != len(text):  # fromhex lets spaces pass
            raise self.malformed(f"{self.label}: element {index} is not hex")
        return data

    def wrap(self, error: InvalidInput) -> MalformedMessage:
        """The error to raise `from` the one of an event or filter inside this frame."""
        return self.malformed(f"{clip(self.label, 20)}: {error}")


def to_bytes(frame: str | bytes, max_size: int) -> bytes:
    """UTF-8 of a frame of at most `max_size` bytes. Raises MalformedMessage."""
    if isinstance(frame, str):
        if len(frame) > max_size:
            raise _too_large(max_size, frame)
        try:
            frame = frame.encode()
        except UnicodeEncodeError as error:
            raise _headed("lone surrogates in a frame", frame) from error
    if len(frame) > max_size:
        raise _too_large(max_size, frame)
    return frame


def _too_large(max_size: int, frame: str | bytes) -> MalformedMessage:
    return _headed(f"a frame of more than {max_size} bytes", frame)


def _headed(what: str, frame: str | bytes) -> MalformedMessage:
    """The error for a frame that JSON cannot read, with label and id where its head shows them.

    The request must learn that one of the events that were sent for the request is lost.
    """
    head = frame[:_HEAD_SIZE]
    text = head if isinstance(head, str) else head.decode(errors="replace")
    found = _HEAD.match(text)
    label, ref = found.groups() if found else ("", "")
    return MalformedMessage(what, label=label, ref=ref)
