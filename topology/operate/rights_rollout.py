"""When `up` applies the users, ACLs and quotas of each cluster.

1. Clusters that run get what is new before anything restarts. So no service and no enforcing
   authorizer starts without its rights.
2. Clusters that do not run start alone, without mirrors and aggregators, until they have theirs.
3. What the file no longer has is deleted last, when everything was handed over.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from topology.deployment.deployment import BrokerView, ClusterView, Daemon, Deployment
from topology.deployment.rights_difference import RightsChange
from topology.operate.cluster_rights import RightsUnavailable, apply_rights
from topology.operate.restart_stages import staged
from topology.problems import DeployError

POLL_S: Final = 0.1
PATIENCE_S: Final = 3.0
"""Seconds that a cluster which runs may take to answer before anything restarts."""
_SERVICES: Final = frozenset({"mirror", "aggregator"})

OnRights = Callable[[str, Sequence[RightsChange]], None]
"""Called with the name of a cluster, and the steps that are applied to it next."""


@dataclass(slots=True, kw_only=True)
class RightsRollout:
    """The users, ACLs and quotas of a deployment, over the course of one `up`."""

    deployment: Deployment
    before: Deployment | None
    running: Mapping[str, Daemon]
    """The daemons that run, by key."""
    on_rights: OnRights
    deletes: bool = True
    """Whether what the file does not have is deleted in the end."""
    check: Callable[[], None]
    """Called while a cluster does not answer yet. Raises DeployError if it never will."""
    applied: dict[str, list[RightsChange]] = field(default_factory=dict)
    """The steps so far, by the name of the cluster."""
    _is_done: dict[str, bool] = field(default_factory=dict)

    def begin(
        self,
        later: Sequence[BrokerView],
        apply_stage: Callable[[Deployment], None],
        timeout_s: float,
    ) -> None:
        """Do steps 1 and 2; `later` are brokers that restart one after the other, afterwards.

        Raises DeployError.
        """
        self._before_restarts()
        starting = [each for each in self._own_clusters() if not self._runs(each)]
        if any(each.declares_rights for each in starting):
            apply_stage(staged(self._without_services(), self.before, self.running, later))
            deadline_s = time.monotonic() + timeout_s
            for cluster in starting:
                self._insist(cluster, deadline_s)

    def end(self, deadline_s: float) -> None:
        """Do step 3, and what could not be done before. Raises DeployError."""
        for cluster in self._own_clusters():
            if not self._is_done.get(cluster.name, False):
                self._insist(cluster, deadline_s)

    def _before_restarts(self) -> None:
        """Create what is new in the clusters that run.

        A cluster that does not answer is left to `end`: `up` may be about to repair it.
        """
        for cluster in self._own_clusters():
            if not self._runs(cluster):
                continue
            # Its brokers still have their former addresses and users.
            at = (_find(self.before, cluster.name) if self.before else None) or cluster
            reached = replace(cluster, bootstrap=at.bootstrap, security=at.security)
            with contextlib.suppress(RightsUnavailable):
                self._apply(reached, time.monotonic() + PATIENCE_S, deletes=False)

    def _without_services(self) -> Deployment:
        """Return the deployment without the services that do not run yet."""
        daemons = tuple(
            each
            for each in self.deployment.daemons
            if each.role not in _SERVICES or each.key in self.running
        )
        keys = {each.key for each in daemons}
        return replace(
            self.deployment,
            daemons=daemons,
            links=tuple(each for each in self.deployment.links if each.daemon in keys),
        )

    def _own_clusters(self) -> list[ClusterView]:
        """Return the clusters that have rights to compare and a broker on this host."""
        return clusters_here(self.deployment)

    def _runs(self, cluster: ClusterView) -> bool:
        return any(broker.daemon in self.running for broker in cluster.brokers)

    def _insist(self, cluster: ClusterView, deadline_s: float) -> None:
        try:
            self._apply(cluster, deadline_s, deletes=True)
        except RightsUnavailable as error:
            raise DeployError(
                f"users, ACLs and quotas of {cluster.name} cannot be compared: {error}",
                ["`heliograph up` continues from here"],
            ) from error

    def _apply(self, cluster: ClusterView, deadline_s: float, *, deletes: bool) -> None:
        """Raises RightsUnavailable once the deadline has passed, or DeployError."""
        while True:
            try:
                self._is_done[cluster.name] = apply_rights(
                    cluster,
                    deletes=deletes and self.deletes,
                    on_changes=lambda changes: self._report(cluster.name, changes),
                )
                return
            except RightsUnavailable:
                if time.monotonic() > deadline_s:
                    raise
            self.check()
            time.sleep(POLL_S)

    def _report(self, cluster: str, changes: Sequence[RightsChange]) -> None:
        self.applied.setdefault(cluster, []).extend(changes)
        self.on_rights(cluster, changes)


def clusters_here(deployment: Deployment) -> list[ClusterView]:
    """Return the clusters that have rights to compare and a broker on this host.

    Their other hosts may apply the same at the same time.
    """
    here = {each.key for each in deployment.daemons}
    return [
        each
        for each in deployment.clusters
        if each.rights is not None and any(broker.daemon in here for broker in each.brokers)
    ]


def _find(deployment: Deployment, name: str) -> ClusterView | None:
    return next((each for each in deployment.clusters if each.name == name), None)
