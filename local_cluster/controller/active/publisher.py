"""SHELL: brings every broker to the newest image, over the inter-broker listener.

There are no queues: each broker has a task that sends the difference from the image it last
acknowledged to the newest one, so a slow broker skips what lies between, and after any trouble it
gets a full image. This broker itself is told directly, and again while it has not taken over what
it was told: what ails it keeps nothing from the others.

A broker that refuses an image may say from which epoch on it takes one: the controller is told.

A line that ends is opened again at once. Where a broker that was reached refuses that, its process
is gone though its session is not: the controller is told, and again when the broker is back.

Guarantees: an image is acknowledged only after the broker's own listeners have acted on it; at
most one call per broker is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_random_exponential,
)

from local_cluster.client.connection import RefusedError
from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterDelta,
    ClusterImage,
    ReplicaReport,
    difference,
)
from local_cluster.controller.model.delta_json import Reply
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

RETRY_DELAY_MS_MIN: Final = 20
RETRY_DELAY_MS_MAX: Final = 1_000
HERE_AGAIN_MS: Final = 1_000
"""Until this broker is told again what it has not taken over."""

Acknowledged = Callable[[int, ClusterImage, ReplicaReport], None]
"""Called with (broker id, image, report) when a broker has taken over an image."""
Answering = Callable[[BrokerEndpoints, bool], None]
"""Called when nobody listens any more where a broker was reached (False), or again (True)."""

EpochWanted = Callable[[int], None]
"""Called with the lowest epoch of which a broker that refused an image takes one over."""


class Line(Protocol):
    """A way to one broker. Its methods raise KafkaError."""

    @property
    def is_closed(self) -> bool: ...

    async def push(self, delta: ClusterDelta) -> Reply:
        """The broker's answer. Raises ValueError where it is no answer."""
        ...

    def abort(self) -> None: ...

    def when_closed(self, callback: Callable[[], None]) -> None: ...


OpenLine = Callable[[BrokerEndpoints, str], Awaitable[Line]]
"""Connect to a broker's listener. Raises KafkaError; RefusedError where nobody listens."""


