"""Names that the shell completes: deployments, clusters, links, topics and groups.

Deployments, clusters and links come from files of this host. Topics and groups are asked of the
cluster that the command line names so far, for at most `ASK_SECONDS_MAX`. Whatever fails completes
nothing and says nothing: the command itself will.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from topology.admin.cluster_choice import ClusterChoice

ASK_SECONDS_MAX: Final = 2.0
INTERNAL: Final = "_"
"""Names that begin so are completed only for a word that begins so."""

Names = Iterable[str]


def deployment_names(incomplete: str) -> list[str]:
    """Complete the name of a deployment of this host."""
    return _chosen(incomplete, _deployments)


def cluster_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a cluster of the deployment."""
    return _chosen(incomplete, lambda: [each.name for each in _choice(ctx).known().clusters])


def link_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a link of the deployment."""
    return _chosen(incomplete, lambda: [each.name for each in _choice(ctx).known().links])


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a topic of the cluster."""

    async def ask(client: KafkaClient) -> Names:
        return (await client.metadata(None)).topics

    return _chosen(incomplete, lambda: _asked(ctx, ask))


def group_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a group of the cluster."""

    async def ask(client: KafkaClient) -> Names:
        from topology.coordinators.group_reading import list_all_groups

        return [str(each["group"]) for each in await list_all_groups(client)]

    return _chosen(incomplete, lambda: _asked(ctx, ask))


def _chosen(incomplete: str, read: Callable[[], Names]) -> list[str]:
    from local_cluster.client.auth.security import SecurityError
    from local_cluster.wire.errors import KafkaError, PeerError
    from topology.problems import DeployError, InvalidTopology

    ours = (KafkaError, PeerError, SecurityError, DeployError, InvalidTopology)
    # Whatever is written or raised here would end up in the prompt.
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            names = [*read()]
        except (*ours, typer.Exit, OSError, ValueError):
            return []
    return sorted(
        each
        for each in names
        if each.startswith(incomplete)
        and (not each.startswith(INTERNAL) or incomplete.startswith(INTERNAL))
    )


def _deployments() -> Names:
    from topology.deployment.state_dir import default_state_root

    return [path.parent.name for path in default_state_root().glob("*/deployment.json")]


def _choice(ctx: typer.Context) -> ClusterChoice:
    """Return the options that the command line has so far."""
    from dataclasses import fields

    from topology.admin.cluster_choice import ClusterChoice

    given = {each.name: ctx.params.get(each.name) for each in fields(ClusterChoice)}
    return ClusterChoice(**{name: value for name, value in given.items() if value is not None})


def _asked(ctx: typer.Context, ask: Callable[[KafkaClient], Awaitable[Names]]) -> Names:
    from local_cluster.client.client import KafkaClient
    from topology.admin.cluster_choice import CLIENT_ID

    address = _choice(ctx).find()

    async def call() -> Names:
        client = KafkaClient(address.bootstrap, client_id=CLIENT_ID, security=address.security)
        async with asyncio.timeout(ASK_SECONDS_MAX), client:
            return await ask(client)

    return asyncio.run(call())
