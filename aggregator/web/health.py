"""Health and metrics: /healthz, /livez, /readyz, /metrics, and the page at `/`.

The process is alive if it responds. It is ready if the topics of the aggregate are known and every
existing offset map was read to its end once. A link that has not started, or a source that does not
respond, never makes it unready.
"""

from __future__ import annotations

from aiohttp import web

from aggregator.aggregate import Aggregate
from aggregator.web import parameters, views
from aggregator.web.page import render_page
from aggregator.web.routes import AGGREGATE, METRICS

routes = web.RouteTableDef()


@routes.get("/healthz")
@routes.get("/livez")
async def healthz(_: web.Request) -> web.Response:
    """Return 200 while the process responds."""
    return web.json_response({"state": "alive"})


@routes.get("/readyz")
async def readyz(request: web.Request) -> web.Response:
    """Return 200 or 503; `?verbose=1` adds every check."""
    parameters.check_names(request.query, ("verbose",))
    aggregate = request.app[AGGREGATE]
    document: views.Document = {"ready": aggregate.is_ready}
    if request.query.get("verbose", "0") not in ("0", "false"):
        document["checks"] = readiness_checks(aggregate)
    return web.json_response(document, status=200 if aggregate.is_ready else 503)


def readiness_checks(aggregate: Aggregate) -> list[views.Document]:
    """Return every check with its state."""
    checks: list[views.Document] = [
        {
            "check": "topics of the aggregate",
            "state": "known" if aggregate.partition_counts is not None else "unknown",
            "passed": aggregate.partition_counts is not None,
            "problem": aggregate.problem,
        }
    ]
    for link, status in aggregate.maps.topics():
        checks.append(
            {
                "check": f"offset map of link {link}",
                "state": status.state.value,
                "passed": link not in aggregate.links_loading,
                "problem": status.problem,
            }
        )
    return checks


@routes.get("/metrics")
async def metrics(request: web.Request) -> web.Response:
    """Return the metrics in Prometheus text format."""
    return web.Response(
        body=request.app[METRICS].render(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


@routes.get("/")
async def page(request: web.Request) -> web.Response:
    """Return the page with links, audits, probes and merged topics."""
    aggregate = request.app[AGGREGATE]
    catalog = aggregate.catalog()
    topics = None if catalog is None else views.topics(aggregate, catalog)
    probes = views.probes(aggregate, aggregate.settings.links)
    text = render_page(
        views.links(aggregate),
        aggregate.audit_documents(),
        probes,
        topics,
        aggregate.settings.aggregate,
    )
    return web.Response(text=text, content_type="text/html")
