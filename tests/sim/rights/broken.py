"""Brokers with one rule taken out each: the checker has to notice every one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from local_cluster.controller.zk.coordination import SessionState
from local_cluster.security.authorization import acl_znodes
from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.acl_store import AclStore
from local_cluster.security.authorization.authorizer import Authorizer
from local_cluster.wire.constants import PatternType
from tests.sim.rights.world import SimBroker


class KeepsDecisions(Authorizer):
    """A new image does not end what is remembered."""

    def set_image(self, image: AclImage | None) -> None:
        kept = self._decisions
        super().set_image(image)
        self._decisions = kept


class DeafAfterwards(AclStore):
    """After a lost connection it reads nothing by itself."""

    def path_changed(self, path: str | None) -> None:
        if path is not None:
            super().path_changed(path)

    def session_changed(self, state: SessionState) -> None:
        pass


class WatchesLate(AclStore):
    """It sets its watch after it has looked, so what comes in between is not noticed."""

    async def _new_notifications(self) -> dict[PatternType, dict[str, str]]:
        found: dict[PatternType, dict[str, str]] = {}
        for pattern_type, root in acl_znodes.CHANGES.items():
            names = await self._coordination.children(root)
            paths = [f"{root}/{name}" for name in names]
            found[pattern_type] = {path: path for path in paths if path not in self._notified}
            for path in found[pattern_type]:
                self._notified[path] = self._clock.monotonic_ms()
            await self._coordination.children(root, watch=True)
        return found


class BrokerThatKeepsDecisions(SimBroker):
    authorizer_type = KeepsDecisions


class BrokerThatIsDeafAfterwards(SimBroker):
    store_type = DeafAfterwards


class BrokerThatWatchesLate(SimBroker):
    store_type = WatchesLate


BROKEN: Final[Mapping[str, type[SimBroker]]] = {
    "keeps-decisions": BrokerThatKeepsDecisions,
    "deaf-afterwards": BrokerThatIsDeafAfterwards,
    "watches-late": BrokerThatWatchesLate,
}
