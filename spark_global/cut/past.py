"""The cuts of a question that is asked as of a time: one cut per topic, for all of its views."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from spark_global.cut.offsets import Cut, united
from spark_global.cut.resolving import Vectors
from spark_global.cut.samples import read_vectors
from spark_global.source.options import ReadOptions
from spark_global.source.planning import plan_cut


class Past:
    """Resolves each topic's cut once, so that every view of a query reads the same one."""

    def __init__(self, options: ReadOptions) -> None:
        """`options` have `as_of`, and the aggregate; the topic is given per cut."""
        assert options.as_of is not None, options
        self._options = options
        self._as_of_ms = options.as_of
        self._vectors: Vectors | None = None
        self._cuts: dict[str, Cut] = {}

    def cut(self, topic: str) -> Cut:
        """Return the cut of a source topic. Raises KafkaError and CutRefusedError."""
        if topic not in self._cuts:
            found = asyncio.run(self._resolve(topic))
            if not self._options.allow_missing:
                found.check_whole()
            self._cuts[topic] = found
        return self._cuts[topic]

    def found(self) -> Cut:
        """Return all cuts so far as one."""
        return united(list(self._cuts.values()), self._as_of_ms)

    async def _resolve(self, topic: str) -> Cut:
        if self._vectors is None:
            self._vectors = await read_vectors(self._options)
        return await plan_cut(replace(self._options, topic=topic), self._vectors)
