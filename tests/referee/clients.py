"""What all outside clients here have in common: librdkafka's settings and threads that end."""

from __future__ import annotations

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

END_SECONDS_MAX: Final = 150.0
"""How long a client may take to settle what it has in flight, once the faults are over."""

LIBRDKAFKA: Final[Mapping[str, Any]] = {
    "log_level": 0,
    # Otherwise it may wait for ever once all brokers of a cluster were down.
    "metadata.recovery.strategy": "none",
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 3_000,
}


class Client(threading.Thread, ABC):
    """A client in a thread of its own; it works until it is told to stop."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self._failure: str | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException:  # noqa: BLE001 - told by `join_well`
            self._failure = traceback.format_exc()

    @abstractmethod
    def work(self) -> None:
        """Work until `stopping` is set."""

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end."""
        self.stopping.wait(seconds)

    def join_well(self) -> None:
        """Wait for the end. Raises RuntimeError where the client failed or hangs."""
        self.join(END_SECONDS_MAX)
        if self.is_alive():
            raise RuntimeError(f"client {self.name} did not end within {END_SECONDS_MAX:.0f} s")
        if self._failure is not None:
            raise RuntimeError(f"client {self.name} failed:\n{self._failure}")
