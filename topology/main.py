"""The `heliograph` command: its subcommands and exit codes.

Exit codes:

    0    success
    1    the command failed
    2    wrong usage, or an invalid topology file
    3    `plan --exit-code` found changes, or `mirror repair` without --how found something wrong
    4    `status`, `link`, `why`, `doctor` or `audit` found a problem; after `up` links wait for an
         operator, or another host cannot be reached; `upgrade` was stopped, or no host goes on
    5    `up`: another host has edited the topology file too
    6    `status --exit-code`: another host is not well
    7    `status --exit-code`: links have gaps
    8    `status --exit-code`: an operator has paused or throttled a part of a link
    130  interrupted by Ctrl-C
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from topology.admin.broker_command import broker_app
from topology.admin.config_command import config_app
from topology.admin.link_command import link_app
from topology.admin.topic_command import topic_app
from topology.admin.trim_command import trim_topic
from topology.audit.command import audit
from topology.backup.command import backup, restore
from topology.certificates.command import certificates
from topology.cli.command_line import EXIT_ERROR
from topology.cli.completeness_command import completeness
from topology.cli.data_commands import demo, gaps, sql
from topology.cli.deployment_commands import plan, status, up
from topology.cli.down_command import down
from topology.cli.file_commands import schema, validate
from topology.coordinators.group_command import group_app
from topology.coordinators.transaction_command import transaction_app
from topology.dashboards.command import dashboards
from topology.doctor.command import doctor, support_bundle
from topology.importing.command import import_app
from topology.log_levels.command import log_level
from topology.mirror.command import mirror_app
from topology.rebalance.command import rebalance
from topology.records.consume_command import consume
from topology.records.produce_command import produce
from topology.rendering.command import render_app
from topology.rights.acl_command import acl_app
from topology.rights.quota_command import quota_app
from topology.rights.user_command import user_app
from topology.rights.zookeeper_command import zookeeper_app
from topology.spark.command import spark_app
from topology.top.command import top
from topology.tracing.command import trace
from topology.upgrade.command import upgrade
from topology.version import show_version
from topology.why.command import why

app = typer.Typer(
    name="heliograph",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show version, commit, interpreter, build and extras, and exit.",
            callback=show_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Kafka-wire-compatible clusters for datacenters, mirrored exactly into aggregates."""


COMMANDS: Final[tuple[Callable[..., None], ...]] = (
    *(validate, schema, certificates),
    *(plan, up, status, down, upgrade),
    *(backup, restore),
    *(produce, consume),
    *(top, why, trace, doctor, support_bundle, log_level),
    *(dashboards, gaps, audit, completeness, rebalance, demo, sql),
)
for command in COMMANDS:
    app.command()(command)
topic_app.command("trim")(trim_topic)
NOUNS: Final[dict[str, typer.Typer]] = {
    "topic": topic_app,
    "group": group_app,
    "acl": acl_app,
    "user": user_app,
    "quota": quota_app,
    "zookeeper": zookeeper_app,
    "config": config_app,
    "broker": broker_app,
    "transaction": transaction_app,
    "link": link_app,
    "mirror": mirror_app,
    "spark": spark_app,
    "import": import_app,
    "render": render_app,
}
for name, noun in NOUNS.items():
    app.add_typer(noun, name=name)


def main() -> None:
    """Run the `heliograph` command."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(EXIT_ERROR)
