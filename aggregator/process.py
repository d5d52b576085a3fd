"""`python -m aggregator --settings FILE`: runs one aggregator until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from aggregator.service import AggregatorService
from aggregator.settings import AggregatorSettings, load_settings
from local_cluster.client.auth.security import SecurityError
from local_cluster.process_log import add_log_options, configure_log
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
        settings = load_settings(arguments.settings)
    except (OSError, ValidationError) as error:
        print(f"{arguments.settings}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_BAD_SETTINGS
    configure_log(arguments.log_level, arguments.log_format or settings.log_format)
    try:
        asyncio.run(_run(settings))
    except SecurityError as error:
        log.error("the aggregator cannot start: %s", error)
        return EXIT_FAILED
    except Exception:  # the outermost shell of the process
        log.exception("the aggregator failed")
        return EXIT_FAILED
    return 0


async def _run(settings: AggregatorSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with notifying(settings.ready_file):
        await AggregatorService(settings).run(stop)
