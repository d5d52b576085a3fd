"""The answer to a question that is asked again and again: decoded where it says something new."""

from __future__ import annotations

from typing import Any

from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey


class LastAnswer:
    """Of one question. Where the next answer is the same, byte for byte, it is not decoded: the
    response is the very object that was given before."""

    __slots__ = ("_encoded", "response")

    def __init__(self) -> None:
        self._encoded = b""
        self.response: Any = None
        """The last one; None before the first."""

    def decode(self, api: ApiKey, version: int, frame: memoryview, position: int) -> Any:
        """The response that the frame holds from `position` on. Raises PeerError."""
        # The version is part of what is compared: it says how the bytes are to be read.
        encoded = bytes((version,)) + frame[position:]
        if encoded != self._encoded:
            self.response = messages.decode_response(api, version, frame, position)
            self._encoded = encoded
        return self.response
