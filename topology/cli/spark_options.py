"""The options of every command that starts a Spark session."""

from __future__ import annotations

from typing import Annotated

import typer

from topology.cli.command_line import EXIT_USAGE, fail

MasterOption = Annotated[
    str,
    typer.Option("--master", help="Spark master: local[N], spark://HOST:PORT, yarn, k8s://URL."),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A setting of Spark, as of spark-submit; may be repeated.",
        show_default=False,
    ),
]


def spark_conf(given: list[str] | None) -> dict[str, str]:
    """Return the settings of `--conf` by name; end the command if one is no setting."""
    settings: dict[str, str] = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name.startswith("spark."):
            fail(f"--conf {text}: write spark.NAME=VALUE", code=EXIT_USAGE)
        if name == "spark.master":
            fail(f"--conf {text}: name the master by --master", code=EXIT_USAGE)
        settings[name] = value
    return settings
