"""The memory that requests of one broker may take (queued.max.request.bytes, KIP-72). Pure.

As Kafka's SimpleMemoryPool:

- A request is counted with its announced size, before its buffer is allocated.
- It is let in while any memory is left, also if it is larger than that. So no size starves, and
  requests exceed the limit by less than one of them.
- Above the limit, connections wait, and are not read. Kafka shuffles those that wait. Here the
  client addresses take turns, and the connections of one address wait in order: an address with
  many connections delays its own.

Frames that one read completes are handled at once, and are not counted. Small ones never wait
(frame.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

UNLIMITED: Final = -1
_NO_LIMIT_BYTES: Final = 1 << 62
DEFAULT_BYTES_MAX: Final = 512 * 1024 * 1024
"""Half of the heap that Kafka's start script gives a broker; Kafka itself has no limit here."""

Granted = Callable[[], None]
"""The memory that a connection waited for is counted as its own now."""


class RequestMemory:
    """What is left of the limit, and who waits. Call everything on one loop."""

    __slots__ = (
        "_capacity",
        "_clock_ns",
        "_depleted_ns",
        "_on_wait",
        "_since_ns",
        "_waiting",
        "available",
        "bytes_max",
    )

    def __init__(self, bytes_max: int, clock_ns: Callable[[], int]) -> None:
        """`bytes_max` below 1 is no limit. `clock_ns` is monotonic."""
        self.bytes_max: Final = bytes_max if bytes_max > 0 else UNLIMITED
        self.available = self._capacity = bytes_max if bytes_max > 0 else _NO_LIMIT_BYTES
        """Bytes; below 0 when the last request was larger than what was left."""
        self._clock_ns = clock_ns
        self._waiting: OrderedDict[str, OrderedDict[int, tuple[int, Granted]]] = OrderedDict()
        """Size and callback by connection, by client address; the next address is first."""
        self._depleted_ns = 0
        self._since_ns = 0
        """When the memory ran out for somebody; 0 while nobody waits."""
        self._on_wait: Granted | None = None

    @property
    def used(self) -> int:
        """The bytes that are counted now."""
        return self._capacity - self.available

    @property
    def waiting(self) -> int:
        """The connections that wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def depleted_ns(self) -> int:
        """How long requests have had to wait for memory, in total."""
        now_ns = self._clock_ns() - self._since_ns if self._since_ns else 0
        return self._depleted_ns + now_ns

    def on_wait(self, callback: Granted) -> None:
        """Call back when somebody begins to wait and nobody did."""
        self._on_wait = callback

    def take(self, size: int) -> bool:
        """Count a request if memory is left. Return False if it has to `wait`."""
        if self.available <= 0:
            return False
        self.available -= size
        return True

    def take_anyway(self, size: int) -> None:
        """Count bytes that are in memory already."""
        self.available -= size

    def wait(self, address: str, connection: int, size: int, granted: Granted) -> None:
        """Call `granted` when `size` bytes are counted; `give` them back then, in any case."""
        if self.available > 0:
            self.available -= size
            granted()
            return
        begins = not self._waiting
        self._waiting.setdefault(address, OrderedDict())[connection] = (size, granted)
        if begins:
            self._since_ns = self._clock_ns()
            if self._on_wait is not None:
                self._on_wait()

    def leave(self, address: str, connection: int) -> None:
        """Wait no more: the connection is closed."""
        queue = self._waiting.get(address)
        if queue is not None and queue.pop(connection, None) is not None and not queue:
            del self._waiting[address]
            self._note_end()

    def give(self, size: int) -> None:
        """Count bytes no more, and let in who waits."""
        self.available += size
        while self._waiting and self.available > 0:
            address, queue = self._waiting.popitem(last=False)
            _, (wanted, granted) = queue.popitem(last=False)
            self.available -= wanted
            if queue:
                self._waiting[address] = queue
            else:
                self._note_end()
            granted()

    def _note_end(self) -> None:
        if not self._waiting and self._since_ns:
            self._depleted_ns += self._clock_ns() - self._since_ns
            self._since_ns = 0
