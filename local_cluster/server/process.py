"""Run one broker until SIGTERM or SIGINT: `python -m local_cluster --settings FILE`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from local_cluster.client.auth.security import SecurityError
from local_cluster.controller.zk.coordination import CoordinationUnavailable
from local_cluster.process_log import add_log_options, configure_log
from local_cluster.server.broker import Broker
from local_cluster.settings import BrokerSettings, SettingsError, load_settings
from local_cluster.systemd import notifying
from local_cluster.wire.errors import KafkaError

EXIT_FAILED = 1
EXIT_BAD_SETTINGS = 2

log = logging.getLogger("local_cluster")


def main() -> int:
    """Run the broker and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m local_cluster", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="JSON file of BrokerSettings")
    parser.add_argument("--rack", default="", help="rack instead of the one in the settings")
    add_log_options(parser)
    arguments = parser.parse_args()
    try:
        settings = load_settings(arguments.settings)
    except (OSError, SettingsError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return EXIT_BAD_SETTINGS
    configure_log(arguments.log_level, arguments.log_format or settings.log_format)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    if arguments.rack:
        settings = replace(settings, rack=arguments.rack)
    _raise_descriptor_limit()
    return asyncio.run(_run(settings))


async def _run(settings: BrokerSettings) -> int:
    async with notifying(settings.ready_file):
        return await _run_broker(settings)


async def _run_broker(settings: BrokerSettings) -> int:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _set, stop)
    try:
        broker = Broker(settings)
    except (OSError, SecurityError) as error:
        log.critical("the broker cannot start: %s", error)
        return EXIT_FAILED
    starting = asyncio.create_task(broker.start())
    ends: list[asyncio.Future[Any]] = [stop, broker.fatal]
    try:
        # The start may wait long for ZooKeeper. A signal ends that wait.
        await asyncio.wait([starting, *ends], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            try:
                starting.result()
            except (OSError, KafkaError, SecurityError, CoordinationUnavailable) as error:
                log.critical("the broker cannot start: %s", error)
                return EXIT_FAILED
        # Otherwise each full collection would visit every log while the event loop is stopped.
        gc.collect()
        gc.freeze()
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await broker.stop()
    if broker.fatal.done():
        log.critical("stopped: %r", broker.fatal.result())
        return EXIT_FAILED
    return 0


def _raise_descriptor_limit() -> None:
    """Raise the limit of open files to what the system allows: partitions and connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