class Publisher:
    """Tells the brokers of one term."""

    def __init__(
        self,
        *,
        broker_id: int,
        listener: str,
        apply_here: Callable[[ClusterImage], ReplicaReport | None],
        acknowledged: Acknowledged,
        answering: Answering,
        epoch_wanted: EpochWanted,
        open_line: OpenLine,
        known: Mapping[int, BrokerEndpoints] = MappingProxyType({}),
    ) -> None:
        """`apply_here` has this broker take over an image: its report, or None where it did not.
        `known` are brokers that a controller before this one has reached, in those runs."""
        self._known = known
        self._broker_id = broker_id
        self._listener = listener
        self._apply_here = apply_here
        self._acknowledged = acknowledged
        self._answering = answering
        self._epoch_wanted = epoch_wanted
        self._open_line = open_line
        self._followers: dict[int, _Follower] = {}
        self._progress = asyncio.Event()
        self._is_closed = False
        self._here_again: asyncio.TimerHandle | None = None

    def publish(self, image: ClusterImage) -> None:
        """Make this the newest image: this broker has heard of it on return, the others soon.
        After `close`, do nothing: requests of a term that is over may still be under way."""
        if self._is_closed:
            return
        for broker_id in [b for b in self._followers if b not in image.brokers]:
            self._followers.pop(broker_id).cancel()
        for broker_id, broker in image.brokers.items():
            if broker_id == self._broker_id:
                continue
            follower = self._followers.get(broker_id)
            if follower is not None and follower.broker != broker:
                follower.cancel()
                follower = None
            if follower is None:
                follower = _Follower(
                    broker,
                    self._listener,
                    self._open_line,
                    self._note,
                    self._note_answering,
                    self._epoch_wanted,
                )
                follower.was_reached = self._known.get(broker_id) == broker
                self._followers[broker_id] = follower
            follower.offer(image)
        self._tell_here(image)
        self._wake()

    async def wait_acknowledged(self, sequence: int, timeout_ms: int) -> bool:
        """Whether all brokers that can be reached have taken over that image in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while any(f.is_behind(sequence) for f in self._followers.values()):
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Stop telling anybody, for good."""
        self._is_closed = True
        if self._here_again is not None:
            self._here_again.cancel()
        followers = list(self._followers.values())
        self._followers.clear()
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*(f.task for f in followers), return_exceptions=True)
        self._wake()

    def _tell_here(self, image: ClusterImage) -> None:
        if self._here_again is not None:
            self._here_again.cancel()
            self._here_again = None
        report = self._apply_here(image)
        if report is None:
            loop = asyncio.get_running_loop()
            self._here_again = loop.call_later(HERE_AGAIN_MS / 1000, self._tell_here, image)
        elif self._broker_id in image.brokers:
            self._acknowledged(self._broker_id, image, report)

    def _note(self, follower: _Follower, done: tuple[ClusterImage, ReplicaReport] | None) -> None:
        if done is not None and self._followers.get(follower.broker.id) is follower:
            self._acknowledged(follower.broker.id, *done)
        self._wake()

    def _note_answering(self, follower: _Follower, answers: bool) -> None:
        if self._followers.get(follower.broker.id) is follower:
            self._answering(follower.broker, answers)

    def _wake(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()


class _Follower:
    """One other broker's way to the newest image."""

    def __init__(
        self,
        broker: BrokerEndpoints,
        listener: str,
        open_line: OpenLine,
        note: Callable[[_Follower, tuple[ClusterImage, ReplicaReport] | None], None],
        note_answering: Callable[[_Follower, bool], None],
        epoch_wanted: EpochWanted,
    ) -> None:
        self.broker = broker
        self._listener = listener
        self._open_line = open_line
        self._note = note
        self._note_answering = note_answering
        self._epoch_wanted = epoch_wanted
        self._newest: ClusterImage | None = None
        self._acknowledged: ClusterImage | None = None
        self._offered = asyncio.Event()
        self._line: Line | None = None
        self._failing = False
        self.was_reached = False
        """In this run: one that is starting registers before it listens."""
        self._refuses = False
        self.task = asyncio.create_task(self._run(), name=f"publish to broker {broker.id}")

    def offer(self, image: ClusterImage) -> None:
        self._newest = image
        self._offered.set()

    def cancel(self) -> None:
        self.task.cancel()

    def is_behind(self, sequence: int) -> bool:
        """Whether the image is still on its way; a broker out of reach is not waited for."""
        acknowledged = self._acknowledged
        return not self._failing and (acknowledged is None or acknowledged.sequence < sequence)

    async def _run(self) -> None:
        try:
            while True:
                await self._offered.wait()
                self._offered.clear()
                async for attempt in AsyncRetrying(
                    # Whatever it is: a broker that is told nothing any more would be dead wood.
                    retry=retry_if_exception_type(Exception),
                    wait=wait_random_exponential(
                        multiplier=RETRY_DELAY_MS_MIN / 1000, max=RETRY_DELAY_MS_MAX / 1000
                    ),
                    before_sleep=self._failed,
                ):
                    with attempt:
                        await self._bring_up_to_date()
        finally:
            if self._line is not None:
                self._line.abort()

    async def _bring_up_to_date(self) -> None:
        line = await self._open()
        while self._newest is not None and self._newest is not self._acknowledged:
            image = self._newest
            delta = difference(self._acknowledged, image, self.broker.broker_epoch)
            reply = await line.push(delta)
            if reply.error_code != ErrorCode.none:
                self._epoch_wanted(reply.epoch_min)
                raise KafkaError(reply.error_code, reply.message)
            self._acknowledged = image
            self._failing = False
            self.was_reached = True
            if self._refuses:
                self._refuses = False
                self._note_answering(self, True)
            self._note(self, (image, reply.report))

    async def _open(self) -> Line:
        if self._line is None or self._line.is_closed:
            # What the broker took over before is unknown: it may have been restarted.
            self._acknowledged = None
            self._line = await self._open_line(self.broker, self._listener)
            self._line.when_closed(self._offered.set)
        return self._line

    def _failed(self, call: RetryCallState) -> None:
        error = call.outcome.exception() if call.outcome is not None else None
        if not self._failing:
            is_foreseen = isinstance(error, KafkaError | ValueError)
            log.warning(
                "broker %d is not told yet: %s",
                self.broker.id,
                error,
                exc_info=None if is_foreseen else error,
            )
        self._failing = True
        if isinstance(error, RefusedError) and self.was_reached and not self._refuses:
            self._refuses = True
            self._note_answering(self, False)
        # Whatever the broker has now, only a full image surely continues it.
        self._acknowledged = None
        if self._line is not None:
            self._line.abort()
        self._note(self, None)
