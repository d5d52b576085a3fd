"""The options that commands with a Spark session share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from topology.cli.command_line import EXIT_USAGE, complain, fail, require_extra

if TYPE_CHECKING:
    from spark_global.values.declaring import Decoding

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
DecodingOption = Annotated[
    Path | None,
    typer.Option(
        "--decoding",
        metavar="FILE",
        help="YAML file with formats and schemas, for the views decoded_<topic> and "
        "rejects_<topic>.",
    ),
]


def read_decoding(path: Path | None) -> Decoding | None:
    """Return the decoding of a file; end the command if it is invalid."""
    if path is None:
        return None
    require_extra("decoding")
    from topology.file.load import load_decoding
    from topology.problems import InvalidTopology

    try:
        return load_decoding(path)
    except InvalidTopology as error:
        complain(error.lines())
        raise typer.Exit(EXIT_USAGE) from error
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}", code=EXIT_USAGE)


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
