"""SHELL: brings every broker to the newest image, over the inter-broker listener.

There are no queues: each broker has a task that sends the difference from the image it last
acknowledged to the newest one, so a slow broker skips what lies between, and after any trouble it
gets a full image. This broker itself is told directly.

Guarantees: an image is acknowledged only after the broker's own listeners have acted on it; at
most one call per broker is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_random_exponential,
)

from local_cluster.client.connection import Connection, connect
from local_cluster.controller.delta_json import decode_reply, encode_delta
from local_cluster.controller.model import (
    BrokerEndpoints,
    ClusterImage,
    difference,
)
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_MS: Final = 5_000
PUSH_TIMEOUT_MS: Final = 30_000
"""A broker may have to open many logs before it answers."""
RETRY_DELAY_MS_MIN: Final = 20
RETRY_DELAY_MS_MAX: Final = 1_000
CLIENT_ID: Final = "heliograph-controller"

Acknowledged = Callable[[int, ClusterImage], None]
"""Called with (broker id, image) when a broker has taken over an image."""


class Publisher:
    """Tells the brokers of one term."""

    def __init__(
        self,
        *,
        broker_id: int,
        listener: str,
        apply_here: Callable[[ClusterImage], None],
        acknowledged: Acknowledged,
    ) -> None:
        self._broker_id = broker_id
        self._listener = listener
        self._apply_here = apply_here
        self._acknowledged = acknowledged
        self._followers: dict[int, _Follower] = {}
        self._progress = asyncio.Event()

    def publish(self, image: ClusterImage) -> None:
        """Make this the newest image: this broker has it on return, the others soon."""
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
                follower = _Follower(broker, self._listener, self._note)
                self._followers[broker_id] = follower
            follower.offer(image)
        self._apply_here(image)
        if self._broker_id in image.brokers:
            self._acknowledged(self._broker_id, image)
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
        """Stop telling anybody."""
        followers = list(self._followers.values())
        self._followers.clear()
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*(f.task for f in followers), return_exceptions=True)
        self._wake()

    def _note(self, follower: _Follower, image: ClusterImage | None) -> None:
        if image is not None and self._followers.get(follower.broker.id) is follower:
            self._acknowledged(follower.broker.id, image)
        self._wake()

    def _wake(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()


class _Follower:
    """One other broker's way to the newest image."""

    def __init__(
        self,
        broker: BrokerEndpoints,
        listener: str,
        note: Callable[[_Follower, ClusterImage | None], None],
    ) -> None:
        self.broker = broker
        self._listener = listener
        self._note = note
        self._newest: ClusterImage | None = None
        self._acknowledged: ClusterImage | None = None
        self._offered = asyncio.Event()
        self._connection: Connection | None = None
        self._failing = False
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
                    retry=retry_if_exception_type((KafkaError, TimeoutError, ValueError)),
                    wait=wait_random_exponential(
                        multiplier=RETRY_DELAY_MS_MIN / 1000, max=RETRY_DELAY_MS_MAX / 1000
                    ),
                    before_sleep=self._failed,
                ):
                    with attempt:
                        await self._bring_up_to_date()
        finally:
            if self._connection is not None:
                self._connection.abort("publishing ended")

    async def _bring_up_to_date(self) -> None:
        connection = await self._connected()
        while self._newest is not None and self._newest is not self._acknowledged:
            image = self._newest
            delta = difference(self._acknowledged, image, self.broker.broker_epoch)
            async with asyncio.timeout(PUSH_TIMEOUT_MS / 1000):
                frame, position = await connection.send(
                    ApiKey.CLUSTER_DELTA, 0, (encode_delta(delta),)
                )
            code, message = decode_reply(bytes(frame[position:]))
            if code != ErrorCode.none:
                raise KafkaError(code, message)
            self._acknowledged = image
            self._failing = False
            self._note(self, image)

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            # What the broker took over before is unknown: it may have been restarted.
            self._acknowledged = None
            host, port = self._address()
            self._connection = await connect(
                host, port, client_id=CLIENT_ID, timeout_ms=CONNECT_TIMEOUT_MS
            )
        return self._connection

    def _address(self) -> tuple[str, int]:
        try:
            return self.broker.listeners[self._listener]
        except KeyError:
            raise KafkaError(
                ErrorCode.listener_not_found,
                f"broker {self.broker.id} does not advertise {self._listener}",
            ) from None

    def _failed(self, call: RetryCallState) -> None:
        error = call.outcome.exception() if call.outcome is not None else None
        if not self._failing:
            log.warning("broker %d is not told yet: %s", self.broker.id, error)
        self._failing = True
        # Whatever the broker has now, only a full image surely continues it.
        self._acknowledged = None
        if self._connection is not None:
            self._connection.abort("a push failed")
        self._note(self, None)
