"""What a hostile target is: valid inputs, a reader, and the errors that it may raise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Target(NamedTuple):
    """One reader of foreign bytes."""

    name: str
    corpus: Callable[[], Sequence[bytes]]
    """Returns valid inputs."""
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    """What `read` may raise. Anything else is a finding."""
    share: int = 10
    """Of the inputs of a run, in parts of the sum over all targets."""


def joined(key: bytes, value: bytes) -> bytes:
    """Return a record as one input: key size (uint16), key, value."""
    return len(key).to_bytes(2, "big") + key + value


def split(pair: bytes) -> tuple[bytes, bytes]:
    """Return key and value of an input."""
    size = int.from_bytes(pair[:2], "big")
    return pair[2 : 2 + size], pair[2 + size :]
