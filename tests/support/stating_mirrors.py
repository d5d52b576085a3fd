"""Mirrors of two datacenters that state how complete their copies are."""

from __future__ import annotations

from tests.support.aggregated import SHIFT, Aggregated


class Mirrors:
    """Two datacenters that copy a topic, and state how far they are."""

    def __init__(self, nyc: Aggregated, topic: str = "w") -> None:
        self._nyc, self._topic = nyc, topic
        self._copied = {"jfk": 0, "lga": 0}
        for name in self._copied:
            nyc.run(nyc.create(f"{name}.{topic}"))

    def copy(
        self, source: str, *seconds: range, through: int, keys: int = 0, gaps: int = 0
    ) -> None:
        """Copy records of these seconds, and state that all before `through` is copied.

        The journal has so many gaps.
        """
        for each in seconds:
            self._nyc.run(self._nyc.copy(f"{source}.{self._topic}", each, keys=keys))
            self._copied[source] += len(each)
        end = self._copied[source]
        self._nyc.run(self._nyc.publish_map(source, self._topic, end))
        position = SHIFT + end
        through_ms = through * 1_000
        self._nyc.run(
            self._nyc.state_complete(source, self._topic, position, through_ms, gaps=gaps)
        )
