"""Leader elections that a broker sees in the images of the controller. Pure."""

from __future__ import annotations

from local_cluster.controller.model.cluster_image import NO_LEADER, TopicState


class ElectionCounts:
    """Elections that changed a leader or its epoch, and the unclean ones among them."""

    __slots__ = ("elections", "unclean")

    def __init__(self) -> None:
        self.elections = 0
        self.unclean = 0
        """Elections of a leader that was not in the ISR: committed records may be lost."""

    def count(self, before: TopicState, after: TopicState) -> None:
        """Count the elections between two states of one topic."""
        if before.topic_id != after.topic_id:
            return
        for index, new in after.partitions.items():
            old = before.partitions.get(index)
            if old is None or new.leader == NO_LEADER or new.leader_epoch <= old.leader_epoch:
                continue
            self.elections += 1
            self.unclean += bool(old.isr) and new.leader not in old.isr
