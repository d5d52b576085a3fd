"""The options that choose the cluster of a command, and how the command reaches it.

A cluster is either one of a deployment, by its name in the topology file, or any Kafka cluster at
`--bootstrap`. A topology file that was not deployed on this host serves as well: its clusters are
reached at the addresses that it names.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec, TypeVar

import typer

from topology.admin.output import Format, FormatOption, JsonObject, emit
from topology.cli.command_line import (
    EXIT_USAGE,
    StateDirOption,
    fail,
    find_deployment,
    load_file,
    load_security_file,
)
from topology.cli.completion import cluster_names, deployment_names

if TYPE_CHECKING:
    from local_cluster.client.client import KafkaClient
    from topology.deployment.deployment import Deployment
    from topology.status.liveness import ClusterAddress

CLIENT_ID: Final = "heliograph-command"
REQUEST_TIMEOUT_MS: Final = 10_000
"""How long a command waits for a connection, and for each response."""
OUTSIDE: Final = "--bootstrap"
"""The name of a cluster that is known by its address alone."""

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """The options of one call: which cluster, and in which format to answer."""

    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            "-c",
            metavar="NAME",
            help="Cluster of the deployment; default: the only one there is.",
            autocompletion=cluster_names,
            show_default=False,
        ),
    ] = None
    deployment: Annotated[
        str | None,
        typer.Option(
            "--deployment",
            help="Name of the deployment, or a topology file; default: the only one there is.",
            autocompletion=deployment_names,
            show_default=False,
        ),
    ] = None
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            metavar="HOST:PORT",
            help="Brokers of any Kafka cluster, instead of --cluster.",
            show_default=False,
        ),
    ] = None
    security: Annotated[
        Path | None,
        typer.Option(
            "--security",
            metavar="FILE",
            help="Security settings for --bootstrap: a file with the keys of `security` in a"
            " topology.",
            show_default=False,
        ),
    ] = None
    state_dir: StateDirOption = None
    output: FormatOption = Format.human

    def find(self) -> ClusterAddress:
        """Return the cluster's address; end the command if there is no such cluster."""
        from local_cluster.client.auth.security import PLAINTEXT
        from topology.status.liveness import ClusterAddress

        if self.bootstrap is not None:
            if self.cluster is not None or self.deployment is not None:
                fail("name either --bootstrap or a --cluster of a deployment", code=EXIT_USAGE)
            security = load_security_file(self.security) if self.security else PLAINTEXT
            return ClusterAddress(OUTSIDE, self.bootstrap, security)
        if self.security is not None:
            fail("--security goes with --bootstrap; a deployment has its own", code=EXIT_USAGE)
        running = self.known()
        clusters = {each.name: each for each in running.clusters}
        names = list(clusters)
        name = names[0] if self.cluster is None and len(names) == 1 else self.cluster
        if name is None:
            known = ", ".join(names)
            fail(f"name the --cluster of {running.name}; there are: {known}", code=EXIT_USAGE)
        if name not in clusters:
            from topology.problems import unknown_name

            fail(f"{running.name}: {unknown_name('cluster', name, names)}", code=EXIT_USAGE)
        found = clusters[name]
        return ClusterAddress(name, found.bootstrap, found.security)

    def run(self, work: Callable[[KafkaClient], Awaitable[T]]) -> T:
        """Return the result of `work` with a client of the cluster.

        End the command with Kafka's error code if the cluster refuses, or does not respond.
        """
        from local_cluster.client.auth.security import SecurityError
        from local_cluster.client.client import KafkaClient
        from local_cluster.wire.errors import KafkaError, PeerError
        from topology.problems import DeployError

        address = self.find()
        place = f"cluster {address.name} ({address.bootstrap})"

        async def call() -> T:
            try:
                client = KafkaClient(
                    address.bootstrap,
                    client_id=CLIENT_ID,
                    request_timeout_ms=REQUEST_TIMEOUT_MS,
                    security=address.security,
                )
            except ValueError as error:
                fail(f"{OUTSIDE} {address.bootstrap!r}: {error}", code=EXIT_USAGE)
            async with client:
                # A cluster that does not respond is named now, and not after a controller that
                # may be moving was looked for again and again.
                await client.metadata([])
                return await work(client)

        try:
            return asyncio.run(call())
        except (KafkaError, PeerError, SecurityError) as error:
            fail(f"{place}: {error}")
        except DeployError as error:
            fail(f"{place}: {error}", error.details)

    def show(
        self,
        read: Callable[[KafkaClient], Awaitable[JsonObject]],
        for_people: Callable[[JsonObject], None],
    ) -> JsonObject:
        """Read a document from the cluster, print it, and return it."""
        document = self.run(read)
        emit(self.output, document, for_people)
        return document

    def known(self) -> Deployment:
        """Return the deployment with its clusters and links; end the command without one.

        That of a topology file which was not deployed on this host has no daemons.
        """
        from topology.deployment.deployment import read_deployment
        from topology.deployment.render import views_of
        from topology.deployment.state_dir import default_state_root
        from topology.problems import DeployError

        file = Path(self.deployment) if self.deployment is not None else None
        if file is not None and file.is_file() and self.state_dir is None:
            topology = load_file(file)
            if not (default_state_root() / topology.name / "deployment.json").exists():
                return views_of(topology, file)
        try:
            return read_deployment(find_deployment(self.deployment, self.state_dir))
        except DeployError as error:
            fail(str(error), error.details)


def on_cluster(command: Callable[Concatenate[ClusterChoice, P], None]) -> Callable[..., None]:
    """Give a command the options of `ClusterChoice`; it gets them as its first argument.

    Typer reads options from a signature, so this returns a function with all of them in it.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    chosen = list(inspect.signature(ClusterChoice, eval_str=True).parameters.values())
    names = [each.name for each in fields(ClusterChoice)]

    @wraps(command)
    def with_options(**values: Any) -> None:
        choice = ClusterChoice(**{name: values.pop(name) for name in names})
        command(choice, **values)  # type: ignore[call-arg]

    del with_options.__wrapped__
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *chosen)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options
