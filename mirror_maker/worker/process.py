"""`python -m mirror_maker --settings FILE`: one mirror worker.

SIGTERM and SIGINT stop it cleanly. SIGHUP reloads the links of FILE: those that differ are
replaced, and the others go on.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from pydantic import ValidationError

from local_cluster.client.auth.security import SecurityError
from local_cluster.client.group import GroupFencedError
from local_cluster.process_log import add_log_options, configure_log
from local_cluster.starting import SettingsFile
from local_cluster.systemd import notifying
from mirror_maker.settings import MirrorSettings, parse_settings
from mirror_maker.worker.service import MirrorService

EXIT_FAILED = 1
EXIT_BAD_SETTINGS = 2
FENCED_EXIT_CODE = 3
"""Another process runs with this worker's id. A restart would fence that process in turn."""


async def _run(settings: MirrorSettings, file: SettingsFile) -> None:
    service = MirrorService(settings, file)
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, service.stop)
    loop.add_signal_handler(signal.SIGHUP, service.reload)
    async with notifying(settings.ready_file):
        await service.run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mirror_maker", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="JSON file of MirrorSettings")
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
        logging.getLogger("mirror_maker").error("the worker cannot start: %s", error)
        return EXIT_FAILED
    except GroupFencedError as error:
        logging.getLogger("mirror_maker").error("%s", error)
        return FENCED_EXIT_CODE
    return 0
