"""`heliograph user ...`: SCRAM users, their options and output.

Commands import what they need when they run, to keep start-up short.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from topology.admin.carry_out import DryRunOption, YesOption, carry_out
from topology.admin.cluster_choice import ClusterChoice, on_cluster
from topology.admin.output import print_table
from topology.cli.command_line import EXIT_USAGE, fail
from topology.rights.new_password import PasswordEnvOption, PasswordFileOption, new_password

if TYPE_CHECKING:
    from local_cluster.client.admin.scram_users import ScramChange
    from local_cluster.client.client import KafkaClient
    from local_cluster.wire.errors import KafkaError
    from topology.admin.changes import Change

user_app = typer.Typer(no_args_is_help=True, help="SCRAM users: list, create, alter, delete.")
COLUMNS: Final = (("user", "user"), ("mechanism", "mechanism"), ("iterations", "iterations"))


class Mechanism(enum.StrEnum):
    """The mechanisms of SCRAM."""

    sha_256 = "SCRAM-SHA-256"
    sha_512 = "SCRAM-SHA-512"


Name = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]
MechanismOption = Annotated[
    list[Mechanism] | None,
    typer.Option("--mechanism", help="Only this mechanism; may be repeated.", show_default=False),
]


@user_app.command("list")
@on_cluster
def list_users(choice: ClusterChoice) -> None:
    """List SCRAM users, a line for each mechanism."""

    async def read(client: KafkaClient) -> dict[str, Any]:
        from local_cluster.client.admin.scram_users import describe_scram_users

        found = await describe_scram_users(client)
        return {
            "users": [
                {"user": name, "mechanism": mechanism, "iterations": iterations}
                for name, credentials in sorted(found.items())
                for mechanism, iterations in sorted(credentials.items())
            ]
        }

    choice.show(read, lambda found: print_table(COLUMNS, found["users"], nothing="there are none"))


@user_app.command("create")
@on_cluster
def create_user(
    choice: ClusterChoice,
    name: Name,
    mechanism: MechanismOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Create a user, with SCRAM-SHA-512 by default. A mechanism that it has is refused."""
    password = new_password(password_file, password_env)
    wanted = [each.value for each in mechanism or [Mechanism.sha_512]]

    async def choose(client: KafkaClient) -> list[str]:
        has = await _mechanisms_of(client, name)
        if twice := [each for each in wanted if each in has]:
            fail(f"user {name} has {' and '.join(twice)}; `heliograph user alter` changes it")
        return wanted

    _carry_out(choice, "create", name, choose, password, dry_run=dry_run)


@user_app.command("alter")
@on_cluster
def alter_user(
    choice: ClusterChoice,
    name: Name,
    mechanism: MechanismOption = None,
    password_file: PasswordFileOption = None,
    password_env: PasswordEnvOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Change the password of a user, for all mechanisms that it has."""
    password = new_password(password_file, password_env)

    async def choose(client: KafkaClient) -> list[str]:
        has = await _mechanisms_of(client, name)
        if not has:
            fail(f"there is no user {name}; `heliograph user create` creates it")
        return _chosen(name, has, mechanism)

    _carry_out(choice, "alter", name, choose, password, dry_run=dry_run)


@user_app.command("delete")
@on_cluster
def delete_user(
    choice: ClusterChoice,
    name: Name,
    mechanism: MechanismOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Delete a user, or some of its mechanisms. Its ACLs and quotas stay."""

    async def choose(client: KafkaClient) -> list[str]:
        has = await _mechanisms_of(client, name)
        return _chosen(name, has, mechanism) if has else []

    destroys = "ends further logins of the user"
    _carry_out(choice, "delete", name, choose, None, dry_run=dry_run, yes=yes, destroys=destroys)


async def _mechanisms_of(client: KafkaClient, name: str) -> list[str]:
    from local_cluster.client.admin.scram_users import describe_scram_users

    return sorted((await describe_scram_users(client)).get(name, {}))


def _chosen(name: str, has: list[str], mechanism: list[Mechanism] | None) -> list[str]:
    """Return the mechanisms of a user that the options name; end the command for another one."""
    wanted = has if mechanism is None else [each.value for each in mechanism]
    if missing := [each for each in wanted if each not in has]:
        fail(f"user {name} has no {' and no '.join(missing)}; it has {', '.join(has)}")
    return wanted


def _carry_out(
    choice: ClusterChoice,
    action: str,
    name: str,
    choose: Callable[[KafkaClient], Awaitable[list[str]]],
    password: str | None,
    *,
    dry_run: bool,
    yes: bool = False,
    destroys: str | None = None,
) -> None:
    """Plan and carry out a change of the mechanisms that `choose` returns."""
    if not name:
        fail("a user needs a name", code=EXIT_USAGE)
    wanted: list[ScramChange] = []

    async def plan(client: KafkaClient) -> Sequence[Change]:
        from local_cluster.client.admin.scram_users import ScramChange
        from topology.admin.changes import Change

        wanted.extend(ScramChange(name, each, password) for each in await choose(client))
        return [
            Change(action=action, kind="user", name=name, detail=each.mechanism) for each in wanted
        ]

    async def apply(client: KafkaClient, _: Sequence[Change]) -> Sequence[KafkaError | None]:
        from local_cluster.client.admin.scram_users import alter_scram_users

        return await alter_scram_users(client, wanted)

    carry_out(choice, plan, apply, dry_run=dry_run, yes=yes, destroys=destroys)
