"""What SASL asks of a GSSAPI security context (RFC 2743), on either side. Pure."""

from __future__ import annotations

from typing import Final, Protocol

NO_CENTRE: Final = frozenset({2529639068, 2529639132})
"""Minor statuses KRB5_KDC_UNREACH and KRB5_REALM_CANT_RESOLVE."""


class GssError(Exception):
    """The library refuses, with its own words. They name principals and files, never a key."""

    def __init__(self, text: str, minor: int = 0) -> None:
        super().__init__(text)
        self.is_without_centre = minor in NO_CENTRE
        """Whether no key distribution centre answers: the same may succeed later."""


class SecurityContext(Protocol):
    """One context: established by tokens, then it signs and checks messages.

    Its methods may block, and one is called at a time. Each raises GssError.
    """

    @property
    def is_complete(self) -> bool:
        """Whether both sides have what they need."""
        ...

    @property
    def peer(self) -> str:
        """The other side's principal, such as alice@EXAMPLE.COM; for a complete context."""
        ...

    def step(self, token: bytes) -> bytes:
        """Take the other side's token, and return the next one; empty if there is none."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """Sign a message. It is not encrypted."""
        ...

    def unwrap(self, message: bytes) -> bytes:
        """Return the message that the other side has signed."""
        ...
