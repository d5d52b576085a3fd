"""Takes a snapshot of a deployment: the status document, and a scrape of every process."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.request import get_or_none
from topology.deployment.deployment import read_deployment
from topology.deployment.state_dir import StateDir
from topology.status.observe import current_status
from topology.top.samples import Samples, parse_samples
from topology.top.view import BROKER_METRICS, MIRROR_METRICS, Snapshot

SCRAPE_TIMEOUT_S: Final = 3.0
SCRAPE_BYTES_MAX: Final = 64 * 1024 * 1024
SCRAPES_AT_ONCE: Final = 16


def take_snapshot(state: StateDir) -> Snapshot:
    """Return what is known now. Raises DeployError if nothing is deployed there."""
    credentials = HttpCredentials(read_deployment(state).http)
    status = current_status(state)
    wanted = dict(_processes(status))
    taken_s = time.monotonic()
    with ThreadPoolExecutor(min(SCRAPES_AT_ONCE, max(len(wanted), 1))) as pool:
        scraped = pool.map(partial(_scrape, credentials), wanted, wanted.values())
        scrapes = dict(zip(wanted, scraped, strict=True))
    found = {url: samples for url, samples in scrapes.items() if samples is not None}
    return Snapshot(taken_s=taken_s, status=status, scrapes=found)


def _processes(status: Mapping[str, Any]) -> Iterator[tuple[str, Collection[str]]]:
    """Yield the URL of each process that runs, and the metrics to read there."""
    for cluster in status["clusters"]:
        for broker in cluster["brokers"] or ():
            if broker.get("url"):
                yield broker["url"], BROKER_METRICS
    for mirror in status["mirrors"]:
        if mirror["url"]:
            yield mirror["url"], MIRROR_METRICS


def _scrape(credentials: HttpCredentials, url: str, names: Collection[str]) -> Samples | None:
    """Return the samples of a process; None if it does not answer with metrics."""
    body = get_or_none(
        credentials, f"{url}/metrics", timeout_s=SCRAPE_TIMEOUT_S, bytes_max=SCRAPE_BYTES_MAX
    )
    try:
        return None if body is None else parse_samples(body.decode(), names)
    except ValueError:
        return None
