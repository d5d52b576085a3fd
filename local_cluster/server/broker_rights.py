"""SHELL: the authorizer of one broker, fed from ZooKeeper; nothing of it if none is configured."""

from __future__ import annotations

from collections.abc import Callable

from local_cluster.clock import Clock
from local_cluster.controller.member.control_plane import ControlPlane
from local_cluster.security.authorization.acl_store import NO_LIMIT, AclStore
from local_cluster.security.authorization.authorizer import Authorizer
from local_cluster.security.authorization.credential_access import CredentialAccess
from local_cluster.security.authorization.mirror_producers import MirrorProducers
from local_cluster.security.authorization.policy import is_authorizer_configured, policy_of
from local_cluster.settings import BrokerSettings


class BrokerRights:
    """What decides, and where its ACLs come from."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        control_plane: ControlPlane,
        *,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called after each change of the ACLs."""
        self.authorizer: Authorizer | None = None
        self.store: AclStore | None = None
        self.credential_access: CredentialAccess | None = None
        """None without an authorizer."""
        self.mirror_producers: MirrorProducers | None = None
        """None without an authorizer, or if it reserves nothing for mirrors."""
        if not is_authorizer_configured(settings.config):
            return
        self.authorizer = Authorizer(
            policy_of(
                settings.config,
                settings.broker_principals,
                settings.internal_topic_writers,
                settings.internal_types_reserved,
            ),
            is_dry_run=settings.config_bool("heliograph.authorizer.dry.run", False),
            on_change=on_change,
        )
        self.credential_access = CredentialAccess(settings, self.authorizer)
        self.store = AclStore(
            control_plane.coordination,
            clock,
            self.authorizer.set_image,
            age_ms_max=settings.config_int("heliograph.acl.image.max.age.ms", NO_LIMIT),
        )
        control_plane.follow_znodes(self.store)
        if settings.internal_topic_writers is not None:
            self.mirror_producers = MirrorProducers(control_plane.coordination, self.authorizer)
            control_plane.follow_znodes(self.mirror_producers)

    async def start(self) -> None:
        """Read the ACLs, and follow them. Waits until ZooKeeper answers."""
        if self.store is not None:
            await self.store.start()
        if self.mirror_producers is not None:
            await self.mirror_producers.start()

    async def stop(self) -> None:
        if self.store is not None:
            await self.store.stop()
        if self.mirror_producers is not None:
            await self.mirror_producers.stop()
