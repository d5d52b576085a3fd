"""Reports of mirror workers and aggregators over HTTP: the links, their lag and their probes.

A worker or an aggregator that does not respond, or refuses the token, is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from local_cluster.http_security.credentials import HttpCredentials
from local_cluster.http_security.request import get_or_none
from local_cluster.http_security.settings import HttpClientSecurity
from topology.deployment.deployment import Deployment
from topology.status.document import row_url
from topology.status.probes import probed_targets, probes_by_link

REPORT_TIMEOUT_S = 2.0
FETCHES_MAX = 16
"""Requests that run at the same time."""


def fetch_link_reports(
    deployment: Deployment, report: Mapping[str, Any] | None
) -> dict[str, Mapping[str, Any]]:
    """Return the mirror workers' report on each link, by link name.

    If workers on other hosts copy a part of a link, only the target's aggregator knows the lag of
    the whole link.
    """
    rows = {row["key"]: row for row in report["daemons"]} if report is not None else {}
    workers = [row_url(row) for row in rows.values() if row["role"] == "mirror"]
    reported = {
        str(link["name"]): link
        for response in _fetch_all(
            deployment.http, (f"{url}/status" for url in workers if url is not None)
        )
        for link in _listed_links(response)
        if "name" in link
    }
    aggregators = [
        row_url(rows.get(cluster.aggregator))
        for cluster in deployment.clusters
        if cluster.aggregator is not None
        and any(
            link.target == cluster.name and _is_partial(reported.get(link.name))
            for link in deployment.links
        )
    ]
    whole = {
        str(link["link"]): link
        for response in _fetch_all(
            deployment.http, (f"{url}/api/v1/lag" for url in aggregators if url is not None)
        )
        for link in _listed_links(response)
        if "link" in link
    }
    return {
        name: {**link, **_figures_of_all(link, whole.get(name))} if _is_partial(link) else link
        for name, link in reported.items()
    }


def fetch_probes(
    deployment: Deployment, report: Mapping[str, Any] | None
) -> dict[str, Mapping[str, Any]]:
    """Return the aggregators' report on each link that they probe, by link name."""
    rows = {row["key"]: row for row in report["daemons"]} if report is not None else {}
    targets = probed_targets(deployment)
    urls = [
        row_url(rows.get(cluster.aggregator))
        for cluster in deployment.clusters
        if cluster.aggregator is not None and cluster.name in targets
    ]
    return probes_by_link(
        _fetch_all(deployment.http, (f"{url}/api/v1/probe" for url in urls if url is not None))
    )


def fetch_completeness(
    deployment: Deployment, report: Mapping[str, Any] | None, query: str = ""
) -> dict[str, Mapping[str, Any] | None]:
    """Return `/api/v1/completeness` of each aggregator, by cluster; None without a response."""
    rows = {row["key"]: row for row in report["daemons"]} if report is not None else {}
    urls = {
        cluster.name: url
        for cluster in deployment.clusters
        if cluster.aggregator is not None
        and (url := row_url(rows.get(cluster.aggregator))) is not None
    }
    found = _fetch_all(
        deployment.http, (f"{url}/api/v1/completeness{query}" for url in urls.values())
    )
    return dict(zip(urls, found, strict=True))


def _is_partial(link: Mapping[str, Any] | None) -> bool:
    """Return whether a worker copies only a part of a link's partitions."""
    return link is not None and link.get("partitions") != link.get("partitions_known")


def _figures_of_all(link: Mapping[str, Any], lag: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a link's figures with the lag that its aggregator reports; null without a report.

    Gaps are null: the worker knows those of its own part.
    """
    found = lag or {}
    topics = {part["topic"] for part in found.get("partitions") or ()}
    return {
        "topics": len(topics) if found.get("records") is not None else None,
        "partitions": link.get("partitions_known"),
        "gaps": None,
        "lag_records": found.get("records"),
        "lag_seconds": found.get("seconds"),
    }


def _fetch_all(security: HttpClientSecurity, urls: Iterable[str]) -> list[Any]:
    """Return the JSON document of each URL; None without a response."""
    credentials = HttpCredentials(security)

    def fetch(url: str) -> Any:
        body = get_or_none(credentials, url, timeout_s=REPORT_TIMEOUT_S)
        try:
            return None if body is None else json.loads(body)
        except ValueError:
            return None

    wanted = list(urls)
    if not wanted:
        return []
    with ThreadPoolExecutor(min(len(wanted), FETCHES_MAX)) as pool:
        return list(pool.map(fetch, wanted))


def _listed_links(document: Any) -> list[Mapping[str, Any]]:
    links = document.get("links") if isinstance(document, dict) else None
    if not isinstance(links, list):
        return []
    return [link for link in links if isinstance(link, dict)]
