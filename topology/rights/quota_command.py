"""`heliograph quota ...`: client quotas, their options and output.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.admin.carry_out import DryRunOption, YesOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import print_table
from topology.cli.command_line import EXIT_USAGE, fail

if TYPE_CHECKING:
    from local_cluster.client.admin.client_quotas import QuotaChange, QuotaEntity
    from local_cluster.client.client import KafkaClient
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

quota_app = typer.Typer(no_args_is_help=True, help="Client quotas: list, set, remove.")
COLUMNS: Final = (("entity", "entity"), ("quota", "quota"), ("value", "value"))
UserOption = Annotated[str | None, typer.Option("--user", help="A user.", show_default=False)]
ClientOption = Annotated[
    str | None, typer.Option("--client-id", help="A client id.", show_default=False)
]
AddressOption = Annotated[
    str | None, typer.Option("--ip", help="An address of clients.", show_default=False)
]
DefaultUserOption = Annotated[
    bool, typer.Option("--default-user", help="Users without quotas of their own.")
]
DefaultClientOption = Annotated[
    bool, typer.Option("--default-client-id", help="Client ids without quotas of their own.")
]
DefaultAddressOption = Annotated[
    bool, typer.Option("--default-ip", help="Addresses without quotas of their own.")
]


@quota_app.command("list")
@on_cluster
def list_quotas(
    choice: ClusterChoice,
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientOption = None,
    default_client_id: DefaultClientOption = False,
    ip: AddressOption = None,
    default_ip: DefaultAddressOption = False,
) -> None:
    """List quotas, those of entities with the named parts."""
    parts = _entity((user, default_user), (client_id, default_client_id), (ip, default_ip))

    async def read(client: KafkaClient) -> dict[str, Any]:
        from local_cluster.client.admin.client_quotas import describe_client_quotas
        from topology.rights.quota_words import has_parts, quota_rows

        found = await describe_client_quotas(client)
        return {
            "quotas": quota_rows(
                {which: values for which, values in found.items() if has_parts(which, parts)}
            )
        }

    def show(found: dict[str, Any]) -> None:
        from topology.rights.quota_words import table_row

        print_table(COLUMNS, map(table_row, found["quotas"]), nothing="there are none")

    choice.show(read, show)


@quota_app.command("set")
@on_cluster
def set_quotas(
    choice: ClusterChoice,
    quotas: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE...", help="Such as producer_byte_rate=1048576."),
    ],
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientOption = None,
    default_client_id: DefaultClientOption = False,
    ip: AddressOption = None,
    default_ip: DefaultAddressOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Set quotas of a user, a client id, both, or an address. Others of it stay."""
    from topology.rights.quota_words import wanted_values

    entity = _entity((user, default_user), (client_id, default_client_id), (ip, default_ip))
    _check_named(entity)
    try:
        values = wanted_values(quotas, entity)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    _carry_out(choice, "set", entity, lambda _: values, dry_run=dry_run)


@quota_app.command("remove")
@on_cluster
def remove_quotas(
    choice: ClusterChoice,
    quotas: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Quotas to remove; default: all of the entity."),
    ] = None,
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientOption = None,
    default_client_id: DefaultClientOption = False,
    ip: AddressOption = None,
    default_ip: DefaultAddressOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Remove quotas of exactly this entity. What it does not have is no error."""
    from topology.rights.quota_words import check_key

    entity = _entity((user, default_user), (client_id, default_client_id), (ip, default_ip))
    _check_named(entity)
    try:
        for name in quotas or ():
            check_key(name, entity)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)

    def removed(present: Mapping[str, float]) -> dict[str, float | None]:
        return {name: None for name in present if not quotas or name in quotas}

    destroys = "lifts limits of clients"
    _carry_out(choice, "remove", entity, removed, dry_run=dry_run, yes=yes, destroys=destroys)


def _entity(
    user: tuple[str | None, bool], client_id: tuple[str | None, bool], ip: tuple[str | None, bool]
) -> QuotaEntity:
    """Return the entity that the options name; end the command if they do not go together."""
    from topology.rights.quota_words import Named, entity_of

    try:
        return entity_of([Named("user", *user), Named("client-id", *client_id), Named("ip", *ip)])
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)


def _check_named(entity: QuotaEntity) -> None:
    if not entity:
        options = "--user, --client-id, --ip, or the default of one, such as --default-user"
        fail(f"name whose quotas: {options}", code=EXIT_USAGE)


def _carry_out(
    choice: ClusterChoice,
    action: str,
    entity: QuotaEntity,
    choose: Callable[[Mapping[str, float]], Mapping[str, float | None]],
    *,
    dry_run: bool,
    yes: bool = False,
    destroys: str | None = None,
) -> None:
    """Plan and carry out the values that `choose` returns for the present ones."""
    wanted: list[QuotaChange] = []

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from local_cluster.client.admin.client_quotas import QuotaChange, describe_client_quotas
        from topology.admin.changes import Change
        from topology.model.quotas import entity_text, number_text

        present = (await describe_client_quotas(client)).get(entity, {})
        changes = []
        for key, value in choose(present).items():
            before = present.get(key)
            if value == before:
                continue
            wanted.append(QuotaChange(entity, key, value))
            detail = f"{key} {'none' if value is None else number_text(value)}"
            detail += "" if before is None else f", before {number_text(before)}"
            changes.append(
                Change(action=action, kind="quota", name=entity_text(entity), detail=detail)
            )
        return changes

    async def apply(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from local_cluster.client.admin.client_quotas import alter_client_quotas

        return await alter_client_quotas(client, wanted)

    async def check(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from local_cluster.client.admin.client_quotas import alter_client_quotas

        return await alter_client_quotas(client, wanted, validate_only=True)

    carry_out(choice, plan, apply, check=check, dry_run=dry_run, yes=yes, destroys=destroys)
