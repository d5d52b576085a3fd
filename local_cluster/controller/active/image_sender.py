"""SHELL: brings one other broker to the newest image, over the inter-broker listener.

There is no queue. A task sends the difference from the image that the broker acknowledged last to
the newest one, so a slow broker skips the images between. After any failure it sends a full image.

A connection that ends is opened again at once. If a broker that was reached refuses it, its process
is gone though its session lives: the controller is informed, and again when the broker is back.

A broker that refuses an image may name the lowest controller epoch that it accepts: the controller
is informed as well.

Guarantee: at most one request to the broker is in flight.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
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


class DeltaConnection(Protocol):
    """A connection to one broker that takes deltas. Its methods raise KafkaError."""

    @property
    def is_closed(self) -> bool: ...

    async def push(self, delta: ClusterDelta) -> Reply:
        """Return the broker's response. Raises ValueError if it is unreadable."""
        ...

    def abort(self) -> None: ...

    def when_closed(self, callback: Callable[[], None]) -> None: ...


OpenConnection = Callable[[BrokerEndpoints, str], Awaitable[DeltaConnection]]
"""Connect to a broker's listener. Raises KafkaError; RefusedError if nobody listens there."""


class ImageSender:
    """The task that informs one broker, under one registration of it."""

    def __init__(
        self,
        broker: BrokerEndpoints,
        listener: str,
        open_connection: OpenConnection,
        *,
        progressed: Callable[[ImageSender, tuple[ClusterImage, ReplicaReport] | None], None],
        reachable_changed: Callable[[ImageSender, bool], None],
        epoch_required: Callable[[int], None],
    ) -> None:
        """`progressed` gets the image that the broker applied and its report; None on failure."""
        self.broker = broker
        self._listener = listener
        self._open_connection = open_connection
        self._progressed = progressed
        self._reachable_changed = reachable_changed
        self._epoch_required = epoch_required
        self._newest: ClusterImage | None = None
        self._acknowledged: ClusterImage | None = None
        self._offered = asyncio.Event()
        self._connection: DeltaConnection | None = None
        self._is_failing = False
        self.was_reached = False
        """Whether it was reached under this registration: a starting broker registers before it
        listens."""
        self._is_refusing = False
        self.task = asyncio.create_task(self._run(), name=f"publish to broker {broker.id}")

    def offer(self, image: ClusterImage) -> None:
        """Make this the newest image."""
        self._newest = image
        self._offered.set()

    def cancel(self) -> None:
        """Stop sending."""
        self.task.cancel()

    def is_behind(self, sequence: int) -> bool:
        """Return whether the broker may still apply this image soon; not if it is unreachable."""
        acknowledged = self._acknowledged
        return not self._is_failing and (acknowledged is None or acknowledged.sequence < sequence)

    async def _run(self) -> None:
        try:
            while True:
                await self._offered.wait()
                self._offered.clear()
                async for attempt in AsyncRetrying(
                    # Any exception: if this task ended, the broker would never be informed again.
                    retry=retry_if_exception_type(Exception),
                    wait=wait_random_exponential(
                        multiplier=RETRY_DELAY_MS_MIN / 1000, max=RETRY_DELAY_MS_MAX / 1000
                    ),
                    before_sleep=self._failed,
                ):
                    with attempt:
                        await self._bring_up_to_date()
        finally:
            if self._connection is not None:
                self._connection.abort()

    async def _bring_up_to_date(self) -> None:
        connection = await self._open()
        while self._newest is not None and self._newest is not self._acknowledged:
            image = self._newest
            delta = difference(self._acknowledged, image, self.broker.broker_epoch)
            reply = await connection.push(delta)
            if reply.error_code != ErrorCode.none:
                self._epoch_required(reply.epoch_min)
                raise KafkaError(reply.error_code, reply.message)
            self._acknowledged = image
            self._is_failing = False
            self.was_reached = True
            if self._is_refusing:
                self._is_refusing = False
                self._reachable_changed(self, True)
            self._progressed(self, (image, reply.report))

    async def _open(self) -> DeltaConnection:
        if self._connection is None or self._connection.is_closed:
            # The broker may have restarted: the image that it has is unknown.
            self._acknowledged = None
            self._connection = await self._open_connection(self.broker, self._listener)
            self._connection.when_closed(self._offered.set)
        return self._connection

    def _failed(self, call: RetryCallState) -> None:
        error = call.outcome.exception() if call.outcome is not None else None
        if not self._is_failing:
            is_expected = isinstance(error, KafkaError | ValueError)
            log.warning(
                "cannot send the image to broker %d yet: %s",
                self.broker.id,
                error,
                exc_info=None if is_expected else error,
            )
        self._is_failing = True
        if isinstance(error, RefusedError) and self.was_reached and not self._is_refusing:
            self._is_refusing = True
            self._reachable_changed(self, False)
        # The image that the broker has is unknown: only a full image is safe.
        self._acknowledged = None
        if self._connection is not None:
            self._connection.abort()
        self._progressed(self, None)
