"""The described topics of Metadata responses, kept encoded until the image changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from local_cluster.controller.model.cluster_image import TopicState
from local_cluster.controller.model.metadata_cache import MetadataCache

VIEWS_MAX: Final = 8
"""Pairs of a listener and a version whose topics are kept. The oldest pair goes first."""

View = tuple[str, int]
"""A listener and a version of Metadata."""


class EncodedTopics:
    """The encoded topics by view and name.

    A topic's bytes name live brokers and offline replicas. They hold while the brokers, the offline
    replicas and the topic of the image are the same objects. At most VIEWS_MAX times the topics of
    the image are kept.
    """

    def __init__(self, image: MetadataCache) -> None:
        self._image = image
        self._brokers: object = None
        self._offline: object = None
        self._views: dict[View, dict[str, tuple[TopicState, bytes]]] = {}

    def get(self, view: View, topic: TopicState, encode: Callable[[], bytes]) -> bytes:
        """Return the bytes of a topic; `encode` makes them if they are not kept."""
        image = self._image
        if image.brokers is not self._brokers or image.offline is not self._offline:
            self._views.clear()
            self._brokers, self._offline = image.brokers, image.offline
        topics = self._views.get(view)
        if topics is None:
            if len(self._views) >= VIEWS_MAX:
                del self._views[next(iter(self._views))]
            topics = self._views[view] = {}
        kept = topics.get(topic.name)
        if kept is not None and kept[0] is topic:
            return kept[1]
        if kept is None and len(topics) >= len(image.topics):
            topics.clear()  # some of them are deleted
        encoded = encode()
        topics[topic.name] = topic, encoded
        return encoded
