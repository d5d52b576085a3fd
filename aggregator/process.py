"""`python -m aggregator --settings FILE`: runs one aggregator until SIGTERM or SIGINT.

SIGHUP reloads the links of FILE: those that stay as they are go on.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from aggregator.service import AggregatorService
from aggregator.settings import AggregatorSettings, parse_settings
from local_cluster.client.auth.security import SecurityError
from local_cluster.process_log import add_log_options, configure_log
from local_cluster.starting import SettingsFile
from local_cluster.systemd import notifying

EXIT_FAILED = 1
EXIT_BAD_SETTINGS = 2

log = logging.getLogger("aggregator")


def main() -> int:
    """Run the aggregator; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m aggregator", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="JSON of AggregatorSettings")
    add_log_options(parser)
    arguments = parser.parse_args()
    try:
        file = SettingsFile.read(arguments.settings)
        settings = parse_settings(file.text)
    except (OSError, ValidationError) as error:
        print(f"{arguments.settings}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_BAD_SETTINGS
    configure_log(arguments.log_level, arguments.log_format or settings.log_format)
    try:
        asyncio.run(_run(settings, file))
    except SecurityError as error:
        log.error("the aggregator cannot start: %s", error)
        return EXIT_FAILED
    except Exception:  # the outermost shell of the process
        log.exception("the aggregator failed")
        return EXIT_FAILED
    return 0


async def _run(settings: AggregatorSettings, file: SettingsFile) -> None:
    service = AggregatorService(settings, file)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, service.reload)
    async with notifying(settings.ready_file):
        await service.run(stop)
