"""Reports of mirror workers and aggregators over HTTP."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

from tests.unit.topology.status.test_document import DEPLOYMENT, OK_PROBE, PROBED, report, row
from topology.status.reports import fetch_link_reports, fetch_probes


@contextlib.contextmanager
def serving(documents: dict[str, Any]) -> Iterator[int]:
    """A port that serves these documents, by path."""

    class Responses(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in documents else 404)
            self.end_headers()
            self.wfile.write(json.dumps(documents.get(self.path)).encode())

        def log_message(self, *_: Any) -> None:
            return

    server = http.server.HTTPServer(("127.0.0.1", 0), Responses)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def test_mirror_workers_are_asked_over_http() -> None:
    with serving({"/status": {"links": [{"name": "l", "state": "running"}]}}) as port:
        rows = report(row("m", "mirror", ready={"http_port": port}))
        assert fetch_link_reports(DEPLOYMENT, rows) == {"l": {"name": "l", "state": "running"}}
    assert fetch_link_reports(DEPLOYMENT, rows) == {}
    assert fetch_link_reports(DEPLOYMENT, None) == {}


def test_the_aggregator_knows_the_lag_of_a_link_that_workers_elsewhere_share() -> None:
    reported = {
        "name": "l",
        "state": "running",
        "topics": 1,
        "partitions": 1,
        "partitions_known": 3,
        "lag_records": 5,
        "lag_seconds": 0.5,
    }
    parts = [{"topic": topic} for topic in ("a", "a", "b")]
    lag = {"link": "l", "records": 9, "seconds": 2.0, "partitions_known": 3, "partitions": parts}
    with serving({"/status": {"links": [reported]}, "/api/v1/lag": {"links": [lag]}}) as port:
        worker = row("m", "mirror", ready={"http_port": port})
        known = report(worker, row("g", "aggregator", ready={"http_port": port}))
        whole = fetch_link_reports(DEPLOYMENT, known)["l"]
        part = fetch_link_reports(DEPLOYMENT, report(worker))["l"]
    figures = ("topics", "partitions", "lag_records", "lag_seconds")
    assert [whole[key] for key in figures] == [2, 3, 9, 2.0]
    assert [part[key] for key in figures] == [None, 3, None, None]  # not the lag of a part
    assert part["state"] == "running"


def test_aggregators_are_asked_for_the_links_that_they_probe() -> None:
    with serving({"/api/v1/probe": {"links": [OK_PROBE, {"no": "link"}, 7]}}) as port:
        rows = report(row("g", "aggregator", ready={"http_port": port}))
        assert fetch_probes(PROBED, rows) == {"l": OK_PROBE}
        assert fetch_probes(DEPLOYMENT, rows) == {}
    assert fetch_probes(PROBED, rows) == {}
    assert fetch_probes(PROBED, None) == {}
    with serving({"/api/v1/probe": ["no document"]}) as port:
        rows = report(row("g", "aggregator", ready={"http_port": port}))
        assert fetch_probes(PROBED, rows) == {}
