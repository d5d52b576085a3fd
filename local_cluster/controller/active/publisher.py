"""SHELL: brings every broker of the cluster to the newest image.

Each other broker has a task of its own (image_sender.py). The controller's own broker applies an
image directly, and again while its listeners have not applied all of it; such a failure does not
delay the other brokers.

Guarantee: an image is acknowledged only after the listeners of that broker have acted on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from local_cluster.controller.active.image_sender import ImageSender, OpenConnection
from local_cluster.controller.model.cluster_image import (
    BrokerEndpoints,
    ClusterImage,
    ReplicaReport,
)

LOCAL_RETRY_MS: Final = 1_000
"""Delay before the controller's own broker applies an image again."""

Acknowledged = Callable[[int, ClusterImage, ReplicaReport], None]
"""Called with (broker id, image, report) when a broker has applied an image."""
ReachableChanged = Callable[[BrokerEndpoints, bool], None]
"""Called with False when a broker that was reached refuses connections, with True when it accepts
them again."""
EpochRequired = Callable[[int], None]
"""Called with the lowest controller epoch that a broker which refused an image accepts."""


class Publisher:
    """Publishes the images of one term."""

    def __init__(
        self,
        *,
        broker_id: int,
        listener: str,
        apply_locally: Callable[[ClusterImage], ReplicaReport | None],
        acknowledged: Acknowledged,
        reachable_changed: ReachableChanged,
        epoch_required: EpochRequired,
        open_connection: OpenConnection,
        known: Mapping[int, BrokerEndpoints] = MappingProxyType({}),
    ) -> None:
        """`apply_locally` applies an image to this broker: its report, or None if it failed.
        `known` are brokers that an earlier controller has reached, by that registration."""
        self._known = known
        self._broker_id = broker_id
        self._listener = listener
        self._apply_locally = apply_locally
        self._acknowledged = acknowledged
        self._reachable_changed = reachable_changed
        self._epoch_required = epoch_required
        self._open_connection = open_connection
        self._senders: dict[int, ImageSender] = {}
        self._progress = asyncio.Event()
        self._is_closed = False
        self._local_retry: asyncio.TimerHandle | None = None

    def publish(self, image: ClusterImage) -> None:
        """Make this the newest image: this broker has applied it on return, the others soon.

        Does nothing after `close`: requests of a term that is over may still run.
        """
        if self._is_closed:
            return
        for broker_id in [b for b in self._senders if b not in image.brokers]:
            self._senders.pop(broker_id).cancel()
        for broker_id, broker in image.brokers.items():
            if broker_id == self._broker_id:
                continue
            sender = self._senders.get(broker_id)
            if sender is not None and sender.broker != broker:
                sender.cancel()
                sender = None
            if sender is None:
                sender = ImageSender(
                    broker,
                    self._listener,
                    self._open_connection,
                    progressed=self._note_progress,
                    reachable_changed=self._note_reachable,
                    epoch_required=self._epoch_required,
                )
                sender.was_reached = self._known.get(broker_id) == broker
                self._senders[broker_id] = sender
            sender.offer(image)
        self._publish_locally(image)
        self._wake()

    async def wait_acknowledged(self, sequence: int, timeout_ms: int) -> bool:
        """Return whether all reachable brokers have applied that image in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while any(sender.is_behind(sequence) for sender in self._senders.values()):
                    await self._progress.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Stop publishing, for good."""
        self._is_closed = True
        if self._local_retry is not None:
            self._local_retry.cancel()
        senders = list(self._senders.values())
        self._senders.clear()
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*(sender.task for sender in senders), return_exceptions=True)
        self._wake()

    def _publish_locally(self, image: ClusterImage) -> None:
        if self._local_retry is not None:
            self._local_retry.cancel()
            self._local_retry = None
        report = self._apply_locally(image)
        if report is None:
            loop = asyncio.get_running_loop()
            self._local_retry = loop.call_later(LOCAL_RETRY_MS / 1000, self._publish_locally, image)
        elif self._broker_id in image.brokers:
            self._acknowledged(self._broker_id, image, report)

    def _note_progress(
        self, sender: ImageSender, applied: tuple[ClusterImage, ReplicaReport] | None
    ) -> None:
        if applied is not None and self._senders.get(sender.broker.id) is sender:
            self._acknowledged(sender.broker.id, *applied)
        self._wake()

    def _note_reachable(self, sender: ImageSender, is_reachable: bool) -> None:
        if self._senders.get(sender.broker.id) is sender:
            self._reachable_changed(sender.broker, is_reachable)

    def _wake(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()
