"""Batches of two flows for one merged partition meet in one Produce request: the request keeps
one of them, and both flows take its acknowledgement.

A flow reads its first batches back, and would notice. Here it reads none.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from local_cluster.client.produce_batches import ProduceBatches
from tests.planted.fault import PlantedFault


def _change(module: ModuleType) -> None:
    sent_type: Any = module._Sent

    def take(self: Any) -> list[Any]:
        sent = []
        size_bytes = 0
        for target, queue in list(self._queues.items()):
            if size_bytes >= self._limits.produce_request_bytes_max:
                break
            del self._queues[target]
            for flow in list(queue):
                if flow.target_leader != self._node_id:
                    continue
                outgoing = flow.take()
                if outgoing is None:
                    continue
                sent.append(sent_type(flow, outgoing))
                size_bytes += outgoing.size_bytes
                if flow.can_take:
                    self._queues.setdefault(target, {})[flow] = None
        return sent

    def one_for_each_target(*batches: Any) -> ProduceBatches:
        return ProduceBatches(*dict(batches).items())

    module.Sender._take = take
    vars(module)["ProduceBatches"] = one_for_each_target


def _read_nothing_back(module: ModuleType) -> None:
    module.CopySession.is_on_probation = property(lambda self: False)


FAULT = PlantedFault(
    "two flows' batches for one partition collide in a request, and one is lost",
    {"mirror_maker.flow.sender": _change, "mirror_maker.flow.copy_session": _read_nothing_back},
)
