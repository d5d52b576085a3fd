"""`heliograph acl ...`: its options and output.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topology.admin.carry_out import DryRunOption, YesOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import print_table
from topology.cli.command_line import EXIT_USAGE, fail

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from local_cluster.wire.constants import Acl
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

acl_app = typer.Typer(no_args_is_help=True, help="ACLs: list, create, delete.")
Principal = Annotated[
    str, typer.Argument(metavar="PRINCIPAL", help="Such as User:alice; User:* is everyone.")
]
Operations = Annotated[
    list[str], typer.Argument(metavar="OPERATION...", help="Such as READ, WRITE, DESCRIBE, ALL.")
]
TopicOption = Annotated[
    list[str] | None, typer.Option("--topic", help="A topic, or * for all.", show_default=False)
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", help="A group, or * for all.", show_default=False)
]
TransactionOption = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", help="An id, or * for all.", show_default=False),
]
OnClusterOption = Annotated[bool, typer.Option("--on-cluster", help="The cluster itself.")]
PrefixedOption = Annotated[
    bool, typer.Option("--prefixed", help="Every resource whose name begins so.")
]
DenyOption = Annotated[bool, typer.Option("--deny", help="Deny instead of allow.")]
HostOption = Annotated[str, typer.Option("--host", help="Only from this address.")]
COLUMNS = (
    ("permission", "permission"),
    ("principal", "principal"),
    ("host", "host"),
    ("operation", "operation"),
    ("resource", "resource"),
    ("name", "name"),
    ("pattern", "pattern"),
)


@acl_app.command("list")
@on_cluster
def list_acls(
    choice: ClusterChoice,
    principal: Annotated[
        str | None, typer.Option("--principal", help="Only ACLs of this principal.")
    ] = None,
) -> None:
    """List ACLs."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from local_cluster.client.admin.acls import describe_acls
        from topology.rights.acl_rows import acl_row

        found = [acl for acl in await describe_acls(client) if principal in (None, acl.principal)]
        return {"acls": [acl_row(acl) for acl in sorted(found)]}

    choice.show(read, lambda found: print_table(COLUMNS, found["acls"], nothing="there are none"))


@acl_app.command("create")
@on_cluster
def create_acl(
    choice: ClusterChoice,
    principal: Principal,
    operations: Operations,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionOption = None,
    on_the_cluster: OnClusterOption = False,
    prefixed: PrefixedOption = False,
    deny: DenyOption = False,
    host: HostOption = "*",
    dry_run: DryRunOption = False,
) -> None:
    """Allow or deny operations on resources. An ACL that exists is no error."""
    resources = (topic, group, transactional_id, on_the_cluster)
    acls = _acls(principal, operations, resources, host=host, deny=deny, prefixed=prefixed)

    async def apply(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from local_cluster.client.admin.acls import create_acls

        results = await create_acls(client, acls)
        return [results[acl] for acl in acls]

    async def plan(_: KafkaClient) -> Sequence[Change]:
        return _changes("create", acls)

    carry_out(choice, plan, apply, dry_run=dry_run)


@acl_app.command("delete")
@on_cluster
def delete_acl(
    choice: ClusterChoice,
    principal: Principal,
    operations: Operations,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionOption = None,
    on_the_cluster: OnClusterOption = False,
    prefixed: PrefixedOption = False,
    deny: DenyOption = False,
    host: HostOption = "*",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete exactly the ACLs that `create` makes of the same words; others stay."""
    resources = (topic, group, transactional_id, on_the_cluster)
    acls = _acls(principal, operations, resources, host=host, deny=deny, prefixed=prefixed)
    there: list[Acl] = []

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from local_cluster.client.admin.acls import describe_acls

        known = await describe_acls(client)
        there.extend(acl for acl in acls if acl in known)
        return _changes("delete", there)

    async def apply(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from local_cluster.client.admin.acls import delete_acls

        results = await delete_acls(client, there)
        return [results[acl] for acl in there]

    carry_out(choice, plan, apply, dry_run=dry_run, yes=yes, destroys="changes who may do what")


def _changes(action: str, acls: Sequence[Acl]) -> list[Change]:
    from topology.admin.changes import Change

    return [Change(action=action, kind="acl", name=str(acl)) for acl in acls]


def _acls(
    principal: str,
    operations: list[str],
    resources: tuple[list[str] | None, list[str] | None, list[str] | None, bool],
    *,
    host: str,
    deny: bool,
    prefixed: bool,
) -> list[Acl]:
    """Return the ACLs that the options name; end the command if they name none."""
    from local_cluster.wire.constants import CLUSTER_NAME, ResourceType
    from topology.rights.acl_rows import wanted_acls

    topics, groups, transactional_ids, on_the_cluster = resources
    named = [
        *((ResourceType.TOPIC, name) for name in topics or ()),
        *((ResourceType.GROUP, name) for name in groups or ()),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids or ()),
        *([(ResourceType.CLUSTER, CLUSTER_NAME)] if on_the_cluster else ()),
    ]
    try:
        return wanted_acls(principal, operations, named, host=host, deny=deny, prefixed=prefixed)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
