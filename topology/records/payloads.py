"""Keys, values and headers as text, and text as bytes. Pure.

    text     UTF-8; other bytes show as \\xff
    hex      hexadecimal digits
    base64   RFC 4648

Only `hex` and `base64` keep every byte. A null key or value stays null.
"""

from __future__ import annotations

import base64
import binascii
import enum


class Encoding(enum.StrEnum):
    """How bytes are written as text."""

    text = "text"
    hex = "hex"
    base64 = "base64"


def encode(payload: bytes | None, encoding: Encoding) -> str | None:
    """Return bytes as text; None for null."""
    if payload is None:
        return None
    if encoding is Encoding.hex:
        return payload.hex()
    if encoding is Encoding.base64:
        return base64.b64encode(payload).decode()
    return payload.decode(errors="backslashreplace")


def decode(text: str, encoding: Encoding) -> bytes:
    """Return the bytes that a text stands for. Raises ValueError."""
    if encoding is Encoding.text:
        return text.encode()
    try:
        if encoding is Encoding.hex:
            return bytes.fromhex(text)
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"{text[:40]!r} is not {encoding.value}") from error
