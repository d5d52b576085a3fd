"""The aiohttp application: its routes, and one middleware for errors and durations."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from aggregator.aggregate import Aggregate
from aggregator.maps.catalog import nearest
from aggregator.metrics import AggregatorMetrics
from aggregator.web import health, loggers, routes
from aggregator.web.problems import Problem, bad_parameter, not_loaded
from aggregator.web.routes import AGGREGATE, METRICS, RETRY_AFTER_SECONDS
from local_cluster.http_security.guard import HttpGuard
from mirror_maker.formats import MapFormatError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

UNMATCHED_ROUTE = "unmatched"
"""Route label of requests to unknown addresses: their paths must not become time series."""

log = logging.getLogger(__name__)


def make_app(aggregate: Aggregate, metrics: AggregatorMetrics, guard: HttpGuard) -> web.Application:
    """Return the application for this state; it starts no tasks."""
    app = web.Application(middlewares=[_answer, *guard.middlewares])
    app[AGGREGATE] = aggregate
    app[METRICS] = metrics
    app.add_routes(health.routes)
    app.add_routes(routes.routes)
    app.add_routes(loggers.routes)
    return app


@web.middleware
async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    started = time.monotonic()
    try:
        response = await handler(request)
    except Problem as problem:
        response = problem.response()
    except MapFormatError as error:
        response = not_loaded(
            f"the offset map is not readable: {error}", retry_after_seconds=RETRY_AFTER_SECONDS
        ).response()
    except web.HTTPNotFound:
        response = _unknown_address(request).response()
    except web.HTTPMethodNotAllowed as error:
        response = Problem(
            405,
            "method_not_allowed",
            f"{request.path} allows only {', '.join(sorted(error.allowed_methods))}",
            headers={"Allow": ", ".join(sorted(error.allowed_methods))},
        ).response()
    except web.HTTPException as error:
        response = Problem(
            error.status,
            HTTPStatus(error.status).phrase.lower().replace(" ", "_"),
            error.text or error.reason,
        ).response()
    except web.RequestPayloadError as error:
        response = bad_parameter("body", f"the body is not readable: {error}").response()
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        response = Problem(500, "internal", "this request failed; see the log").response()
    resource = request.match_info.route.resource
    request.app[METRICS].record_request(
        request.method,
        UNMATCHED_ROUTE if resource is None else resource.canonical,
        response.status,
        time.monotonic() - started,
    )
    return response


def _unknown_address(request: web.Request) -> Problem:
    known = [resource.canonical for resource in request.app.router.resources()]
    return Problem(
        404,
        "not_found",
        f"there is no {request.path[:200]!r} here",
        did_you_mean=nearest(request.path, known),
    )
