"""SHELL: applies images and deltas to the metadata cache, and informs its listeners and waiters.

Guarantees: `on_change` is called after every change of the cache, on the loop. If a listener fails
over a change, the change is not acknowledged, and the next call repeats it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from local_cluster.controller.model.cluster_image import (
    ClusterDelta,
    ClusterImage,
    ReplicaReport,
    difference,
)
from local_cluster.controller.model.delta_json import decode_delta, encode_reply
from local_cluster.controller.model.metadata_cache import Changes, MetadataCache
from local_cluster.wire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

PUBLISH_WAIT_MS_MAX: Final = 1_000
"""How long a response waits until the other brokers have applied the change."""


class MetadataUpdates:
    """The updates of one broker's cache."""

    def __init__(
        self,
        cache: MetadataCache,
        on_change: Callable[[Changes], None],
        report: Callable[[], ReplicaReport],
        *,
        cache_changed: Callable[[], None],
        delta_applied: Callable[[ClusterDelta], None],
    ) -> None:
        """`on_change` informs the listeners; it raises KafkaError if one of them failed. `report`
        returns the offline replicas of this broker. `delta_applied` gets each delta of another
        broker, before the listeners do."""
        self._cache = cache
        self._on_change = on_change
        self._report = report
        self._cache_changed = cache_changed
        self._delta_applied = delta_applied
        self.has_failed_listener = False
        """Whether a listener failed over the last changes."""
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def apply_delta(self, payload: bytes) -> bytes:
        """Apply another broker's CLUSTER_DELTA; return the body of the response."""
        try:
            delta = decode_delta(payload)
        except ValueError as error:
            return encode_reply(ErrorCode.invalid_request, str(error))
        try:
            changes = self._cache.apply(delta)
        except KafkaError as error:
            epoch_min = self._cache.controller_epoch
            if delta.full and error.code is ErrorCode.invalid_update_version:
                # One controller counts its images up. A lower sequence is from another controller
                # with the same epoch.
                epoch_min += 1
            return encode_reply(error.code, error.message, epoch_min=epoch_min)
        self._delta_applied(delta)
        try:
            self._notify(changes)
        except KafkaError as error:
            return encode_reply(error.code, error.message)
        return encode_reply(ErrorCode.none, report=self._report())

    def apply_image(self, image: ClusterImage) -> ReplicaReport | None:
        """Apply an image of this broker's own controller; return the report.

        None if the cache refused the image or a listener failed: the publisher then repeats it.
        """
        # A full delta: the cache compares it with what it has, so no change is repeated.
        delta = difference(None, image, self._cache.broker_epoch)
        try:
            changes = self._cache.apply(delta)
        except KafkaError as error:
            log.warning("this broker refuses its own image: %s", error)
            return None
        try:
            self._notify(changes)
        except KafkaError as error:
            # The image holds for the cluster: no request fails because of this.
            log.warning("image %d will be applied here again: %s", image.sequence, error)
            return None
        return self._report()

    def observe_controller(self, controller_id: int) -> None:
        """Note the elected controller; log a failing listener."""
        try:
            self._notify(self._cache.observe_controller(controller_id))
        except KafkaError as error:
            # A defect of this broker must not leave the cluster without a controller.
            log.warning("a listener failed over the new controller %d: %s", controller_id, error)

    async def wait_until(self, condition: Callable[[], bool], timeout_ms: int) -> bool:
        """Return whether the condition, checked after every change, came true in time."""
        if condition():
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._waiters.append(entry)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiters.remove(entry)
        return True

    def cancel_waiters(self) -> None:
        """Cancel all `wait_until` calls."""
        for _, future in self._waiters:
            future.cancel()

    def _notify(self, changes: Changes) -> None:
        """Inform listeners and waiters. Raises KafkaError if a listener failed."""
        try:
            if changes or self.has_failed_listener:
                self.has_failed_listener = True
                self._on_change(changes)
                self.has_failed_listener = False
        finally:
            # These go by the cache, which has the changes in any case.
            if changes:
                self._cache_changed()
            for condition, future in tuple(self._waiters):
                if not future.done() and condition():
                    future.set_result(None)
